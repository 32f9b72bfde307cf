//! The harness file as it is written: every field, once, with its type, its bounds and its meaning. The same
//! declarations parse a file, merge two files, and generate the JSON Schema. This module does not read the disk and
//! resolves nothing.

pub(crate) mod config;
pub(crate) mod environment;
pub mod frontmatter;
pub(crate) mod image;
pub(crate) mod names;
pub(crate) mod provider;
pub(crate) mod reference;
pub(crate) mod security;
pub(crate) mod skills;
pub(crate) mod template;

use yaml::{Map, Spanned, Unmerged, record};

use names::{
    AcpAgentName, AgentRole, Backend, CpuWeight, Dollars, FeedbackMode, Fetches, FileName, FormatVersion,
    GatewayFeature, HostLabel, Identifier, Iterations, McpTransport, Minutes, ModelEffort, ModelName,
    PortNumber, Positive, ProfileNetwork, ReadySeconds, RuntimeName, ServerUrl, Slug, SystemCallList,
    UrlPath, VariableName, WatchSeconds, WeakerPart,
};
use reference::{LocalPath, Ref, UrlPrefix};
use security::Security;
use skills::{HostFiles, Skills, Variables};
use template::Template;

record! {
    /// Everything that one agent run needs. Only `agent` is required.
    layered pub struct Harness {
        /// Version of this format. Absent means 1.
        version: Option<FormatVersion>,
        /// What this harness is for, in a sentence.
        description: Option<String>,
        /// Where its documentation is.
        doc: Option<String>,
        /// The role of the agent in its organisation.
        role: Option<Spanned<AgentRole>>,
        /// A short name used in other names.
        slug: Option<Spanned<Slug>>,
        /// Another harness that this one extends.
        base: Option<Spanned<Ref>>,
        /// The agent's definition: a Markdown file with frontmatter.
        agent: Spanned<Ref>,
        /// The agent program. Default: the one in `config.yaml`, else claude.
        runtime: Spanned<RuntimeName>,
        /// Which agent the runtime `acp` drives. Absent: opencode.
        acp: Option<AcpAgent>,
        /// The model; wins over the one in the agent's frontmatter.
        model: Option<Spanned<ModelName>>,
        /// How hard the model should think.
        effort: Option<Spanned<ModelEffort>>,
        /// An image whose files are the sandbox's root: a name in a registry, an OCI layout directory or an archive. `${VAR}` is expanded.
        image: Option<Spanned<Template>>,
        /// The sandbox policy, in the OpenShell format. Absent: the model gateway only, writes only in the workspace.
        policy: Spanned<Ref>,
        /// Skills given to the agent: a directory, or a map from one directory to files in it that are replaced or removed.
        skills: Skills,
        /// Plugin directories given to the runtime.
        plugins: Vec<Spanned<Ref>>,
        /// Credentials and endpoints the run may use, by name or by file.
        providers: Vec<Spanned<ProviderRef>>,
        /// Named networks that the policy also allows, for reading only: npm, pip, cargo, go, maven, apt, github, or a
        /// layer's networks/NAME.yaml. They include the registries that the host's package managers are configured
        /// with.
        network: Vec<Spanned<Identifier>>,
        /// Settings in OpenShell's own words.
        openshell: Option<Openshell>,
        /// Files of the host that are copied into the sandbox. Each destination may occur once.
        host_files: HostFiles,
        /// Servers on the host that the agent may call.
        api_servers: Vec<ApiServer>,
        /// MCP servers by name: programs inside the sandbox, or addresses.
        mcp_servers: Map<McpServer>,
        /// Runs on the host before the sandbox exists.
        pre_script: Option<Spanned<LocalPath>>,
        /// Runs on the host after the sandbox is gone, and only if the output was accepted.
        post_script: Option<Spanned<LocalPath>>,
        /// A directory of the host given to the agent at /sandbox/workspace/agent-input. `${VAR}` is expanded.
        agent_input: Option<Spanned<Template>>,
        /// JSON Schema (2020-12) that the agent's output must satisfy.
        output_schema: Option<Spanned<Ref>>,
        /// The file that the agent must write into its output directory. Default: agent-result.json.
        output_file: Spanned<FileName>,
        /// How output is checked and how often the agent may try.
        validation_loop: ValidationLoop,
        /// Variables that the host's environment must have.
        required_env: Vec<Spanned<VariableName>>,
        /// Variables for the scripts on the host and for the agent.
        env: Env,
        /// Deprecated: use `env.runner`, which wins.
        runner_env: Variables,
        /// Minutes for all attempts together. Default: 30.
        timeout_minutes: Spanned<Minutes>,
        /// Seconds for the api servers and the sandbox to become ready. Default: 120.
        sandbox_timeout_seconds: Spanned<ReadySeconds>,
        /// How long the agent may be silent.
        watchdog: Watchdog,
        /// Whether the repository cannot be written to. Default: false.
        readonly_repo: Spanned<bool>,
        /// Where the agent runs and within which limits.
        sandbox: SandboxChoice,
        /// Values for one forge only.
        forge: Option<Forges>,
        /// Which events of a forge start this harness, as a CEL expression over `event`. Empty: a person starts it.
        trigger: Option<Spanned<String>>,
        /// Whether the repository's own skills are given to the agent, scanned. Default: false.
        allow_repo_skills: Spanned<bool>,
        /// Defences against injection and leaks. Absent: all are on and fail closed.
        security: Security,
        /// Tools that need a person's confirmation for each call, with exactly its input. Only a session can ask; a
        /// plain run denies such calls.
        confirm_tools: Vec<Spanned<Identifier>>,
        /// What the run may spend, over all attempts and sub-agents.
        budget: Option<Budget>,
        /// What the model gateway allows in addition to its built-in list.
        gateway: Option<GatewayOptions>,
        /// URL prefixes from which resources may be fetched. The list of a nearer layer replaces that of a farther one.
        allowed_remote_resources: Unmerged<Vec<Spanned<UrlPrefix>>>,
        /// Whether the agent may fetch skills while it runs, with `fullsend fetch-skill`. Default: false.
        allow_runtime_fetch: Spanned<bool>,
        /// How many skills the agent may fetch. Default: 10; only with allow_runtime_fetch.
        max_runtime_fetches: Option<Spanned<Fetches>>,
    }
    refuse {
        "tools_binaries" => "use image and host_files",
    }
}

record! {
    /// The agent that the runtime `acp` drives: a known one, or a command.
    layered pub struct AcpAgent {
        /// An agent whose configuration fullsend writes.
        agent: Option<Spanned<AcpAgentName>>,
        /// Another agent: a program inside the sandbox and its arguments. It must serve the Agent Client Protocol on its
        /// standard streams.
        command: Unmerged<Vec<Spanned<String>>>,
    }
}

record! {
    /// Settings in OpenShell's own words.
    layered pub struct Openshell {
        /// Provider profiles, as files.
        profiles: Vec<Spanned<Ref>>,
        /// Whether the endpoints of the providers' profiles are open for their programs. Default: open.
        profile_network: Option<Spanned<ProfileNetwork>>,
    }
}

record! {
    /// A server on the host, started before the agent and stopped after it.
    pub struct ApiServer {
        /// The agent reaches it as http://<name>.api.fullsend.internal:<port>.
        name: Spanned<HostLabel>,
        /// The program. It gets its port in PORT and its token in FULLSEND_API_TOKEN.
        script: Spanned<LocalPath>,
        /// The port inside the sandbox.
        port: Spanned<PortNumber>,
        /// Its environment. `${VAR}` is expanded.
        env: Variables,
        /// A path that answers 2xx once the server is ready. Absent: the server is ready when it accepts a connection.
        health: Option<Spanned<UrlPath>>,
    }
}

record! {
    /// An MCP server: a program inside the sandbox, or an address.
    pub struct McpServer {
        /// The program inside the sandbox. It communicates over standard input and output.
        command: Option<Spanned<String>>,
        /// Its arguments. `${VAR}` is expanded.
        args: Unmerged<Vec<Template>>,
        /// Its environment. `${VAR}` is expanded.
        env: Variables,
        /// The address of a server, in place of a program. The policy must allow its host.
        url: Option<Spanned<ServerUrl>>,
        /// Headers of every request to the server. `${VAR}` is expanded; a provider's credential is a placeholder.
        headers: Map<Spanned<Template>>,
        /// The transport: http (streamable HTTP) or sse. Default: http.
        transport: Option<Spanned<McpTransport>>,
        /// The tools that may be called, for a server with a `url`; the proxy refuses others. Its endpoint in the
        /// policy must have `protocol: mcp`. Absent: those that the policy allows.
        tools: Option<Unmerged<Vec<Spanned<String>>>>,
    }
}

record! {
    /// How output is checked and how often the agent may try.
    layered pub struct ValidationLoop {
        /// Runs on the host after the output passed the schema; any exit code but 0 rejects the output.
        script: Option<Spanned<LocalPath>>,
        /// The same as `output_schema`.
        schema: Option<Spanned<Ref>>,
        /// How often the agent may run. Default: 2.
        max_iterations: Spanned<Iterations>,
        /// append: a retry continues the conversation in the same repository. fresh: it starts both anew. Default:
        /// append.
        feedback_mode: Spanned<FeedbackMode>,
        /// A shell command on the host that must succeed before anything starts. `${VAR}` is expanded.
        preflight_check: Option<Spanned<Template>>,
    }
}

record! {
    /// Variables for the scripts on the host and for the agent. `${VAR}` is expanded.
    layered pub struct Env {
        /// For the scripts on the host.
        runner: Variables,
        /// For the agent in the sandbox.
        sandbox: Variables,
    }
}

record! {
    /// How long the agent may be silent.
    layered pub struct Watchdog {
        /// Seconds until its first output. Default: 120.
        startup_seconds: Spanned<WatchSeconds>,
        /// Seconds between two outputs. Default: 600.
        idle_seconds: Spanned<WatchSeconds>,
    }
}

record! {
    /// Where the agent runs and within which limits.
    layered pub struct SandboxChoice {
        /// local or openshell. Default: local.
        backend: Spanned<Backend>,
        /// What the agent and its children may use.
        limits: Limits,
        /// Layers and limits of the sandbox that may be weaker than the default, by name.
        accept_weaker: Vec<Spanned<WeakerPart>>,
        /// deny-list refuses some system calls; allow-list allows only some. Default: deny-list.
        system_calls: Spanned<SystemCallList>,
    }
}

record! {
    /// What the agent and its children may use.
    layered pub struct Limits {
        /// Memory of the whole sandbox.
        memory_mb: Spanned<Positive>,
        /// Processes and threads.
        pids: Spanned<Positive>,
        /// The share of processor time. Other processes have 100.
        cpu_weight: Spanned<CpuWeight>,
        /// The largest single file.
        file_mb: Spanned<Positive>,
        /// Descriptors per process.
        open_files: Spanned<Positive>,
        /// All that is written.
        disk_mb: Spanned<Positive>,
    }
}

record! {
    /// What the run may spend.
    layered pub struct Budget {
        /// Dollars, by the price file.
        usd: Option<Spanned<Dollars>>,
        /// Tokens in and out.
        tokens: Option<Spanned<Positive>>,
        /// Requests to the model.
        turns: Option<Spanned<Positive>>,
        /// Dollars that all wakes of one session may spend together.
        session_usd: Option<Spanned<Dollars>>,
        /// Dollars that all runs of this repository may spend on one day (UTC). Runs that share a directory of runs
        /// share the day.
        day_usd: Option<Spanned<Dollars>>,
        /// The same for all repositories of the organisation.
        organisation_day_usd: Option<Spanned<Dollars>>,
    }
}

record! {
    /// What the model gateway allows in addition to its built-in list.
    layered pub struct GatewayOptions {
        /// Features by name: `tool:web_search_20250305`, `beta:files-api-*`, `model:gpt-5`, `client:/usr/bin/curl`. A refusal shows the name.
        allow: Vec<Spanned<GatewayFeature>>,
        /// How many seconds a request is retried after a rate limit, an overload or an outage. Default: until the run's
        /// deadline; in a session two minutes.
        retry_seconds: Option<Spanned<Positive>>,
        /// Models of the same provider to use, in this order, when the model is busy or cannot be reached.
        fallback: Vec<Spanned<ModelName>>,
    }
}

record! {
    /// Values for one forge only.
    layered pub struct Forges {
        /// On GitHub.
        github: Option<ForgeBlock>,
        /// On GitLab.
        gitlab: Option<ForgeBlock>,
        /// For issues in Jira.
        jira: Option<ForgeBlock>,
    }
}

record! {
    /// The fields that may differ between forges; each overrides the field outside the block.
    layered pub struct ForgeBlock {
        /// Replaces the harness's pre-script.
        pre_script: Option<Spanned<LocalPath>>,
        /// Replaces the harness's post-script.
        post_script: Option<Spanned<LocalPath>>,
        /// Replaces the harness's policy.
        policy: Option<Spanned<Ref>>,
        /// Further skills.
        skills: Skills,
        /// Further providers.
        providers: Vec<Spanned<ProviderRef>>,
        /// Further settings in OpenShell's own words.
        openshell: Option<Openshell>,
        /// Further files of the host.
        host_files: HostFiles,
        /// Replaces the harness's output schema.
        output_schema: Option<Spanned<Ref>>,
        /// Merged into the harness's validation loop.
        validation_loop: Option<ValidationLoop>,
        /// Deprecated: use `env.runner`, which wins.
        runner_env: Variables,
        /// Merged into the harness's variables.
        env: Option<Env>,
    }
}

/// A provider by its name, or the file that defines it.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderRef {
    Name(Identifier),
    File(Ref),
}

impl std::fmt::Display for ProviderRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::File(file) => file.fmt(f),
        }
    }
}

impl yaml::Shape for ProviderRef {
    fn decode(node: &yaml::Node, decoder: &mut yaml::Decoder) -> Option<Self> {
        let is_file = node
            .scalar()
            .is_some_and(|text| text.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml"));
        if is_file {
            Ref::decode(node, decoder).map(Self::File)
        } else {
            Identifier::decode(node, decoder).map(Self::Name)
        }
    }

    fn schema(_: &mut yaml::Schemas) -> yaml::macros::Json {
        yaml::macros::json!({ "type": "string", "minLength": 1 })
    }
}

impl Harness {
    /// The schema of the output, under whichever of its two names it was given.
    pub fn schema(&self) -> Option<&Spanned<Ref>> {
        self.output_schema.as_ref().or(self.validation_loop.schema.as_ref())
    }
}
