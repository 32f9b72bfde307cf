//! One way to get each diagnostic: files beside a valid harness, and the command that reads them.

use crate::option_cases::options;
use crate::support::{RUNNABLE, World};

/// A code, what a person wrote to get it, and what they ran then.
pub struct Case {
    pub code: &'static str,
    /// Beside the code, where one code has several messages.
    pub variant: &'static str,
    pub files: Vec<(&'static str, String)>,
    pub arguments: &'static [&'static str],
}

const HARNESS: &str = "repo/.fullsend/harness/triage.yaml";
pub const AGENT: &str = "repo/.fullsend/agents/triage.md";
const SCHEMA: &str = "repo/.fullsend/schemas/triage.json";
const ORGANISATION: &str = "org/config.yaml";
const TWO_PRICES: &str = "prices: [{model: m, input: 1, output: 1}, {model: m, input: 2, output: 2}]\n";
const CREATE: &[&str] = &["session", "create", "--agent", "triage", "--environment", "nigth"];
const RIGHT: &str = "agent: agents/triage.md\noutput_schema: schemas/triage.json\n";

impl Case {
    pub fn new(code: &'static str, variant: &'static str, files: &[(&'static str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| (*path, (*text).to_owned())).collect();
        Self { code, variant, files, arguments: &["check", "triage"] }
    }

    fn running(self, arguments: &'static [&'static str]) -> Self {
        Self { arguments, ..self }
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.code, self.variant).trim().replace(' ', "-")
    }

    pub fn run(&self) -> String {
        let world = World::with_harness();
        world.write("org/README", "");
        for (path, text) in &self.files {
            if path.ends_with(".sh") {
                world.script(path, text);
            } else {
                world.write(path, text);
            }
        }
        world.env("FULLSEND_ORG_DIR", "../org").run(self.arguments).all()
    }
}

/// The code for a harness that says this beside what is right.
fn says(code: &'static str, variant: &'static str, text: &str) -> Case {
    with(code, variant, text, &[])
}

/// The same, with other files.
pub fn with(code: &'static str, variant: &'static str, text: &str, files: &[(&'static str, &str)]) -> Case {
    let mut case = Case::new(code, variant, files);
    let mut harness = format!("{RIGHT}{text}\n");
    for line in RUNNABLE.lines() {
        let (key, _) = line.split_once(' ').unwrap();
        if !text.lines().any(|said| said.starts_with(key)) {
            harness.push_str(&format!("{line}\n"));
        }
    }
    case.files.push((HARNESS, harness));
    case
}

/// A profile with this entry for a credential.
fn placed(variant: &'static str, entry: &str) -> Case {
    Case::new(
        "credential-placement",
        variant,
        &[
            (
                HARNESS,
                "agent: agents/triage.md\noutput_schema: schemas/triage.json\nproviders: [model, jira]\n",
            ),
            ("repo/.fullsend/providers/model.yaml", "name: model\ntype: anthropic\n"),
            (
                "repo/.fullsend/providers/jira.yaml",
                "name: jira\ntype: jira\ncredentials: {JIRA_TOKEN: '${A}'}\n",
            ),
            ("repo/.fullsend/profiles/jira.yaml", &format!("id: jira\ncredentials:\n  - {entry}\n")),
        ],
    )
}

pub fn cases() -> Vec<Case> {
    let parts: [fn() -> Vec<Case>; 10] =
        [yaml, harness, resolve, pins, references, providers, credentials, contents, fields, options];
    let mut cases: Vec<Case> = parts.iter().flat_map(|part| part()).collect();
    cases.push(with(
        "refused-file",
        "",
        "",
        &[(AGENT, "---\nname: triage\n---\nTags: \u{E006F}\u{E0062}\u{E0065}\u{E0079}\n")],
    ));
    cases
}

/// What is wrong with a document as such.
fn yaml() -> Vec<Case> {
    let bomb: String = ('b'..='h')
        .map(|name| {
            format!("{name}: &{name} [{}]\n", vec![format!("*{}", char::from(name as u8 - 1)); 9].join(", "))
        })
        .collect();
    vec![
        Case::new("alias", "", &[(HARNESS, "agent: &a [*a]\n")]),
        Case::new("documents", "", &[(HARNESS, "---\nagent: a\n---\nagent: b\n")]),
        Case::new(
            "duplicate-key",
            "",
            &[(HARNESS, "agent: agents/triage.md\nmodel: a\nagent: agents/other.md\n")],
        ),
        Case::new("key", "not text", &[(HARNESS, "? [a]\n: b\n")]),
        Case::new("key", "merge", &[(HARNESS, "<<: {agent: a}\n")]),
        Case::new("missing", "", &[(HARNESS, "model: opus\n")]),
        says("missing", "inside a list", "host_files: [{src: a}]"),
        says("refused-key", "", "security: {enabled: false}"),
        says("trigger", "", "trigger: event.repo == = 'acme/widgets'"),
        says("trigger", "unknown name", "trigger: evnt.repo == 'acme/widgets'"),
        says("refused-key", "tools", "tools_binaries: [gh]"),
        Case::new("refused-key", "agent", &[(AGENT, "---\nallowed-tools: Bash\n---\nWrite `summary`.\n")]),
        Case::new("syntax", "", &[(HARNESS, "agent: [a\nmodel: b\n")]),
        says("tag", "", "model: !env MODEL"),
        Case::new("too-deep", "", &[(HARNESS, &format!("{}{}", "[".repeat(70), "]".repeat(70)))]),
        Case::new("too-many", "", &[(HARNESS, &format!("a: &a [x, x, x, x, x, x, x, x, x]\n{bomb}"))]),
        says("type", "", "timeout_minutes: soon"),
        says("type", "yes", "readonly_repo: yes"),
        says("type", "number", "description: 5"),
        Case::new("type", "document", &[(HARNESS, "- agent\n")]),
        says("unknown-key", "near", "secruity: {}"),
        says("unknown-key", "far", "zebra: 1"),
        says("unknown-key", "many", &(0..22).map(|index| format!("zebra{index}: 1\n")).collect::<String>()),
        says("value", "", "timeout_minutes: 5000"),
        says("value", "choice", "runtime: claud"),
        says("value", "climbing", "pre_script: ../x.sh"),
        says("value", "remote script", "post_script: https://example.com/x.sh"),
        says("value", "host file", "host_files: [{src: ../x, dest: /sandbox/workspace/x}]"),
        says("value", "template", "env: {runner: {A: '${A:-b}'}}"),
        says("value", "digest", "policy: https://example.com/p.yaml"),
        says("value", "items", &format!("required_env: [{}]", "A, ".repeat(5001))),
    ]
}

/// What is wrong with the fields of a harness as it is written.
fn harness() -> Vec<Case> {
    vec![
        says("bare-variable", "", "env: {runner: {A: $HOME/x}}"),
        says(
            "duplicate-destination",
            "",
            "host_files:\n- {src: a, dest: /sandbox/workspace/x}\n- {src: b, dest: /sandbox/workspace/x}",
        ),
        Case::new("frontmatter", "", &[(AGENT, "---\nname: triage\nWrite.\n")]),
        says("skill-collision", "", "skills: [skills/labels/github, skills/labels/github/]"),
        says("variable-name", "", "env: {sandbox: {not-a-name: x}}"),
        says("version", "", "version: 2"),
        says("version", "zero", "version: 0"),
    ]
}

fn resolve() -> Vec<Case> {
    let loops = "base: harness/triage.yaml\n";
    let chain: Vec<(&'static str, &str)> = vec![
        (HARNESS, "base: harness/a.yaml\n"),
        ("repo/.fullsend/harness/a.yaml", "base: harness/b.yaml\n"),
        ("repo/.fullsend/harness/b.yaml", "base: harness/c.yaml\n"),
        ("repo/.fullsend/harness/c.yaml", "base: harness/d.yaml\n"),
        ("repo/.fullsend/harness/d.yaml", "base: harness/e.yaml\n"),
        ("repo/.fullsend/harness/e.yaml", "agent: agents/triage.md\n"),
    ];
    vec![
        Case::new(
            "base-cycle",
            "",
            &[(HARNESS, "base: harness/b.yaml\n"), ("repo/.fullsend/harness/b.yaml", loops)],
        ),
        Case::new("base-cycle", "itself", &[(HARNESS, loops)]),
        Case::new("base-depth", "", &chain),
        Case::new("misplaced", "", &[("repo/.fullsend/config.yaml", "caps: {timeout_minutes: 5}\n")]),
        Case::new("duplicate-price", "", &[("repo/.fullsend/config.yaml", TWO_PRICES)]),
        Case::new("misplaced", "org", &[(ORGANISATION, "org: ../other\n")]),
        says("no-forge-block", "", "forge: {github: {}}").running(&["check", "triage", "--forge", "gitlab"]),
        Case::new("no-environment", "none", &[]).running(CREATE),
        Case::new(
            "no-environment",
            "near",
            &[("repo/.fullsend/environments/night.yaml", "limits: {pids: 50}\n")],
        )
        .running(CREATE),
        Case::new("misnamed", "", &[("repo/.fullsend/config.yml", "org: ../org\n")]),
        Case::new(
            "no-harness",
            "misnamed",
            &[("repo/.fullsend/harness/assess.yml", "agent: agents/triage.md\n")],
        )
        .running(&["check"]),
        Case::new("no-harness", "near", &[]).running(&["check", "traige"]),
        Case::new("no-harness", "far", &[]).running(&["check", "code"]),
        Case::new("no-harness", "not a name", &[]).running(&["check", "../triage"]),
        Case::new(
            "not-allowed",
            "base",
            &[(HARNESS, &format!("base: https://example.com/h.yaml#sha256={}\n", "a".repeat(64)))],
        ),
    ]
}

/// What the organisation pins.
fn pins() -> Vec<Case> {
    let pinned = "security:\n  fail_mode: closed\nbudget: {usd: 5}\n";
    let entry = |field: &str, until: &str| {
        format!(
            "{pinned}overrides:\n- {{repo: '*', field: {field}, reason: a migration, until: '{until}'}}\n"
        )
    };
    vec![
        with("override", "", "", &[(ORGANISATION, &entry("securty", "2999-02-30"))]),
        with(
            "suppression",
            "",
            "",
            &[(ORGANISATION, "suppressions:\n- {rule: nul, reason: an example, until: soon}\n")],
        ),
        with(
            "override-used",
            "",
            "security: {fail_mode: open}",
            &[(ORGANISATION, &entry("security", "2999-12-31"))],
        ),
        with("pinned", "", "security: {fail_mode: open}", &[(ORGANISATION, pinned)]),
        with(
            "pinned",
            "ended",
            "security: {fail_mode: open}",
            &[(ORGANISATION, &entry("security", "2020-12-31"))],
        ),
        with("pinned", "deleted", "budget: null", &[(ORGANISATION, pinned)]),
        with(
            "pinned",
            "left out",
            "",
            &[("org/harness/triage.yaml", "agent: agents/triage.md\nreadonly_repo: true\n")],
        ),
        with(
            "pinned",
            "list",
            "allowed_remote_resources: ['https://example.org/']",
            &[(ORGANISATION, "allowed_remote_resources: ['https://example.com/']\n")],
        ),
        says("pinned", "repository skills", "allow_repo_skills: true"),
        says("required-env", "", "required_env: [ISSUE_URL, GH_TOKEN, HOME]"),
        says("required-env", "strict", "required_env: [ISSUE_URL, GH_TOKEN, HOME]")
            .running(&["check", "triage", "--env"]),
        says("unset-variable", "", "env: {runner: {URL: '${ISSUE_URL}/x'}}"),
        says("unset-variable", "strict", "env: {runner: {URL: '${ISSUE_URL}/x'}}\nimage: ${IMAGE}")
            .running(&["check", "triage", "--env"]),
        Case::new("unreadable", "", &[(AGENT, &"x".repeat((1 << 20) + 1))]),
    ]
}

fn references() -> Vec<Case> {
    let url = |name: &str| format!("https://example.com/{name}#sha256={}", "a".repeat(64));
    vec![
        says("missing-file", "near", "policy: policies/triag.yaml")
            .and(("repo/.fullsend/policies/triage.yaml", "version: 1\n")),
        says("missing-file", "far", "policy: policies/none.yaml"),
        says("wrong-file", "directory", "policy: schemas"),
        says("wrong-file", "not a directory", "skills: [agents/triage.md]"),
        says("wrong-file", "not executable", "pre_script: scripts/pre")
            .and(("repo/.fullsend/scripts/pre", "exit 0\n")),
        says("whole-host", "", "policy: policies/p.yaml")
            .and(("repo/.fullsend/policies/p.yaml", "version: 1\nfilesystem_policy: {read_only: [/]}\n")),
        says("missing-file", "image without a registry", "image: debian:12"),
        says("not-allowed", "", &format!("policy: {}", url("p.yaml"))),
        says(
            "remote-not-cached",
            "",
            &format!("policy: {}\nallowed_remote_resources: ['https://example.com/']", url("p.yaml")),
        )
        .running(&["check", "triage", "--offline"]),
        says(
            "remote-refused",
            "",
            &format!(
                "policy: https://127.0.0.1/p.yaml#sha256={}\nallowed_remote_resources: ['https://127.0.0.1/']",
                "a".repeat(64)
            ),
        ),
        says("skill-dependency", "", "skills: [skills/a]").and((
            "repo/.fullsend/skills/a/SKILL.md",
            "---\nname: a\ndescription: d\ndependencies: ['https://example.com/SKILL.md']\n---\nText.\n",
        )),
    ]
}

/// What is wrong with providers and their profiles.
fn providers() -> Vec<Case> {
    vec![
        with(
            "no-profile",
            "",
            "providers: [model]",
            &[("repo/.fullsend/providers/model.yaml", "name: model\ntype: anthropc\n")],
        ),
        with(
            "provider-collision",
            "",
            "providers: [one, two]",
            &[
                ("repo/.fullsend/providers/one.yaml", "name: same\ntype: github\n"),
                ("repo/.fullsend/providers/two.yaml", "name: same\ntype: gitlab\n"),
            ],
        ),
        with(
            "credential-collision",
            "",
            "providers: [one, two]",
            &[
                (
                    "repo/.fullsend/providers/one.yaml",
                    "name: one\ntype: github\ncredentials: {GH_TOKEN: '${A}'}\n",
                ),
                (
                    "repo/.fullsend/providers/two.yaml",
                    "name: two\ntype: github\ncredentials: {GH_TOKEN: '${B}'}\n",
                ),
            ],
        ),
        with(
            "no-credential",
            "",
            "providers: [jira]",
            &[
                (
                    "repo/.fullsend/providers/jira.yaml",
                    "name: jira\ntype: jira\ncredentials: {OTHER: '${A}'}\n",
                ),
                (
                    "repo/.fullsend/profiles/jira.yaml",
                    "id: jira\ncredentials:\n  - {name: token, env_vars: [JIRA_TOKEN, JIRA_PAT], required: true}\n",
                ),
            ],
        ),
        placed("", "{name: token, env_vars: [JIRA_TOKEN]}"),
        placed("style", "{name: token, env_vars: [JIRA_TOKEN], auth_style: header}"),
        with(
            "two-models",
            "",
            "providers: [one, two]",
            &[
                ("repo/.fullsend/providers/one.yaml", "name: one\ntype: anthropic\n"),
                ("repo/.fullsend/providers/two.yaml", "name: two\ntype: openai\n"),
            ],
        ),
    ]
}

/// Credentials that a provider cannot have.
fn credentials() -> Vec<Case> {
    vec![
        with(
            "literal-credential",
            "provider",
            "providers: [model]",
            &[(
                "repo/.fullsend/providers/model.yaml",
                "name: model\ntype: anthropic\ncredentials: {ANTHROPIC_API_KEY: abc}\n",
            )],
        ),
        with(
            "reserved-name",
            "provider",
            "providers: [model]",
            &[(
                "repo/.fullsend/providers/model.yaml",
                "name: model\ntype: anthropic\ncredentials: {LD_PRELOAD: '${X}'}\n",
            )],
        ),
    ]
}

/// What is wrong with the files that a harness names.
fn contents() -> Vec<Case> {
    let skill = "repo/.fullsend/skills/review/SKILL.md";
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    vec![
        Case::new("empty-agent", "", &[(AGENT, "---\nname: triage\n---\n\n")]),
        with("no-frontmatter", "", "skills: [skills/review]", &[(skill, "# Review\n")]),
        with(
            "no-skill-file",
            "",
            "skills: [skills/review]",
            &[("repo/.fullsend/skills/review/README.md", "")],
        ),
        with(
            "skill-collision",
            "names",
            "skills: [skills/review, skills/other]",
            &[
                (skill, "---\nname: review\ndescription: d\n---\n"),
                ("repo/.fullsend/skills/other/SKILL.md", "---\nname: review\ndescription: d\n---\n"),
            ],
        ),
        Case::new("no-output-schema", "", &[(HARNESS, "agent: agents/triage.md\n")]),
        Case::new(
            "no-output-schema",
            "required",
            &[(HARNESS, "agent: agents/triage.md\n"), (ORGANISATION, "require_output_schema: true\n")],
        ),
        Case::new("schema", "not JSON", &[(SCHEMA, "{\n  \"type\": \"object\",\n}\n")]),
        Case::new("schema", "not a schema", &[(SCHEMA, "{\"type\": \"objekt\"}\n")]),
        Case::new("schema", "reference", &[(SCHEMA, "{\"$ref\": \"https://example.com/s.json\"}\n")]),
        Case::new("schema", "twice", &[(SCHEMA, "{\n  \"type\": \"object\",\n  \"type\": \"array\"\n}\n")]),
        Case::new("unmentioned-field", "", &[(SCHEMA, r#"{"required": ["summary", "verdict", "labels"]}"#)]),
        Case::new("half-replaced", "agent", &[("org/agents/triage.md", "Write `summary`.\n")]),
        Case::new(
            "provider-replaced",
            "",
            &[
                (
                    HARNESS,
                    "agent: agents/triage.md\noutput_schema: schemas/triage.json\nproviders: [model]\n",
                ),
                ("org/providers/model.yaml", "name: model\ntype: anthropic\n"),
                ("repo/.fullsend/providers/model.yaml", "name: model\ntype: anthropic\n"),
            ],
        ),
        Case::new("half-replaced", "schema", &[("org/schemas/triage.json", "{}\n")]),
        says("literal-credential", "harness", &format!("env: {{runner: {{GH_TOKEN: {token}}}}}")),
        Case::new("no-owner", "", &[("repo/CODEOWNERS", "/src/ @acme/platform\n")]),
    ]
}

fn fields() -> Vec<Case> {
    let script = ("repo/.fullsend/scripts/x.sh", "#!/bin/sh\n");
    vec![
        Case::new(
            "agent-file",
            "",
            &[
                (HARNESS, "agent: agents/triage.txt\noutput_schema: schemas/triage.json\n"),
                ("repo/.fullsend/agents/triage.txt", "Write `summary`.\n"),
            ],
        ),
        Case::new(
            "agent-file",
            "name",
            &[
                (HARNESS, "agent: agents/tri age.md\noutput_schema: schemas/triage.json\n"),
                ("repo/.fullsend/agents/tri age.md", "Write `summary`.\n"),
            ],
        ),
        says("deprecated", "runner_env", "runner_env: {A: x, B: y}\nenv: {runner: {B: z}}"),
        with(
            "deprecated",
            "env.d",
            "host_files: [{src: env/a.env, dest: /sandbox/workspace/.env.d/a.env, expand: true}]",
            &[("repo/.fullsend/env/a.env", "A=b\n")],
        ),
        with(
            "destination",
            "",
            "host_files: [{src: env/a, dest: /sandbox/workspace/.claude/settings.json}, {src: env/a, dest: /proc/x}]",
            &[("repo/.fullsend/env/a", "")],
        ),
        Case::new(
            "empty-validation",
            "",
            &[(HARNESS, "agent: agents/triage.md\nvalidation_loop: {max_iterations: 1}\n")],
        ),
        says("many-iterations", "", "validation_loop: {max_iterations: 9}"),
        says("no-runtime-fetch", "", "max_runtime_fetches: 5"),
        says("nothing-to-fetch", "", "allow_runtime_fetch: true"),
        says("reserved-name", "", "env: {sandbox: {PATH: /x, LD_PRELOAD: /y}}"),
        with(
            "server-collision",
            "",
            "api_servers:\n- {name: a, script: scripts/x.sh, port: 80}\n- {name: b, script: scripts/x.sh, port: 80}",
            &[script],
        ),
        says("two-schemas", "", "validation_loop: {schema: schemas/other.json}"),
    ]
}

impl Case {
    fn and(mut self, file: (&'static str, &str)) -> Self {
        self.files.push((file.0, file.1.to_owned()));
        self
    }
}
