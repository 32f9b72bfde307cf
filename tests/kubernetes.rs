//! The Kustomize base of the server and the workers: every document is read, and what one names, another has. Where `kubectl` and
//! `kubernetes-validate` are, they read the base too.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value as Json, json};
use yaml::{ParseLimits, Sources};

use crate::examples::json as to_json;
use crate::python_packages::{install, run};
use crate::support::{World, has_program, root, skip};

const BASE: &str = "packaging/kubernetes";

fn read(text: &str) -> Json {
    let mut sources = Sources::default();
    let id = sources.add("x", text.to_owned());
    to_json(
        &yaml::parse(&sources, id, ParseLimits::default())
            .unwrap_or_else(|error| panic!("{error:?}\n{text}")),
    )
}

fn file(name: &str) -> String {
    fs::read_to_string(root().join(BASE).join(name)).unwrap()
}

/// The base: its kustomization, and the documents of all files.
struct Base {
    kustomization: Json,
    documents: Vec<Json>,
}

impl Base {
    fn load() -> Self {
        let kustomization = read(&file("kustomization.yaml"));
        let listed: BTreeSet<String> = texts(&kustomization["resources"]).into_iter().collect();
        let entries = fs::read_dir(root().join(BASE)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = names.filter(|name| name != "kustomization.yaml").collect();
        assert_eq!(listed, there, "every file is a resource");
        let documents = listed.iter().flat_map(|name| {
            let text = file(name);
            text.split("\n---\n").map(read).collect::<Vec<_>>()
        });
        Self { kustomization, documents: documents.collect() }
    }

    fn of_kind(&self, kind: &str) -> Vec<&Json> {
        self.documents.iter().filter(|document| document["kind"] == kind).collect()
    }

    fn has(&self, kind: &str, name: &Json) -> bool {
        self.of_kind(kind).iter().any(|document| document["metadata"]["name"] == *name)
    }

    /// The deployment whose pods have these labels.
    fn selected(&self, labels: &Json) -> &Json {
        let wanted = labels.as_object().unwrap();
        let matches = |deployment: &&Json| {
            let pod = &deployment["spec"]["template"]["metadata"]["labels"];
            wanted.iter().all(|(key, value)| pod[key] == *value)
        };
        let found: Vec<&Json> = self.of_kind("Deployment").into_iter().filter(matches).collect();
        assert_eq!(found.len(), 1, "{labels}");
        found[0]
    }
}

fn texts(list: &Json) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn items(list: &Json) -> impl Iterator<Item = &Json> {
    list.as_array().into_iter().flatten()
}

fn containers(deployment: &Json) -> Vec<&Json> {
    let pod = &deployment["spec"]["template"]["spec"];
    items(&pod["initContainers"]).chain(items(&pod["containers"])).collect()
}

fn has_port(deployment: &Json, name: &Json) -> bool {
    containers(deployment).iter().any(|one| items(&one["ports"]).any(|port| port["name"] == *name))
}

#[test]
fn what_a_document_names_another_one_has() {
    let base = Base::load();
    for deployment in base.of_kind("Deployment") {
        let spec = &deployment["spec"];
        let selected = base.selected(&spec["selector"]["matchLabels"]);
        assert_eq!(
            selected["metadata"]["name"], deployment["metadata"]["name"],
            "a deployment selects its own pods"
        );
        let pod = &spec["template"]["spec"];
        assert!(base.has("ServiceAccount", &pod["serviceAccountName"]), "{}", pod["serviceAccountName"]);
        for volume in items(&pod["volumes"]) {
            let claim = &volume["persistentVolumeClaim"]["claimName"];
            assert!(claim.is_null() || base.has("PersistentVolumeClaim", claim), "{claim}");
        }
        for container in containers(deployment) {
            for mount in items(&container["volumeMounts"]) {
                let is_there = items(&pod["volumes"]).any(|volume| volume["name"] == mount["name"]);
                assert!(is_there, "{mount}");
            }
        }
    }
    for service in base.of_kind("Service") {
        let deployment = base.selected(&service["spec"]["selector"]);
        assert!(
            items(&service["spec"]["ports"]).all(|port| has_port(deployment, &port["targetPort"])),
            "{service:#}"
        );
    }
    let policies = base.of_kind("NetworkPolicy");
    for policy in &policies {
        let deployment = base.selected(&policy["spec"]["podSelector"]["matchLabels"]);
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        let mut ports = items(&policy["spec"]["ingress"]).flat_map(|rule| items(&rule["ports"]));
        assert!(ports.all(|port| has_port(deployment, &port["port"])), "{policy:#}");
    }
    assert_eq!(policies.len(), base.of_kind("Deployment").len(), "every deployment has a network policy");
    for scaler in base.of_kind("HorizontalPodAutoscaler") {
        let target = &scaler["spec"]["scaleTargetRef"];
        assert!(base.has(target["kind"].as_str().unwrap(), &target["name"]), "{target}");
    }
}

/// Secrets are made by hand: the page that says how names each. Settings come from the kustomization.
#[test]
fn settings_are_generated_and_secrets_are_documented() {
    let base = Base::load();
    let page = fs::read_to_string(root().join("docs/dispatch.md")).unwrap();
    let maps: Vec<&Json> = items(&base.kustomization["configMapGenerator"]).map(|map| &map["name"]).collect();
    for container in base.of_kind("Deployment").into_iter().flat_map(containers) {
        for source in items(&container["envFrom"]) {
            match source["secretRef"]["name"].as_str() {
                Some(secret) => {
                    assert!(page.contains(&format!("create secret generic {secret} ")), "{secret}");
                }
                None => assert!(maps.contains(&&source["configMapRef"]["name"]), "{source}"),
            }
        }
    }
    let images: Vec<&Json> = items(&base.kustomization["images"]).map(|image| &image["name"]).collect();
    let used = base
        .of_kind("Deployment")
        .into_iter()
        .flat_map(containers)
        .all(|one| images.contains(&&one["image"]));
    assert!(used, "every image is set in one place");
}

/// The program has each option, and a probe asks for a name that the server answers to.
#[test]
fn arguments_are_options_of_the_program() {
    let world = World::new();
    for container in Base::load().of_kind("Deployment").into_iter().flat_map(containers) {
        let words = texts(&container["args"]);
        let help = world.run(&[words[0].as_str(), "--help"]).out;
        let mut names = Vec::new();
        for word in &words[1..] {
            let (option, value) = word.split_once('=').unwrap();
            assert!(help.contains(&format!("{option} <")), "{word}: {help}");
            if option == "--host" {
                names.push(value);
            }
        }
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let header = &container[probe]["httpGet"]["httpHeaders"][0];
            assert!(header.is_null() || names.contains(&header["value"].as_str().unwrap()), "{probe}");
            let command = &container[probe]["exec"]["command"];
            if !command.is_null() {
                let words = texts(command);
                let asked: Vec<&str> = words[1..].iter().map(String::as_str).collect();
                let ran = world.run(&[&asked[..], &["--store", "probe.db"]].concat());
                assert_eq!(ran.code, 0, "{}", ran.err);
            }
        }
    }
}

/// A pod has what the sandbox needs, no more: the same as a job of `dispatch`, and a root directory that cannot be written.
#[test]
fn pods_have_the_security_context_of_a_dispatched_job() {
    let world = World::with_harness();
    world.write("repo/requests.jsonl", "{\"harness\":\"triage\"}\n");
    let ran = world.run(&["dispatch", "send", "requests.jsonl", "--engine", "kubernetes", "--image", "x"]);
    let job: Json = serde_json::from_str(ran.out.split("---\n").nth(2).unwrap()).unwrap();
    let job = &job["spec"]["template"]["spec"];
    let mut expected = job["containers"][0]["securityContext"].clone();
    expected["readOnlyRootFilesystem"] = json!(true);
    for deployment in Base::load().of_kind("Deployment") {
        let pod = &deployment["spec"]["template"]["spec"];
        for field in ["hostUsers", "automountServiceAccountToken", "securityContext"] {
            assert_eq!(pod[field], job[field], "{field}");
        }
        for container in containers(deployment) {
            assert_eq!(container["securityContext"], expected, "{}", container["name"]);
        }
    }
}

#[test]
fn kustomize_builds_the_base_and_a_validator_accepts_it() {
    if !has_program("kubectl", "kubernetes") {
        return;
    }
    let validator = match install("kubernetes-validate", "kubernetes", &["kubernetes-validate"]) {
        Ok(place) => place.join("bin/kubernetes-validate"),
        Err(why) => return skip("kubernetes", why.lines().last().unwrap_or("pip failed")),
    };
    let built = run(Command::new("kubectl").arg("kustomize").arg(root().join(BASE))).unwrap();
    assert_eq!(built.matches("\nkind: Deployment\n").count(), 2, "{built}");
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), &built).unwrap();
    run(Command::new(validator).arg("--strict").arg(file.path())).unwrap();
}
