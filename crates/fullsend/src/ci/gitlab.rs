//! Jobs of GitLab CI. A webhook of the project starts the pipeline on the default branch, so that no merge request changes the
//! pipeline or `.fullsend`; its head is fetched as data for the agent.

use super::{CiSystem, Job, Pipeline, VariableKind, indent};

pub(super) fn render(pipeline: &Pipeline) -> String {
    let mut text = pipeline.heading(CiSystem::Gitlab);
    text += "# .gitlab-ci.yml includes it: `include: [{ local: .gitlab/fullsend.yml }]`.\n";
    let mut variables = vec!["FULLSEND_RELEASE"];
    variables.extend(pipeline.names(VariableKind::Setting));
    text += &format!("# Set these CI/CD variables of the project: {}.\n", variables.join(", "));
    for (kind, words) in
        [(VariableKind::Secret, "as masked and protected"), (VariableKind::File, "as protected files")]
    {
        let names = pipeline.names(kind);
        if !names.is_empty() {
            text += &format!("# Set these {words}: {}.\n", names.join(", "));
        }
    }
    text += COMMON;
    for job in &pipeline.jobs {
        text += &run(pipeline, job);
    }
    text
}

const COMMON: &str = r#".fullsend:
  image: debian:stable-slim
  variables:
    GIT_DEPTH: 0
  interruptible: false
  before_script:
    - |
      if ! command -v fullsend >/dev/null; then
        apt-get update -q && apt-get install -y -q --no-install-recommends ca-certificates curl git
        curl -fsSL --proto =https "$FULLSEND_RELEASE/install.sh" -o /tmp/install-fullsend.sh
        sh /tmp/install-fullsend.sh --from "$FULLSEND_RELEASE" --prefix /usr/local
      fi
  after_script:
    - if [ -d "${TMPDIR:-/tmp}/fullsend-runs-$CI_JOB_ID" ]; then rm -rf fullsend-runs; mv "${TMPDIR:-/tmp}/fullsend-runs-$CI_JOB_ID" fullsend-runs; fi
  artifacts:
    when: always
    paths: [fullsend-runs/]
    expire_in: 30 days
"#;

fn run(pipeline: &Pipeline, job: &Job) -> String {
    let name = &job.harness;
    let minutes = job.timeout_minutes;
    let by_event = match &job.trigger {
        Some(_) => {
            "    - if: $CI_PIPELINE_SOURCE == \"trigger\" && $TRIGGER_PAYLOAD && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH\n"
        }
        None => "",
    };
    let variables = match job.names(VariableKind::Event).any(|name| name == "REPO_FULL_NAME") {
        true => "  variables:\n    REPO_FULL_NAME: $CI_PROJECT_PATH\n",
        false => "",
    };
    let script = indent(&script(pipeline, job), 6);
    format!(
        r#"fullsend-{name}:
  extends: .fullsend
  timeout: {minutes} minutes
  resource_group: fullsend-{name}
{variables}  rules:
{by_event}    - if: $CI_PIPELINE_SOURCE == "web" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH && $FULLSEND_HARNESS == "{name}"
  script:
    - |
{script}"#
    )
}

fn script(pipeline: &Pipeline, job: &Job) -> String {
    let name = &job.harness;
    let who = pipeline.writers_option();
    let run = format!(
        "fullsend run {name} --config-ref \"$CI_COMMIT_SHA\" --output-dir \"${{TMPDIR:-/tmp}}/fullsend-runs-$CI_JOB_ID\" \"$@\"\n"
    );
    if job.trigger.is_none() {
        return format!("set -eu\nset --\n{run}");
    }
    format!(
        r#"set -eu
set --
if [ -n "${{TRIGGER_PAYLOAD:-}}" ]; then
  starts=$(fullsend trigger test {name} --list{who} --config-ref "$CI_COMMIT_SHA" --event "$TRIGGER_PAYLOAD")
  if [ "$starts" != '["{name}"]' ]; then
    echo "the event does not start {name}"
    exit 0
  fi
  head=$(fullsend trigger head --event "$TRIGGER_PAYLOAD")
  if [ -n "$head" ]; then
    # From here on the files of the merge request are data for the agent.
    git fetch -q origin "$head"
    git checkout -q --detach FETCH_HEAD
  fi
  set -- --event "$TRIGGER_PAYLOAD"
fi
{run}"#
    )
}
