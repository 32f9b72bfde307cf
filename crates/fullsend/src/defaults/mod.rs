//! The built-in layer: the farthest from the repository, read by the same parser as every other file.

/// The policy of a sandbox without its own policy: no network.
pub const DEFAULT_POLICY: (&str, &str) = ("policies/default.yaml", include_str!("policies/default.yaml"));

/// Path inside the layer, and the text.
pub const FILES: &[(&str, &str)] = &[
    ("defaults.yaml", include_str!("defaults.yaml")),
    ("harness/ask.yaml", include_str!("ask/harness.yaml")),
    ("harness/ask-openai.yaml", include_str!("ask/harness-openai.yaml")),
    ("agents/ask.md", include_str!("ask/agent.md")),
    ("schemas/ask.json", include_str!("ask/schema.json")),
    ("providers/model.yaml", INIT_PROVIDER_ANTHROPIC),
    ("providers/openai.yaml", include_str!("ask/provider-openai.yaml")),
    ("networks/apt.yaml", include_str!("networks/apt.yaml")),
    ("networks/cargo.yaml", include_str!("networks/cargo.yaml")),
    ("networks/github.yaml", include_str!("networks/github.yaml")),
    ("networks/go.yaml", include_str!("networks/go.yaml")),
    ("networks/maven.yaml", include_str!("networks/maven.yaml")),
    ("networks/npm.yaml", include_str!("networks/npm.yaml")),
    ("networks/pip.yaml", include_str!("networks/pip.yaml")),
    DEFAULT_POLICY,
    ("profiles/anthropic.yaml", include_str!("profiles/anthropic.yaml")),
    ("profiles/aws-bedrock.yaml", include_str!("profiles/aws-bedrock.yaml")),
    ("profiles/azure-openai.yaml", include_str!("profiles/azure-openai.yaml")),
    ("profiles/bedrock.yaml", include_str!("profiles/bedrock.yaml")),
    ("profiles/github.yaml", include_str!("profiles/github.yaml")),
    ("profiles/gitlab.yaml", include_str!("profiles/gitlab.yaml")),
    ("profiles/google-vertex-ai.yaml", include_str!("profiles/google-vertex-ai.yaml")),
    ("profiles/openai.yaml", include_str!("profiles/openai.yaml")),
    ("profiles/vertex.yaml", include_str!("profiles/vertex.yaml")),
];

/// What `fullsend init` writes.
pub const INIT_HARNESS: &str = include_str!("init/harness.yaml");
pub const INIT_AGENT: &str = include_str!("init/agent.md");
pub const INIT_SCHEMA: &str = include_str!("init/schema.json");
pub const INIT_POLICY: &str = include_str!("init/policy.yaml");
pub const INIT_CI_GITHUB: &str = include_str!("init/ci-github.yaml");
pub const INIT_CI_GITLAB: &str = include_str!("init/ci-gitlab.yaml");
pub const INIT_PROVIDER_ANTHROPIC: &str = include_str!("init/provider-anthropic.yaml");
pub const INIT_PROVIDER_OPENAI: &str = include_str!("init/provider-openai.yaml");
