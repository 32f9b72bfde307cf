//! Tasks of Tekton, and the listener that starts them with the webhooks of a forge. Only the step that runs `fullsend run` has
//! secrets; values of the event are variables of a step and never text of a script.

use super::{CiSystem, Job, Pipeline, VariableKind, indent};
use crate::harness::names::ForgeName;

pub(super) fn render(pipeline: &Pipeline) -> String {
    let mut text = pipeline.heading(CiSystem::Tekton);
    text += "# Make these first: an image with fullsend and git (packaging/Dockerfile), which the parameter `image` names;\n";
    let mut secrets = pipeline.names(VariableKind::Secret);
    secrets.extend(pipeline.names(VariableKind::File));
    text += &format!("# the Secret `fullsend` with the keys {};\n", listed(&secrets));
    let settings = pipeline.names(VariableKind::Setting);
    text += &format!("# the ConfigMap `fullsend` with the keys {};\n", listed(&settings));
    text += "# the Secret `fullsend-webhook`, whose key `token` is the secret of the webhook.\n";
    for job in &pipeline.jobs {
        text += &task(pipeline, job);
    }
    if pipeline.jobs.iter().any(|job| job.trigger.is_some()) {
        text += &listener(pipeline);
    }
    text
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "(none)".to_owned() } else { names.join(", ") }
}

/// What every task has before its steps.
const TASK_HEAD: &str = r#"  params:
    - name: url
      type: string
      description: The repository to clone.
    - name: base
      type: string
      description: The branch whose .fullsend decides.
      default: main
    - name: event
      type: string
      description: The body of the webhook. Empty, the harness is run by hand.
      default: ""
    - name: kind
      type: string
      description: What GitHub calls the event. GitLab says it in the body.
      default: ""
    - name: image
      type: string
      description: The image with fullsend and git.
      default: fullsend:latest
  workspaces:
    - name: record
      description: Where the records of the runs are kept.
      optional: true
      mountPath: /record
  stepTemplate:
    image: $(params.image)
    workingDir: /fullsend
    env:
      - name: HOME
        value: /fullsend/home
      - name: XDG_STATE_HOME
        value: /fullsend/state
    securityContext:
      runAsNonRoot: true
      runAsUser: 1000
      runAsGroup: 1000
      allowPrivilegeEscalation: false
      capabilities:
        drop: [ALL]
      # The sandbox makes namespaces and mounts of its own, which the default profile and masks refuse. Kubernetes allows an
      # unmasked /proc only in a pod with `hostUsers: false`, which docs/ci.md says how to set.
      seccompProfile:
        type: Unconfined
      procMount: Unmasked
    volumeMounts:
      - name: work
        mountPath: /fullsend
"#;

fn task(pipeline: &Pipeline, job: &Job) -> String {
    let name = &job.harness;
    let resource = job.resource_name();
    let minutes = job.timeout_minutes;
    let decide = indent(&decide(pipeline, job), 8);
    let environment = indent(&environment(job), 8);
    let files: Vec<&str> = job.names(VariableKind::File).collect();
    let mount = if files.is_empty() { "" } else { SECRET_MOUNT };
    let volume = secret_volume(&files);
    format!(
        r#"---
apiVersion: tekton.dev/v1
kind: Task
metadata:
  name: {resource}
spec:
  description: Run the harness {name}. With an event, only if its trigger accepts it.
{TASK_HEAD}  steps:
    - name: decide
      env:
        - name: URL
          value: $(params.url)
        - name: BASE
          value: $(params.base)
        - name: EVENT
          value: $(params.event)
        - name: KIND
          value: $(params.kind)
      script: |
{decide}    - name: run
      timeout: {minutes}m
      env:
        - name: BASE
          value: $(params.base)
        - name: KIND
          value: $(params.kind)
{environment}{mount}      script: |
        #!/bin/sh
        set -eu
        [ -e /fullsend/starts ] || exit 0
        cd /fullsend/repo
        set -- --config-ref "refs/remotes/origin/$BASE"
        if [ -s /fullsend/event.json ]; then
          set -- "$@" --event /fullsend/event.json
          if [ -n "$KIND" ]; then set -- "$@" --event-kind "$KIND"; fi
        fi
        if [ -d /record ]; then set -- "$@" --output-dir /record; fi
        fullsend run {name} "$@"
  volumes:
    - name: work
      emptyDir: {{}}
{volume}"#
    )
}

const SECRET_MOUNT: &str =
    "      volumeMounts:\n        - name: secrets\n          mountPath: /secrets\n          readOnly: true\n";

fn secret_volume(files: &[&str]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let items: String =
        files.iter().map(|name| format!("          - key: {name}\n            path: {name}\n")).collect();
    format!("    - name: secrets\n      secret:\n        secretName: fullsend\n        items:\n{items}")
}

fn decide(pipeline: &Pipeline, job: &Job) -> String {
    let name = &job.harness;
    let who = pipeline.writers_option();
    format!(
        r#"#!/bin/sh
set -eu
git clone -q -- "$URL" repo
cd repo
printf '%s' "$EVENT" > /fullsend/event.json
if [ -z "$EVENT" ]; then touch /fullsend/starts; exit 0; fi
set -- --event /fullsend/event.json
if [ -n "$KIND" ]; then set -- "$@" --kind "$KIND"; fi
starts=$(fullsend trigger test {name} --list{who} --config-ref "refs/remotes/origin/$BASE" "$@")
if [ "$starts" != '["{name}"]' ]; then echo "the event does not start {name}"; exit 0; fi
head=$(fullsend trigger head "$@")
if [ -n "$head" ]; then
  # From here on the files of the pull request are data for the agent.
  git fetch -q origin "$head"
  git checkout -q --detach FETCH_HEAD
fi
touch /fullsend/starts
"#
    )
}

fn environment(job: &Job) -> String {
    let mut text = String::new();
    for (name, kind) in &job.variables {
        text += &match kind {
            VariableKind::Event => String::new(),
            VariableKind::Secret => format!(
                "- name: {name}\n  valueFrom:\n    secretKeyRef:\n      name: fullsend\n      key: {name}\n"
            ),
            VariableKind::Setting => format!(
                "- name: {name}\n  valueFrom:\n    configMapKeyRef:\n      name: fullsend\n      key: {name}\n"
            ),
            VariableKind::File => format!("- name: {name}\n  value: /secrets/{name}\n"),
        };
    }
    text
}

fn listener(pipeline: &Pipeline) -> String {
    let is_gitlab = pipeline.forge == ForgeName::Gitlab;
    let (interceptor, kind, url, base, events) = if is_gitlab {
        let events = ["Issue Hook", "Merge Request Hook", "Note Hook"].map(str::to_owned).to_vec();
        ("gitlab", "\"\"", "$(body.project.git_http_url)", "$(body.project.default_branch)", events)
    } else {
        let url = "$(body.repository.clone_url)";
        let base = "$(body.repository.default_branch)";
        (
            "github",
            "$(header.X-GitHub-Event)",
            url,
            base,
            pipeline.subscriptions().into_keys().map(str::to_owned).collect(),
        )
    };
    let events: String = events.iter().map(|event| format!("              - {event}\n")).collect();
    let runs: String = pipeline.jobs.iter().filter(|job| job.trigger.is_some()).map(task_run).collect();
    format!(
        r#"---
apiVersion: triggers.tekton.dev/v1beta1
kind: TriggerBinding
metadata:
  name: fullsend
spec:
  params:
    - name: event
      value: $(body)
    - name: kind
      value: {kind}
    - name: url
      value: {url}
    - name: base
      value: {base}
---
apiVersion: triggers.tekton.dev/v1beta1
kind: TriggerTemplate
metadata:
  name: fullsend
spec:
  params:
    - name: event
    - name: kind
    - name: url
    - name: base
  resourcetemplates:
{runs}---
apiVersion: triggers.tekton.dev/v1beta1
kind: EventListener
metadata:
  name: fullsend
spec:
  serviceAccountName: fullsend-listener
  triggers:
    - name: fullsend
      interceptors:
        - ref:
            name: {interceptor}
            kind: ClusterInterceptor
          params:
            - name: secretRef
              value:
                secretName: fullsend-webhook
                secretKey: token
            - name: eventTypes
              value:
{events}      bindings:
        - ref: fullsend
      template:
        ref: fullsend
"#
    )
}

/// Minutes for the step before the run.
const DECIDE_MINUTES: u64 = 10;

fn task_run(job: &Job) -> String {
    let resource = job.resource_name();
    let minutes = job.timeout_minutes + DECIDE_MINUTES;
    format!(
        r#"    - apiVersion: tekton.dev/v1
      kind: TaskRun
      metadata:
        generateName: {resource}-
      spec:
        serviceAccountName: fullsend
        timeout: {minutes}m
        taskRef:
          name: {resource}
        podTemplate:
          automountServiceAccountToken: false
          securityContext:
            fsGroup: 1000
        params:
          - name: event
            value: $(tt.params.event)
          - name: kind
            value: $(tt.params.kind)
          - name: url
            value: $(tt.params.url)
          - name: base
            value: $(tt.params.base)
"#
    )
}
