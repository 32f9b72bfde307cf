//! The table of the merge tests: for every field of a harness the farther value, the nearer value, the result, and the
//! result of `null` in the nearer file.

/// One field. `merged` is every value at or below it, sorted by path.
pub struct Field {
    pub key: &'static str,
    pub far: &'static str,
    pub near: &'static str,
    pub merged: &'static [(&'static str, &'static str)],
    pub null: OnNull,
}

/// What `null` in the nearer file leaves of the farther one.
pub enum OnNull {
    /// The result: nothing, or the built-in value.
    Leaves(&'static [(&'static str, &'static str)]),
    /// It is refused, with these words.
    Refused(&'static str),
    /// It is refused if the organisation set the value; elsewhere the result is nothing.
    Pinned,
}

use OnNull::{Leaves, Pinned, Refused};

/// A value that replaces, without a built-in default.
macro_rules! replaces {
    ($key:literal, $far:literal, $near:literal) => {
        Field {
            key: $key,
            far: concat!($key, ": ", $far),
            near: concat!($key, ": ", $near),
            merged: &[($key, $near)],
            null: Leaves(&[($key, "(removed)")]),
        }
    };
    ($key:literal, $far:literal, $near:literal, default $default:literal) => {
        Field { null: Leaves(&[($key, $default)]), ..replaces!($key, $far, $near) }
    };
}

/// A list: appended to, each item once, or replaced as a whole.
macro_rules! list {
    ($key:literal, $far:literal, $near:literal, $merged:expr) => {
        Field {
            key: $key,
            far: concat!($key, ": ", $far),
            near: concat!($key, ": ", $near),
            merged: $merged,
            null: Leaves(&[($key, "(removed)")]),
        }
    };
}

pub const FIELDS: &[Field] = &[
    replaces!("version", "1", "1"),
    replaces!("description", "far", "near"),
    replaces!("doc", "far", "near"),
    replaces!("role", "far", "near"),
    replaces!("slug", "far", "near"),
    Field { null: Refused("`agent` is missing"), ..replaces!("agent", "agents/far.md", "agents/near.md") },
    replaces!("runtime", "codex", "native", default "claude"),
    list!(
        "acp",
        "{command: [far, acp, --log]}",
        "{command: [near, --acp]}",
        &[("acp.command.0", "near"), ("acp.command.1", "--acp")]
    ),
    replaces!("model", "far", "near"),
    replaces!("effort", "low", "high"),
    replaces!("image", "far.tar", "near.tar"),
    replaces!("policy", "policies/far.yaml", "policies/near.yaml", default "policies/default.yaml"),
    SKILLS,
    SKILL_WITHOUT_NEW_OVERRIDES,
    SKILL_FROM_ANOTHER_PLACE,
    list!(
        "plugins",
        "[plugins/a, plugins/b]",
        "[plugins/b, plugins/c]",
        &[("plugins.0", "plugins/a"), ("plugins.1", "plugins/b"), ("plugins.2", "plugins/c")]
    ),
    list!(
        "providers",
        "[one, two]",
        "[two, providers/three.yaml]",
        &[("providers.0", "one"), ("providers.1", "two"), ("providers.2", "providers/three.yaml")]
    ),
    list!(
        "openshell",
        "{profiles: [profiles/a.yaml]}",
        "{profiles: [profiles/a.yaml, profiles/b.yaml]}",
        &[("openshell.profiles.0", "profiles/a.yaml"), ("openshell.profiles.1", "profiles/b.yaml")]
    ),
    HOST_FILES,
    list!(
        "api_servers",
        "[{name: one, script: scripts/one, port: 8001}]",
        "[{name: one, script: scripts/one, port: 8001}, {name: two, script: scripts/two, port: 8002}]",
        &[
            ("api_servers.0.name", "one"),
            ("api_servers.0.port", "8001"),
            ("api_servers.0.script", "scripts/one"),
            ("api_servers.1.name", "two"),
            ("api_servers.1.port", "8002"),
            ("api_servers.1.script", "scripts/two"),
        ]
    ),
    Field {
        key: "mcp_servers",
        far: "mcp_servers: {one: {command: a, args: [--port, 1]}, two: {command: b}}",
        near: "mcp_servers: {one: {command: c, args: [--port, 2, --port]}, two: null, three: {command: d}}",
        merged: &[
            ("mcp_servers.one.args.0", "--port"),
            ("mcp_servers.one.args.1", "2"),
            ("mcp_servers.one.args.2", "--port"),
            ("mcp_servers.one.command", "c"),
            ("mcp_servers.three.command", "d"),
            ("mcp_servers.two", "(removed)"),
        ],
        null: Leaves(&[("mcp_servers", "(removed)")]),
    },
    replaces!("pre_script", "scripts/far", "scripts/near"),
    replaces!("post_script", "scripts/far", "scripts/near"),
    replaces!("agent_input", "far", "near"),
    replaces!("output_schema", "schemas/far.json", "schemas/near.json"),
    replaces!("output_file", "far.json", "near.json", default "agent-result.json"),
    VALIDATION_LOOP,
    Field {
        null: Pinned,
        ..list!(
            "confirm_tools",
            "[A, B]",
            "[B, C]",
            &[("confirm_tools.0", "A"), ("confirm_tools.1", "B"), ("confirm_tools.2", "C")]
        )
    },
    list!(
        "network",
        "[npm, pip]",
        "[pip, go]",
        &[("network.0", "npm"), ("network.1", "pip"), ("network.2", "go")]
    ),
    list!(
        "required_env",
        "[A, B]",
        "[B, C]",
        &[("required_env.0", "A"), ("required_env.1", "B"), ("required_env.2", "C")]
    ),
    ENV,
    Field {
        key: "runner_env",
        far: "runner_env: {A: far, B: far, C: far}",
        near: "runner_env: {B: near, C: null, D: near}",
        merged: &[
            ("runner_env.A", "far"),
            ("runner_env.B", "near"),
            ("runner_env.C", "(removed)"),
            ("runner_env.D", "near"),
        ],
        null: Leaves(&[("runner_env", "(removed)")]),
    },
    replaces!("timeout_minutes", "10", "20", default "30"),
    replaces!("sandbox_timeout_seconds", "60", "90", default "120"),
    Field {
        key: "watchdog",
        far: "watchdog: {startup_seconds: 5}",
        near: "watchdog: {idle_seconds: 7}",
        merged: &[("watchdog.idle_seconds", "7"), ("watchdog.startup_seconds", "5")],
        null: Leaves(&[("watchdog.idle_seconds", "600"), ("watchdog.startup_seconds", "120")]),
    },
    replaces!("readonly_repo", "false", "true", default "false"),
    SANDBOX,
    replaces!("trigger", "far", "near"),
    replaces!("allow_repo_skills", "false", "false", default "false"),
    SECURITY,
    Field {
        key: "budget",
        far: "budget: {usd: 5, tokens: 100}",
        near: "budget: {usd: 2.50, turns: 3}",
        merged: &[("budget.tokens", "100"), ("budget.turns", "3"), ("budget.usd", "2.50")],
        null: Pinned,
    },
    Field {
        key: "gateway",
        far: "gateway: {allow: ['tool:web_search_*']}",
        near: "gateway: {allow: ['beta:files-api-*']}",
        merged: &[("gateway.allow.0", "tool:web_search_*"), ("gateway.allow.1", "beta:files-api-*")],
        null: Leaves(&[("gateway", "(removed)")]),
    },
    list!(
        "allowed_remote_resources",
        "['https://example.com/a/', 'https://example.com/c/']",
        "['https://example.com/a/b/']",
        &[("allowed_remote_resources.0", "https://example.com/a/b/")]
    ),
    replaces!("allow_runtime_fetch", "true", "false", default "false"),
    Field {
        key: "max_runtime_fetches",
        far: "allow_runtime_fetch: true\nmax_runtime_fetches: 20",
        near: "max_runtime_fetches: 5",
        merged: &[("max_runtime_fetches", "5")],
        null: Leaves(&[("max_runtime_fetches", "10")]),
    },
];

/// Skills replace each other by directory, in place; their file overrides merge, and `null` removes a file.
const SKILLS: Field = Field {
    key: "skills",
    far: "skills:\n- skills/first\n- skills/review: {a.md: x/a.md, b.md: x/b.md}\n- skills/last",
    near: "skills:\n- skills/last: {d.md: y/d.md}\n- skills/review: {b.md: y/b.md, a.md: null, c.md: y/c.md}\n- skills/new",
    merged: &[
        ("skills.0", "skills/first"),
        ("skills.1.skills/review.a.md", "(removed)"),
        ("skills.1.skills/review.b.md", "y/b.md"),
        ("skills.1.skills/review.c.md", "y/c.md"),
        ("skills.2.skills/last.d.md", "y/d.md"),
        ("skills.3", "skills/new"),
    ],
    null: Leaves(&[("skills", "(removed)")]),
};

/// Naming the same skill again without overrides keeps the farther ones.
const SKILL_WITHOUT_NEW_OVERRIDES: Field = Field {
    key: "skills",
    far: "skills:\n- skills/review: {a.md: x/a.md}",
    near: "skills: [skills/review]",
    merged: &[("skills.0.skills/review.a.md", "x/a.md")],
    ..SKILLS
};

/// Another directory is another skill: `check` reads their names, and the nearer one replaces the farther.
const SKILL_FROM_ANOTHER_PLACE: Field = Field {
    key: "skills",
    far: "skills:\n- skills/review: {a.md: x/a.md}\n- skills/last",
    near: "skills: [ours/review]",
    merged: &[
        ("skills.0.skills/review.a.md", "x/a.md"),
        ("skills.1", "skills/last"),
        ("skills.2", "ours/review"),
    ],
    ..SKILLS
};

/// Host files replace each other by destination, in place and as a whole.
const HOST_FILES: Field = Field {
    key: "host_files",
    far: "host_files:\n- {src: a, dest: /sandbox/a, optional: true}\n- {src: b, dest: /sandbox/b}",
    near: "host_files:\n- {src: c, dest: /sandbox/c}\n- {src: other, dest: /sandbox/a, expand: true}",
    merged: &[
        ("host_files.0.dest", "/sandbox/a"),
        ("host_files.0.expand", "true"),
        ("host_files.0.src", "other"),
        ("host_files.1.dest", "/sandbox/b"),
        ("host_files.1.src", "b"),
        ("host_files.2.dest", "/sandbox/c"),
        ("host_files.2.src", "c"),
    ],
    null: Leaves(&[("host_files", "(removed)")]),
};

const VALIDATION_LOOP: Field = Field {
    key: "validation_loop",
    far: "validation_loop: {script: scripts/far, max_iterations: 3, preflight_check: gh auth status}",
    near: "validation_loop: {script: scripts/near, schema: schemas/near.json, feedback_mode: fresh}",
    merged: &[
        ("validation_loop.feedback_mode", "fresh"),
        ("validation_loop.max_iterations", "3"),
        ("validation_loop.preflight_check", "gh auth status"),
        ("validation_loop.schema", "schemas/near.json"),
        ("validation_loop.script", "scripts/near"),
    ],
    null: Leaves(&[("validation_loop.feedback_mode", "append"), ("validation_loop.max_iterations", "2")]),
};

const ENV: Field = Field {
    key: "env",
    far: "env: {runner: {A: far, B: far, C: far}, sandbox: {X: far}}",
    near: "env: {runner: {B: near, C: null, D: '${D}'}}",
    merged: &[
        ("env.runner.A", "far"),
        ("env.runner.B", "near"),
        ("env.runner.C", "(removed)"),
        ("env.runner.D", "${D}"),
        ("env.sandbox.X", "far"),
    ],
    null: Leaves(&[("env", "{}")]),
};

const SANDBOX: Field = Field {
    key: "sandbox",
    far: "sandbox: {limits: {memory_mb: 100, pids: 10}, accept_weaker: [memory, disk]}",
    near: "sandbox: {limits: {pids: 20, disk_mb: null}, accept_weaker: [disk]}",
    merged: &[
        ("sandbox.accept_weaker.0", "memory"),
        ("sandbox.accept_weaker.1", "disk"),
        ("sandbox.backend", "local"),
        ("sandbox.limits.cpu_weight", "100"),
        ("sandbox.limits.disk_mb", "8192"),
        ("sandbox.limits.file_mb", "1024"),
        ("sandbox.limits.memory_mb", "100"),
        ("sandbox.limits.open_files", "4096"),
        ("sandbox.limits.pids", "20"),
        ("sandbox.system_calls", "deny-list"),
    ],
    null: Leaves(&[
        ("sandbox.accept_weaker", "[]"),
        ("sandbox.backend", "local"),
        ("sandbox.limits.cpu_weight", "100"),
        ("sandbox.limits.disk_mb", "8192"),
        ("sandbox.limits.file_mb", "1024"),
        ("sandbox.limits.memory_mb", "4096"),
        ("sandbox.limits.open_files", "4096"),
        ("sandbox.limits.pids", "1024"),
        ("sandbox.system_calls", "deny-list"),
    ]),
};

const SECURITY: Field = Field {
    key: "security",
    far: "security: {fail_mode: open, host_scanners: {llm_guard: {threshold: 0.99}}, sandbox_hooks: {tirith: {fail_on: critical}}, escalation: {on_critical: review}}",
    near: "security: {fail_mode: closed, host_scanners: {llm_guard: {required: true}}, sandbox_hooks: null, escalation: {review_label: look}}",
    merged: &[
        ("security.escalation.on_critical", "review"),
        ("security.escalation.review_label", "look"),
        ("security.fail_mode", "closed"),
        ("security.host_scanners.context_injection", "true"),
        ("security.host_scanners.llm_guard.enabled", "true"),
        ("security.host_scanners.llm_guard.match_type", "full"),
        ("security.host_scanners.llm_guard.required", "true"),
        ("security.host_scanners.llm_guard.threshold", "0.99"),
        ("security.host_scanners.secret_redactor", "true"),
        ("security.host_scanners.ssrf_validator", "true"),
        ("security.host_scanners.unicode_normalizer", "true"),
        ("security.sandbox_hooks.canary_posttool", "true"),
        ("security.sandbox_hooks.canary_pretool", "true"),
        ("security.sandbox_hooks.context_suppress_posttool", "true"),
        ("security.sandbox_hooks.secret_redact_posttool", "true"),
        ("security.sandbox_hooks.ssrf_pretool", "true"),
        ("security.sandbox_hooks.tirith.enabled", "true"),
        ("security.sandbox_hooks.tirith.fail_on", "high"),
        ("security.sandbox_hooks.tool_allowlist_pretool.enabled", "false"),
        ("security.sandbox_hooks.unicode_posttool", "true"),
        ("security.trace.enabled", "false"),
    ],
    null: Leaves(&[
        ("security.escalation.on_critical", "halt"),
        ("security.escalation.review_label", "requires-manual-review"),
        ("security.fail_mode", "closed"),
        ("security.host_scanners.context_injection", "true"),
        ("security.host_scanners.llm_guard.enabled", "true"),
        ("security.host_scanners.llm_guard.match_type", "full"),
        ("security.host_scanners.llm_guard.required", "false"),
        ("security.host_scanners.llm_guard.threshold", "0.98"),
        ("security.host_scanners.secret_redactor", "true"),
        ("security.host_scanners.ssrf_validator", "true"),
        ("security.host_scanners.unicode_normalizer", "true"),
        ("security.sandbox_hooks.canary_posttool", "true"),
        ("security.sandbox_hooks.canary_pretool", "true"),
        ("security.sandbox_hooks.context_suppress_posttool", "true"),
        ("security.sandbox_hooks.secret_redact_posttool", "true"),
        ("security.sandbox_hooks.ssrf_pretool", "true"),
        ("security.sandbox_hooks.tirith.enabled", "true"),
        ("security.sandbox_hooks.tirith.fail_on", "high"),
        ("security.sandbox_hooks.tool_allowlist_pretool.enabled", "false"),
        ("security.sandbox_hooks.unicode_posttool", "true"),
        ("security.trace.enabled", "false"),
    ]),
};

/// The fields of a forge block: `far` is outside, `near` in the block.
pub const FORGE_FIELDS: &[Field] = &[
    replaces!("pre_script", "scripts/far", "scripts/near"),
    replaces!("post_script", "scripts/far", "scripts/near"),
    replaces!("policy", "policies/far.yaml", "policies/near.yaml"),
    SKILLS,
    list!("providers", "[one]", "[one, hub]", &[("providers.0", "one"), ("providers.1", "hub")]),
    list!(
        "openshell",
        "{profiles: [profiles/a.yaml]}",
        "{profiles: [profiles/b.yaml]}",
        &[("openshell.profiles.0", "profiles/a.yaml"), ("openshell.profiles.1", "profiles/b.yaml")]
    ),
    HOST_FILES,
    replaces!("output_schema", "schemas/far.json", "schemas/near.json"),
    VALIDATION_LOOP,
    Field {
        key: "runner_env",
        far: "runner_env: {A: far, B: far}",
        near: "runner_env: {B: null, C: near}",
        merged: &[("runner_env.A", "far"), ("runner_env.B", "(removed)"), ("runner_env.C", "near")],
        null: Leaves(&[]),
    },
    ENV,
];
