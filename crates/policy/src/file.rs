//! Policy files as they are written: every key, without interpretation. One declaration gives the parser, its messages
//! and the JSON Schema; `read` checks what the values mean together.

use yaml::macros::{Json, json};
use yaml::{Decoder, Diagnostic, Map, Node, Schemas, Shape, Spanned, Value, choice, emit, ranged, record};

record! {
    /// What one sandbox may read, write, start and reach.
    pub struct PolicyFile {
        /// The version of this format: 1.
        version: PolicyVersion,
        /// Files and directories the sandbox sees.
        filesystem_policy: Option<FilesystemFile>,
        /// What to do on a kernel without Landlock.
        landlock: Option<LandlockFile>,
        /// The user and group of the processes.
        process: Option<ProcessFile>,
        /// Where programs may connect, by name of the rule. Without rules there is no network.
        network_policies: Map<NetworkFile>,
        /// Middlewares that inspect admitted requests before they leave, by name.
        network_middlewares: Map<MiddlewareFile>,
    }
}

record! {
    /// Paths the sandbox may read or write. A path covers itself and everything below it.
    pub struct FilesystemFile {
        /// Whether the working directory is writable.
        include_workdir: Option<Spanned<bool>>,
        /// Absolute paths that may be read.
        read_only: Vec<Spanned<String>>,
        /// Absolute paths that may be read and written.
        read_write: Vec<Spanned<String>>,
    }
}

record! {
    /// How strictly Landlock is required.
    pub struct LandlockFile {
        compatibility: Option<Spanned<Compatibility>>,
    }
}

choice! {
    /// What happens when Landlock, or one of the paths, is missing.
    pub enum Compatibility {
        /// Continue with what is available, with a warning.
        BestEffort = "best_effort",
        /// Do not start.
        HardRequirement = "hard_requirement",
    }
}

/// A user or a group: a name, or a number, in quotes or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserOrGroup(pub String);

impl Shape for UserOrGroup {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        match &node.value {
            Value::Number(number) => Some(Self(number.clone())),
            _ => String::decode(node, decoder).map(Self),
        }
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": ["string", "integer"] })
    }
}

record! {
    /// The user and group of the processes: `sandbox`, or a number from 1 to 4294967294.
    pub struct ProcessFile {
        run_as_user: Option<Spanned<UserOrGroup>>,
        run_as_group: Option<Spanned<UserOrGroup>>,
    }
}

record! {
    /// Which programs may connect to which endpoints.
    pub struct NetworkFile {
        /// The name in logs; the key when absent.
        name: Option<Spanned<String>>,
        endpoints: Vec<Spanned<EndpointFile>>,
        /// The programs, by the path of their executable or that of a process above them. Without binaries, the rule allows no program.
        binaries: Vec<Spanned<BinaryFile>>,
    }
}

record! {
    /// A program that may connect.
    pub struct BinaryFile {
        /// An absolute path; `*` matches one component, `**` any number.
        path: Spanned<String>,
        /// Without effect; accepted for older files.
        harness: Option<Spanned<bool>>,
    }
}

record! {
    /// One destination, and what may be asked of it.
    pub struct EndpointFile {
        /// A host name, an IP address, or a pattern such as `*.example.com`.
        host: Option<Spanned<String>>,
        port: Option<Spanned<PolicyPort>>,
        /// Several ports; wins over `port`.
        ports: Option<Spanned<Vec<Spanned<PolicyPort>>>>,
        /// The paths that this endpoint covers; all when absent.
        path: Option<Spanned<String>>,
        /// How the traffic is read; bytes are passed on unread when absent.
        protocol: Option<Spanned<Protocol>>,
        /// `skip` never terminates TLS.
        tls: Option<Spanned<Tls>>,
        /// `enforce`, the default, refuses a request that the rules do not allow; `audit` records it and lets it through.
        enforcement: Option<Spanned<Enforcement>>,
        /// A ready-made set of rules; not together with `rules`.
        access: Option<Spanned<Access>>,
        rules: Option<Spanned<Vec<Spanned<AllowFile>>>>,
        /// What is refused even where a rule allows it.
        deny_rules: Option<Spanned<Vec<Spanned<RuleFile>>>>,
        /// IP addresses and CIDR blocks the host may resolve to, instead of public ones.
        allowed_ips: Vec<Spanned<String>>,
        /// Whether `%2F` may be inside a path segment.
        allow_encoded_slash: Option<Spanned<bool>>,
        websocket_credential_rewrite: Option<Spanned<bool>>,
        request_body_credential_rewrite: Option<Spanned<bool>>,
        /// Whether credentials may be bound to an endpoint whose traffic is not read.
        allow_uninspected_credentials: Option<Spanned<bool>>,
        credential_signing: Option<Spanned<Signing>>,
        signing_service: Option<Spanned<String>>,
        signing_region: Option<Spanned<String>>,
        credential_binding: Option<Spanned<BindingFile>>,
        persisted_queries: Option<Spanned<PersistedQueries>>,
        graphql_persisted_queries: Option<Spanned<Map<PersistedQueryFile>>>,
        graphql_max_body_bytes: Option<Spanned<BodyBytes>>,
        json_rpc: Option<Spanned<JsonRpcFile>>,
        mcp: Option<Spanned<McpFile>>,
    }
}

ranged! {
    /// A port; 0 means none.
    pub struct PolicyPort: 0..=65535
}

ranged! {
    /// How much of a body is read.
    pub struct BodyBytes: 0..=4294967295
}

choice! {
    /// How the traffic of an endpoint is read.
    pub enum Protocol {
        /// Bytes through the proxy, unread.
        Tunnel = "",
        /// Bytes, also without the proxy variables.
        Tcp = "tcp",
        Rest = "rest",
        Websocket = "websocket",
        Graphql = "graphql",
        JsonRpc = "json-rpc",
        Mcp = "mcp",
        Sql = "sql",
    }
}

choice! {
    /// Whether TLS is terminated to read what is inside.
    pub enum Tls {
        /// When a rule needs it.
        Auto = "",
        Skip = "skip",
        /// The same as an absent key.
        Terminate = "terminate",
        /// The same as an absent key.
        Passthrough = "passthrough",
    }
}

choice! {
    /// What happens to a request that the rules do not allow.
    pub enum Enforcement {
        /// The same as if it were absent.
        Unsaid = "",
        Audit = "audit",
        Enforce = "enforce",
    }
}

choice! {
    /// A ready-made set of rules.
    pub enum Access {
        None = "",
        ReadOnly = "read-only",
        ReadWrite = "read-write",
        Full = "full",
    }
}

choice! {
    /// How requests are signed.
    pub enum Signing {
        None = "",
        Sigv4 = "sigv4",
        Sigv4Body = "sigv4:body",
        Sigv4NoBody = "sigv4:no_body",
    }
}

choice! {
    /// Whether GraphQL requests may name a stored query.
    pub enum PersistedQueries {
        Unsaid = "",
        Deny = "deny",
        AllowRegistered = "allow_registered",
    }
}

record! {
    /// One allow rule.
    pub struct AllowFile {
        allow: Option<Spanned<RuleFile>>,
    }
}

record! {
    /// The conditions of a rule. Which keys are allowed depends on the protocol.
    pub struct RuleFile {
        /// The method, `*` for any.
        method: Option<Spanned<String>>,
        /// A pattern; `*` stays within one segment, `**` crosses them.
        path: Option<Spanned<String>>,
        /// Query keys and what their values must match.
        query: Map<Matcher>,
        operation_type: Option<Spanned<String>>,
        operation_name: Option<Spanned<String>>,
        fields: Vec<Spanned<String>>,
        /// The tool that an MCP call names.
        tool: Option<Spanned<Matcher>>,
        /// Parameters of a JSON-RPC or MCP call by their path, such as `arguments.path`, and what their values must match.
        params: Map<Matcher>,
        command: Option<Spanned<String>>,
    }
}

record! {
    /// Which provider's credential this endpoint may get.
    pub struct BindingFile {
        provider: Spanned<String>,
    }
}

record! {
    /// A stored GraphQL query.
    pub struct PersistedQueryFile {
        operation_type: Option<Spanned<String>>,
        operation_name: Option<Spanned<String>>,
        fields: Vec<Spanned<String>>,
    }
}

record! {
    /// How JSON-RPC is read.
    pub struct JsonRpcFile {
        max_body_bytes: Option<Spanned<BodyBytes>>,
    }
}

record! {
    /// How MCP is read.
    pub struct McpFile {
        max_body_bytes: Option<Spanned<BodyBytes>>,
        strict_tool_names: Option<Spanned<bool>>,
        allow_all_known_mcp_methods: Option<Spanned<bool>>,
    }
}

record! {
    /// A middleware that inspects requests.
    pub struct MiddlewareFile {
        name: Option<Spanned<String>>,
        /// `openshell/regex`, or the name of the operator's own middleware.
        middleware: Spanned<String>,
        /// Lower runs first; each middleware needs a different number.
        order: Option<Spanned<MiddlewareOrder>>,
        config: Option<FreeMap>,
        on_error: Option<Spanned<OnError>>,
        endpoints: Option<Spanned<SelectorFile>>,
    }
}

record! {
    /// The hosts whose requests a middleware inspects.
    pub struct SelectorFile {
        include: Vec<Spanned<String>>,
        exclude: Vec<Spanned<String>>,
    }
}

choice! {
    /// What happens to a request when a middleware fails.
    pub enum OnError { FailClosed = "fail_closed", FailOpen = "fail_open" }
}

/// The one version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyVersion;

impl Shape for PolicyVersion {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        match u64::decode(node, decoder)? {
            1 => Some(Self),
            other => {
                let message = format!("policy version {other} is not supported; use version 1");
                decoder.report(Diagnostic::error("version", node.at, message).label("write `version: 1`"));
                None
            }
        }
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "const": 1 })
    }
}

/// A whole number of 32 bits that may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MiddlewareOrder(pub i32);

impl Shape for MiddlewareOrder {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let number = match &node.value {
            Value::Number(raw) => raw.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            decoder.wrong_kind(node, "a whole number of 32 bits");
        }
        number.map(Self)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX })
    }
}

/// One pattern, or several of which one must match.
#[derive(Clone, Debug, PartialEq)]
pub enum Matcher {
    Glob(Spanned<String>),
    Any(Vec<Spanned<String>>),
}

record! {
    /// Several patterns of which one must match.
    pub struct AnyFile {
        any: Vec<Spanned<String>>,
    }
}

impl Matcher {
    /// The patterns of which one must match.
    pub fn texts(&self) -> &[Spanned<String>] {
        match self {
            Self::Glob(text) => std::slice::from_ref(text),
            Self::Any(texts) => texts,
        }
    }
}

impl Shape for Matcher {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        match &node.value {
            Value::Map(_) => AnyFile::decode(node, decoder).map(|file| Self::Any(file.any)),
            Value::Text(_) => Spanned::decode(node, decoder).map(Self::Glob),
            _ => {
                decoder.wrong_kind(node, "a pattern (in quotes) or `{any: [patterns]}`");
                None
            }
        }
    }

    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "anyOf": [{ "type": "string" }, AnyFile::schema(schemas)] })
    }
}

/// A map whose meaning is defined elsewhere. Two are equal when their values are written the same.
#[derive(Clone, Debug)]
pub struct FreeMap(pub Node);

impl PartialEq for FreeMap {
    fn eq(&self, other: &Self) -> bool {
        emit(&self.0, &|_| None) == emit(&other.0, &|_| None)
    }
}

impl Shape for FreeMap {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        if let Value::Map(_) = node.value {
            return Some(Self(node.clone()));
        }
        decoder.wrong_kind(node, "a map");
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "object" })
    }
}
