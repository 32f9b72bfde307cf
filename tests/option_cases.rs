//! The cases of options that a runtime does not honour, of MCP servers, of signed requests, of rules that a layer changes,
//! and of what files of the original project say that means nothing here.

use crate::message_cases::{AGENT, Case, with};

const MOVES_THE_MODEL: &str = "claude\nenv: {sandbox: {CLAUDE_CODE_USE_VERTEX: '1'}}";

/// What a runtime cannot honour, or only in part, and what means nothing here.
pub fn options() -> Vec<Case> {
    let signed = [
        signed("signing-key", "signing_region: eu-west-1, credential_binding: {provider: store}"),
        signed("signing-region", "credential_binding: {provider: store}"),
    ];
    runtime_options().into_iter().chain(mcp_servers()).chain(signed).collect()
}

/// A policy whose endpoint has its requests signed, with these keys.
fn signed(code: &'static str, keys: &str) -> Case {
    let policy = format!(
        "version: 1\nnetwork_policies:\n  s3:\n    endpoints:\n      - {{host: files.acme.test, port: 443, protocol: rest, \
         access: full, credential_signing: sigv4, signing_service: s3, {keys}}}\n"
    );
    with(
        code,
        "",
        "providers: [model, store]\npolicy: policies/p.yaml",
        &[
            ("repo/.fullsend/policies/p.yaml", &policy),
            (
                "repo/.fullsend/providers/store.yaml",
                "name: store\ntype: store\ncredentials: {AWS_ACCESS_KEY_ID: 'file:id'}\n",
            ),
            ("repo/.fullsend/profiles/store.yaml", "id: store\n"),
            ("repo/.fullsend/providers/model.yaml", "name: model\ntype: anthropic\n"),
        ],
    )
}

fn mcp_servers() -> Vec<Case> {
    let server = |variant, fields: &str| {
        with("mcp-server", variant, &format!("mcp_servers: {{calc: {{{fields}}}}}"), &[])
    };
    let url = "url: 'https://mcp.example.com/mcp'";
    vec![
        server("of no kind", ""),
        server("of both kinds", &format!("command: calc, {url}")),
        server("program with headers", "command: calc, headers: {X-Team: blue}"),
        server("address with arguments", &format!("{url}, args: [a]")),
        server("header", &format!("{url}, headers: {{Host: a}}")),
        server("that the policy does not allow", url),
        server("program with tools", "command: calc, tools: [add]"),
    ]
}

fn runtime_options() -> Vec<Case> {
    let option = |variant: &'static str, runtime: &str, key: &str| {
        let agent = format!("---\nname: triage\n{key}\n---\nWrite `summary`.\n");
        with("runtime-option", variant, &format!("runtime: {runtime}"), &[(AGENT, &agent)])
    };
    let rule = |variant: &'static str, rules: &str| {
        with("rule", variant, &format!("security: {{rules: {{{rules}}}}}"), &[])
    };
    vec![
        option("tools of codex", "codex", "tools: Bash\nmaxTurns: 3"),
        option("tools of native", "native", "tools: Read, WebFetch, Bash(git *)"),
        Case { code: "tool-pattern", ..option("", "native", "tools: Bash(gh,jq), Skill") },
        option("permissions", "claude", "permissionMode: plan"),
        option("hooks", "claude", "hooks: {PreToolUse: []}\nmcpServers: [files]"),
        option("memory", "native", "memory: project\nbackground: true\nisolation: worktree"),
        rule("unknown", "git-los: {action: off, reason: x}"),
        rule("far", "nothing-like-it: {action: off, reason: x}"),
        rule("no reason", "git-loss: {action: off}"),
        rule("own setting", "canary: {action: off, reason: x}"),
        rule("off", "git-loss: {action: off, reason: a branch of its own}"),
        rule("every", "'*': {action: off, reason: x}"),
        Case { code: "absent-skill", ..option("", "claude", "skills: [review]") },
        with("runtime-option", "effort", "runtime: codex\neffort: max", &[]),
        Case { code: "model-variable", ..option("", MOVES_THE_MODEL, "permissionMode: plan") },
        with(
            "plugin-parts",
            "",
            "runtime: native\nplugins: [plugins/p]",
            &[("repo/.fullsend/plugins/p/.claude-plugin/plugin.json", "{\"name\":\"p\"}")],
        ),
        Case::new(
            "not-honoured",
            "",
            &[(
                "repo/.fullsend/config.yaml",
                "version: \"1\"\nroles: [triage]\nagents:\n- {source: harness/triage.yaml}\n- {name: old, source: harness/other.yaml}\n- {source: harness/off.yaml, enabled: false}\n",
            )],
        ),
        with(
            "not-inspected",
            "profile",
            "providers: [hub]",
            &[
                ("repo/.fullsend/providers/hub.yaml", "name: hub\ntype: hub\ncredentials: {_NOOP: \"\"}\n"),
                (
                    "repo/.fullsend/profiles/hub.yaml",
                    "id: hub\nendpoints:\n- {host: hub.test, port: 443, protocol: websocket, rules: [{allow: {operation_type: query}}]}\nbinaries: ['**/gh']\n",
                ),
            ],
        ),
    ]
}
