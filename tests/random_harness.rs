//! Random layers: an organisation and a repository, each with a configuration, harnesses that extend each other, and
//! blocks for forges. Every value is one that its field accepts; JSON is the YAML they are written in.

use fullsend::ForgeName;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop};
use proptest::prop_oneof;
use serde_json::{Map, Value as Json, json};

/// What the layers hold, and the forge that is asked for.
#[derive(Clone, Debug)]
pub struct Files {
    pub texts: Vec<(String, String)>,
    pub forge: Option<ForgeName>,
}

/// Triage in the repository, which may extend one of the repository's or the organisation's, and that one more.
pub fn files() -> impl Strategy<Value = Files> {
    let forge = prop_oneof![Just(None), Just(Some(ForgeName::Github)), Just(Some(ForgeName::Gitlab))];
    let parts = (
        prop::option::of(config()),
        prop::option::of(config()),
        harness(),
        harness(),
        harness(),
        0..4_u8,
        forge,
    );
    parts.prop_map(|(organisation, repository, near, middle, far, shape, forge)| {
        let mut texts = Vec::new();
        let mut write = |path: &str, json: Json| texts.push((path.to_owned(), json.to_string()));
        organisation.into_iter().for_each(|config| write("org/config.yaml", config));
        repository.into_iter().for_each(|config| write("repo/.fullsend/config.yaml", config));
        match shape {
            0 => write("repo/.fullsend/harness/triage.yaml", with(near, "agent", "agents/near.md")),
            1 => {
                write("repo/.fullsend/harness/triage.yaml", with(near, "base", "harness/triage.yaml"));
                write("org/harness/triage.yaml", with(far, "agent", "agents/far.md"));
            }
            _ => {
                write("repo/.fullsend/harness/triage.yaml", with(near, "base", "harness/middle.yaml"));
                write("repo/.fullsend/harness/middle.yaml", with(middle, "base", "harness/far.yaml"));
                let layer = if shape == 2 { "org" } else { "repo/.fullsend" };
                write(&format!("{layer}/harness/far.yaml"), with(far, "agent", "agents/far.md"));
            }
        }
        Files { texts, forge }
    })
}

fn with(mut document: Json, key: &str, value: &str) -> Json {
    document[key] = json!(value);
    document
}

/// A field, or nothing, or `null`.
fn field(
    key: &'static str,
    value: impl Strategy<Value = Json> + 'static,
) -> BoxedStrategy<(&'static str, Option<Json>)> {
    prop_oneof![
        4 => Just(None),
        3 => value.prop_map(Some),
        1 => Just(Some(Json::Null)),
    ]
    .prop_map(move |value| (key, value))
    .boxed()
}

fn object(fields: Vec<BoxedStrategy<(&'static str, Option<Json>)>>) -> BoxedStrategy<Json> {
    fields
        .prop_map(|fields| {
            let set = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
            Json::Object(set.collect())
        })
        .boxed()
}

fn words(words: &'static [&'static str]) -> BoxedStrategy<Json> {
    prop::sample::select(words).prop_map(|word| json!(word)).boxed()
}

fn list(words: &'static [&'static str]) -> BoxedStrategy<Json> {
    prop::sample::subsequence(words, 0..=words.len()).prop_map(|items| json!(items)).boxed()
}

fn numbers(range: std::ops::Range<u32>) -> BoxedStrategy<Json> {
    range.prop_map(|number| json!(number)).boxed()
}

/// Any text; nothing in it means anything.
fn text() -> BoxedStrategy<Json> {
    prop_oneof![
        ".{0,20}",
        "[ -~\\n\\t]{0,20}",
        Just("true".to_owned()),
        Just("1.50".to_owned()),
        Just("null".to_owned())
    ]
    .prop_map(|text: String| json!(text.replace('\0', "")))
    .boxed()
}

/// A text that may hold `${VAR}`.
fn template() -> BoxedStrategy<Json> {
    let piece = prop_oneof![
        Just("${HOME}"),
        Just("$$"),
        Just("a b"),
        Just("/x"),
        Just("é"),
        Just("\n"),
        Just("$HOME")
    ];
    prop_oneof![
        prop::collection::vec(piece, 0..4).prop_map(|pieces| json!(pieces.concat())),
        any::<bool>().prop_map(|value| json!(value)),
        (0..9_u8).prop_map(|value| json!(value)),
    ]
    .boxed()
}

fn variables() -> BoxedStrategy<Json> {
    object(["A", "B", "C"].into_iter().map(|name| field(name, template())).collect())
}

fn skills() -> BoxedStrategy<Json> {
    let overrides =
        object(vec![field("a.md", words(&["x/a.md", "y/a.md"])), field("deep/b.md", words(&["x/b.md"]))]);
    let names = ["one", "two", "three"];
    let skills: Vec<_> = names.into_iter().map(|name| skill(name, overrides.clone())).collect();
    skills.prop_map(|skills| Json::Array(skills.into_iter().flatten().collect())).boxed()
}

fn skill(name: &'static str, overrides: BoxedStrategy<Json>) -> BoxedStrategy<Option<Json>> {
    let source = prop_oneof![Just("skills"), Just("ours")].prop_map(move |place| format!("{place}/{name}"));
    let forms = (source, prop::option::of(overrides)).prop_map(|(source, overrides)| match overrides {
        Some(overrides) => Json::Object(Map::from_iter([(source, overrides)])),
        None => json!(source),
    });
    prop::option::of(forms).boxed()
}

fn host_files() -> BoxedStrategy<Json> {
    let file = |dest: &'static str| {
        let parts = (words(&["files/a", "/etc/hosts", "${HOME}/x"]), prop::option::of(any::<bool>()));
        let file =
            parts.prop_map(move |(src, optional)| json!({"src": src, "dest": dest, "optional": optional}));
        prop::option::of(file)
    };
    (file("/sandbox/workspace/a"), file("/sandbox/workspace/b"))
        .prop_map(|files| json!([files.0, files.1].into_iter().flatten().collect::<Vec<_>>()))
        .boxed()
}

fn validation_loop() -> BoxedStrategy<Json> {
    object(vec![
        field("script", words(&["scripts/a", "scripts/b"])),
        field("max_iterations", numbers(1..4)),
        field("feedback_mode", words(&["append", "fresh"])),
        field("preflight_check", template()),
    ])
}

fn environment() -> BoxedStrategy<Json> {
    object(vec![field("runner", variables()), field("sandbox", variables())])
}

fn security() -> BoxedStrategy<Json> {
    let flag = || any::<bool>().prop_map(|value| json!(value));
    object(vec![
        field("fail_mode", words(&["closed", "open"])),
        field(
            "host_scanners",
            object(vec![
                field("secret_redactor", flag()),
                field(
                    "llm_guard",
                    object(vec![
                        field("threshold", words(&["0.5"]).prop_map(|_| json!(0.5))),
                        field("required", flag()),
                    ]),
                ),
            ]),
        ),
        field(
            "sandbox_hooks",
            object(vec![
                field(
                    "tirith",
                    object(vec![field("enabled", flag()), field("fail_on", words(&["high", "medium"]))]),
                ),
                field("canary_pretool", flag()),
            ]),
        ),
        field("escalation", object(vec![field("review_label", text())])),
    ])
}

fn budget() -> BoxedStrategy<Json> {
    object(vec![
        field("usd", (1..9_u8).prop_map(|tenths| json!(f64::from(tenths) / 10.0))),
        field("tokens", numbers(1..9)),
        field("turns", numbers(1..9)),
        field("day_usd", numbers(1..9)),
    ])
}

/// Pins of the organisation are rare here, because they refuse many random harnesses.
fn config() -> BoxedStrategy<Json> {
    object(vec![
        field("runtime", words(&["claude", "native"])),
        field("allowed_remote_resources", list(&["https://example.com/", "https://example.com/a/"])),
        field("max_runtime_fetches", numbers(5..7)),
        field("security", object(vec![field("escalation", object(vec![field("review_label", text())]))])),
    ])
}

fn forge_block() -> BoxedStrategy<Json> {
    object(vec![
        field("pre_script", words(&["scripts/hub"])),
        field("policy", words(&["policies/hub.yaml"])),
        field("skills", skills()),
        field("providers", list(&["hub", "one"])),
        field("host_files", host_files()),
        field("validation_loop", validation_loop()),
        field("runner_env", variables()),
        field("env", environment()),
        field("openshell", object(vec![field("profiles", list(&["profiles/hub.yaml"]))])),
    ])
}

fn harness() -> BoxedStrategy<Json> {
    let server = json!({"name": "api", "script": "scripts/api", "port": 8000, "env": {"A": "${HOME}"}});
    let tools =
        object(vec![field("command", text()), field("args", list(&["-v", "x"])), field("env", variables())]);
    let tools = tools.prop_map(|mut tools| {
        tools["command"] = json!("tool");
        tools
    });
    // A forge that is asked for needs its block wherever there are blocks.
    let forges = (forge_block(), forge_block()).prop_map(|(hub, lab)| json!({"github": hub, "gitlab": lab}));
    object(vec![
        field("description", text()),
        field("role", words(&["far", "near"])),
        field("runtime", words(&["codex", "native"])),
        field("model", words(&["opus", "a.b@c"])),
        field("image", template()),
        field("policy", words(&["policies/a.yaml", "policies/b.yaml"])),
        field("skills", skills()),
        field("plugins", list(&["plugins/a", "plugins/b", "plugins/c"])),
        field("providers", list(&["one", "two", "providers/three.yaml"])),
        field("host_files", host_files()),
        field("api_servers", Just(json!([server]))),
        field("mcp_servers", object(vec![field("one", tools.clone()), field("two", tools)])),
        field("acp", object(vec![field("command", list(&["opencode", "acp"]))])),
        field("pre_script", words(&["scripts/a"])),
        field("output_file", words(&["a.json", "b.json"])),
        field("validation_loop", validation_loop()),
        field("network", list(&["npm", "pip", "cargo"])),
        field("confirm_tools", list(&["Bash", "Write"])),
        field("required_env", list(&["A", "B"])),
        field("env", environment()),
        field("runner_env", variables()),
        field("timeout_minutes", numbers(1..60)),
        field("watchdog", object(vec![field("idle_seconds", numbers(1..9))])),
        field(
            "sandbox",
            object(vec![
                field("accept_weaker", list(&["memory"])),
                field("system_calls", words(&["deny-list", "allow-list"])),
                field("limits", object(vec![field("pids", numbers(1..9))])),
            ]),
        ),
        field("trigger", text()),
        field("security", security()),
        field("budget", budget()),
        field("allowed_remote_resources", list(&["https://example.com/a/", "https://example.com/a/b/"])),
        field("allow_runtime_fetch", any::<bool>().prop_map(|value| json!(value))),
        field("max_runtime_fetches", numbers(1..5)),
        field("forge", forges),
    ])
}
