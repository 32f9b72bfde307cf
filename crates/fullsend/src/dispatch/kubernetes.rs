//! Kubernetes: one indexed `batch/v1` Job, with the requests in a ConfigMap, secrets by reference, and the security context that our
//! sandbox needs: an ordinary user without capabilities, in a user namespace of its own, that may mount a fresh `/proc`.

use serde_json::{Value as Json, json};

/// How a Job is written.
#[derive(Clone, Debug)]
pub struct KubernetesOptions {
    pub name: String,
    pub namespace: Option<String>,
    /// The image of the container, which has `fullsend` and the repository.
    pub image: String,
    pub parallel: usize,
    /// Secrets whose keys become variables of the run.
    pub secrets: Vec<String>,
    /// The volume claim for results; without it they stay in the pod.
    pub claim: Option<String>,
    pub cpu: String,
    pub memory: String,
    /// Seconds between the first signal and the end.
    pub grace_seconds: u64,
}

/// Where the folder of the dispatch is in a container.
const FOLDER: &str = "/dispatch";
const REQUESTS: &str = "/requests";

/// The documents to apply: the requests, and the Job. They are written as JSON, which is valid YAML.
pub fn documents(requests: &str, count: usize, options: &KubernetesOptions) -> Vec<Json> {
    let KubernetesOptions { name, namespace, parallel, grace_seconds, .. } = options;
    let mut metadata = json!({ "name": name, "labels": { "app.kubernetes.io/name": "fullsend" } });
    if let (Some(namespace), Json::Object(fields)) = (namespace, &mut metadata) {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    let pod = json!({
        "metadata": { "labels": { "app.kubernetes.io/name": "fullsend" } },
        "spec": {
            // A failed run is not repeated: its result says why. The engine repeats only jobs that it lost.
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_seconds,
            "automountServiceAccountToken": false,
            "hostUsers": false,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000 },
            "containers": [container(options)],
            "volumes": volumes(options),
        },
    });
    vec![
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "requests.jsonl": requests } }),
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "completionMode": "Indexed",
                "completions": count,
                "parallelism": parallel,
                "backoffLimitPerIndex": 0,
                "maxFailedIndexes": count,
                "template": pod,
            },
        }),
    ]
}

fn container(options: &KubernetesOptions) -> Json {
    let KubernetesOptions { image, secrets, cpu, memory, .. } = options;
    json!({
        "name": "run",
        "image": image,
        "command": ["fullsend", "dispatch", "job", FOLDER, "--requests", format!("{REQUESTS}/requests.jsonl")],
        "envFrom": secrets.iter().map(|name| json!({ "secretRef": { "name": name } })).collect::<Vec<_>>(),
        "env": [{ "name": "XDG_STATE_HOME", "value": "/tmp/state" }, { "name": "HOME", "value": "/tmp" }],
        "resources": { "requests": { "cpu": cpu, "memory": memory }, "limits": { "cpu": cpu, "memory": memory } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            // Our sandbox makes namespaces and mounts of its own, which the default profile and masks refuse.
            "seccompProfile": { "type": "Unconfined" },
            "procMount": "Unmasked",
        },
        "volumeMounts": [
            { "name": "folder", "mountPath": FOLDER },
            { "name": "requests", "mountPath": REQUESTS, "readOnly": true },
            { "name": "temporary", "mountPath": "/tmp" },
        ],
    })
}

fn volumes(options: &KubernetesOptions) -> Json {
    let folder = match &options.claim {
        Some(claim) => json!({ "name": "folder", "persistentVolumeClaim": { "claimName": claim } }),
        None => json!({ "name": "folder", "emptyDir": {} }),
    };
    json!([
        folder,
        { "name": "requests", "configMap": { "name": options.name } },
        { "name": "temporary", "emptyDir": {} },
    ])
}
