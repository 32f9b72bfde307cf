//! A workflow of GitHub Actions. The head of a pull request is checked out as data for the agent, in a job whose only step
//! with secrets is `fullsend run`; the configuration is read from the base. There is no `pull_request_target`, no script has
//! an expression in it, and actions are pinned by commit.

use super::{CiSystem, Job, Pipeline, VariableKind, indent};

const CHECKOUT: &str = "# v4.2.2\nuses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683\n";
const UPLOAD: &str = "# v4.6.2\nuses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02\n";

/// Why the linter's warning about this event does not apply here.
const COMMENT_IS_DATA: &str = " # zizmor: ignore[dangerous-triggers] .fullsend is read from the base, and what anybody writes is data for the agent";

/// The branch whose `.fullsend` decides.
const BASE: &str = "${{ github.event.pull_request.base.ref || github.event.repository.default_branch }}";

/// What the agent works on: the head of the pull request that the event is about, or the default branch.
const HEAD: &str = "${{ github.event.pull_request.head.sha || (github.event.issue.pull_request && format('refs/pull/{0}/head', github.event.issue.number)) || '' }}";

/// The concurrency group: one run of a harness at a time for the same issue or pull request.
const SUBJECT: &str =
    "${{ github.event.pull_request.number || github.event.issue.number || inputs.number || github.run_id }}";

const INSTALL: &str = r#"- name: Install fullsend
  env:
    RELEASE: ${{ vars.FULLSEND_RELEASE }}
  run: |
    curl -fsSL --proto =https "$RELEASE/install.sh" -o "$RUNNER_TEMP/install-fullsend.sh"
    sh "$RUNNER_TEMP/install-fullsend.sh" --from "$RELEASE" --prefix "$RUNNER_TEMP/fullsend"
    echo "$RUNNER_TEMP/fullsend/bin" >> "$GITHUB_PATH"
"#;

const PREPARE: &str = r#"- name: Prepare the sandbox
  run: |
    # Ubuntu 24.04 forbids user namespaces for programs without an AppArmor profile.
    if ! unshare --user --map-root-user true 2>/dev/null; then
      sudo -n sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0 2>/dev/null || true
    fi
    if ! unshare --user --map-root-user true 2>/dev/null; then
      echo "::error::this runner allows no user namespaces, which the sandbox needs; docs/platforms.md says how to allow them"
      exit 1
    fi
"#;

pub(super) fn render(pipeline: &Pipeline) -> String {
    let events = subscriptions(pipeline);
    let mut text = pipeline.heading(CiSystem::Github);
    text += &settings(pipeline);
    text += "name: fullsend\non:\n";
    text += &indent(&events, 2);
    text += &indent(&by_hand(pipeline), 2);
    text += "permissions: {}\njobs:\n";
    let has_decision = !events.is_empty();
    if has_decision {
        text += &indent(&decide(pipeline), 2);
    }
    for job in &pipeline.jobs {
        text += &indent(&run(job, has_decision), 2);
    }
    text
}

/// The comment that lists the variables and secrets to set.
fn settings(pipeline: &Pipeline) -> String {
    let mut variables = vec!["FULLSEND_RELEASE"];
    variables.extend(pipeline.names(VariableKind::Setting));
    let mut secrets = pipeline.names(VariableKind::Secret);
    secrets.extend(pipeline.names(VariableKind::File));
    let mut text = format!("# Set these variables of the repository: {}.\n", variables.join(", "));
    if !secrets.is_empty() {
        text += &format!("# Set these secrets of the environment `fullsend`: {}.\n", secrets.join(", "));
    }
    text
}

fn subscriptions(pipeline: &Pipeline) -> String {
    let mut text = String::new();
    for (event, types) in pipeline.subscriptions() {
        let why = if event == "issue_comment" { COMMENT_IS_DATA } else { "" };
        text += &format!("{event}:{why}\n  types: [{}]\n", types.join(", "));
    }
    text
}

fn by_hand(pipeline: &Pipeline) -> String {
    let names: Vec<String> = pipeline.jobs.iter().map(|job| format!("'{}'", job.harness)).collect();
    format!(
        "workflow_dispatch:\n  inputs:\n    harness:\n      description: The harness to run\n      required: true\n      type: choice\n      options: [{}]\n    number:\n      description: The number of the issue or pull request that it is about\n",
        names.join(", ")
    )
}

fn decide(pipeline: &Pipeline) -> String {
    let install = indent(INSTALL, 4);
    let checkout = indent(CHECKOUT, 6);
    let who = pipeline.writers_option();
    format!(
        r#"decide:
  name: Decide
  if: github.event_name != 'workflow_dispatch'
  runs-on: ubuntu-24.04
  timeout-minutes: 10
  permissions:
    contents: read # to read .fullsend
  concurrency:
    group: fullsend-decide-${{{{ github.run_id }}}}
    cancel-in-progress: false
  outputs:
    harnesses: ${{{{ steps.decide.outputs.harnesses }}}}
  steps:
{install}    - name: Check out the branch whose .fullsend decides
{checkout}      with:
        ref: {BASE}
        persist-credentials: false
    - name: Decide which harnesses the event starts
      id: decide
      run: |
        harnesses=$(fullsend trigger test --list{who} --config-ref worktree --event "$GITHUB_EVENT_PATH" --kind "$GITHUB_EVENT_NAME")
        echo "harnesses=$harnesses" >> "$GITHUB_OUTPUT"
"#
    )
}

fn run(job: &Job, has_decision: bool) -> String {
    let name = &job.harness;
    let condition = match (&job.trigger, has_decision) {
        // GitHub gives no secrets to a pull request from a fork. A job with `needs` is skipped with what it needs, unless it says
        // when it runs.
        (Some(_), true) => format!(
            "needs: decide\n  if: >-\n    !failure() && !cancelled()\n    && (inputs.harness == '{name}' || contains(fromJSON(needs.decide.outputs.harnesses || '[]'), '{name}'))\n    && (!github.event.pull_request || github.event.pull_request.head.repo.full_name == github.repository)"
        ),
        _ => format!("if: inputs.harness == '{name}'"),
    };
    let minutes = job.timeout_minutes;
    let install = indent(INSTALL, 4);
    let prepare = indent(PREPARE, 4);
    let checkout = indent(CHECKOUT, 6);
    let upload = indent(UPLOAD, 6);
    let environment = indent(&environment(job), 8);
    let files = indent(&files(job), 8);
    format!(
        r#"run-{name}:
  name: '{name}'
  {condition}
  runs-on: ubuntu-24.04
  timeout-minutes: {minutes}
  environment: fullsend
  permissions:
    contents: read # to check the repository out
  concurrency:
    group: fullsend-{name}-{SUBJECT}
    cancel-in-progress: false
  steps:
{install}{prepare}    - name: Check out what the agent works on; from here on it is data
{checkout}      with:
        ref: {HEAD}
        fetch-depth: 0
        persist-credentials: false
    - name: Run the agent
      env:
        CONFIG_REF: refs/remotes/origin/{BASE}
{environment}      run: |
{files}        fullsend run {name} --config-ref "$CONFIG_REF" --event "$GITHUB_EVENT_PATH" --event-kind "$GITHUB_EVENT_NAME" --output-dir "$RUNNER_TEMP/fullsend-runs"
    - name: Upload the record
      if: always()
{upload}      with:
        name: fullsend-{name}
        path: ${{{{ runner.temp }}}}/fullsend-runs
        if-no-files-found: ignore
        include-hidden-files: true
"#
    )
}

/// The variables of the one step that has secrets. Those that an event would set are inputs of a manual run.
fn environment(job: &Job) -> String {
    let mut text = String::new();
    for (name, kind) in &job.variables {
        text += &match (kind, name.as_str()) {
            (VariableKind::Event, "REPO_FULL_NAME") => format!("{name}: ${{{{ github.repository }}}}\n"),
            (VariableKind::Event, "ISSUE_NUMBER" | "PR_NUMBER") => {
                format!("{name}: ${{{{ inputs.number }}}}\n")
            }
            (VariableKind::Event, "ISSUE_URL" | "PR_URL") => format!(
                "{name}: ${{{{ inputs.number && format('{{0}}/{{1}}/issues/{{2}}', github.server_url, github.repository, inputs.number) || '' }}}}\n"
            ),
            (VariableKind::Event, _) => String::new(),
            (VariableKind::Secret, _) => format!("{name}: ${{{{ secrets.{name} }}}}\n"),
            (VariableKind::File, _) => format!("{name}_CONTENT: ${{{{ secrets.{name} }}}}\n"),
            (VariableKind::Setting, _) => format!("{name}: ${{{{ vars.{name} }}}}\n"),
        };
    }
    text
}

/// Secrets that are files: the variable is the path. They are gone when the step ends.
fn files(job: &Job) -> String {
    let one = |name: &str| {
        format!(
            "(umask 077 && printenv {name}_CONTENT > \"$RUNNER_TEMP/{name}\")\nunset {name}_CONTENT\nexport {name}=\"$RUNNER_TEMP/{name}\"\n"
        )
    };
    let paths: Vec<String> =
        job.names(VariableKind::File).map(|name| format!("\"$RUNNER_TEMP/{name}\"")).collect();
    if paths.is_empty() {
        return String::new();
    }
    let text: String = job.names(VariableKind::File).map(one).collect();
    format!("trap 'rm -f {}' EXIT\n{text}", paths.join(" "))
}
