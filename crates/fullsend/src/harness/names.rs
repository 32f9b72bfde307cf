//! The small types of a harness file: names with a rule, numbers with bounds, choices of words.

use yaml::macros::{Json, json};
use yaml::{Decoder, Diagnostic, Node, Schemas, Shape, Value, choice, ranged, text};

use super::template::is_variable_name;

/// The newest version of the file format that this program reads.
pub const NEWEST_VERSION: u64 = 1;

/// The format version of a file; absent means 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatVersion(u64);

impl FormatVersion {
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Shape for FormatVersion {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        // Files of the original project write the number as a string.
        let written = match &node.value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        let number = match written {
            Some(number) => number,
            None => u64::decode(node, decoder)?,
        };
        match number {
            number @ 1..=NEWEST_VERSION => Some(Self(number)),
            0 => {
                let message =
                    format!("version 0 does not exist; this fullsend reads version {NEWEST_VERSION}");
                decoder.report(Diagnostic::error("version", node.at, message).help("write `version: 1`"));
                None
            }
            number => {
                let message = format!(
                    "this file is version {number}, and this fullsend reads up to version {NEWEST_VERSION}"
                );
                decoder.report(
                    Diagnostic::error("version", node.at, message)
                        .help("use a newer fullsend, or write `version: 1`"),
                );
                None
            }
        }
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "const": NEWEST_VERSION })
    }
}

macro_rules! name_runtimes {
    ($($name:ident = $word:literal in $folder:ident,)+) => {
        choice! {
            /// Which agent program runs.
            pub enum RuntimeName { $($name = $word),+ }
        }
    };
}
crate::runtimes::runtimes!(name_runtimes);

choice! {
    /// How hard the model should think.
    pub enum ModelEffort { Low = "low", Medium = "medium", High = "high", Xhigh = "xhigh", Max = "max" }
}

choice! {
    /// Whether a retry continues the conversation.
    pub enum FeedbackMode {
        /// The same conversation and the repository as it was left.
        Append = "append",
        /// A new conversation and the repository as it was at the start.
        Fresh = "fresh",
    }
}

choice! {
    /// An agent that speaks the Agent Client Protocol.
    pub enum AcpAgentName { Opencode = "opencode", Gemini = "gemini" }
}

choice! {
    /// Where the sandbox comes from.
    pub enum Backend { Local = "local", Openshell = "openshell" }
}

choice! {
    /// A layer or limit of the sandbox that may be weaker than the default.
    pub enum WeakerPart {
        Landlock = "landlock", Memory = "memory", Pids = "pids", Cpu = "cpu", Disk = "disk",
        Seccomp = "seccomp", Network = "network", Namespaces = "namespaces",
    }
}

choice! {
    /// Whether the endpoints of providers' profiles are a part of the policy.
    pub enum ProfileNetwork { Open = "open", Closed = "closed" }
}

choice! {
    /// Which system calls the agent and its children may make.
    pub enum SystemCallList {
        /// All but those that no program of a run needs.
        Deny = "deny-list",
        /// Only those that the runtimes and the usual tools use.
        Allow = "allow-list",
    }
}

choice! {
    /// A place that hosts code or issues.
    pub enum ForgeName { Github = "github", Gitlab = "gitlab", Jira = "jira" }
}

ranged! {
    /// Minutes of wall clock.
    pub struct Minutes: 1..=1440
}
ranged! {
    /// How long the sandbox may take to become ready.
    pub struct ReadySeconds: 30..=600
}
ranged! {
    /// How long an agent may be silent.
    pub struct WatchSeconds: 1..=86400
}
ranged! {
    /// How often the agent may run.
    pub struct Iterations: 1..=10
}
ranged! {
    /// A TCP port.
    pub struct PortNumber: 1..=65535
}
ranged! {
    /// How many remote resources a run may fetch.
    pub struct Fetches: 1..=1000
}
ranged! {
    /// A count or a size that must not be zero.
    pub struct Positive: 1..=1_000_000_000_000
}
ranged! {
    /// The share of processor time against others, as cgroups count it.
    pub struct CpuWeight: 1..=10_000
}

fn is_role(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
        && !name.contains("--")
}

text! {
    /// The role of the agent in its organisation.
    pub struct AgentRole: is_role, "^(?!.*--)[a-z][a-z0-9_-]*$", "a lower-case word of letters, digits, `-` and `_`, without `--`"
}

fn is_slug(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && is_identifier(name)
}

text! {
    /// A short name used in other names.
    pub struct Slug: is_slug, "^[a-zA-Z0-9][a-zA-Z0-9_-]*$", "letters, digits, `-` and `_`, beginning with a letter or digit"
}

/// The rule for names of agents, skills and providers.
pub fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

text! {
    /// A name made of letters, digits, `-` and `_`.
    pub struct Identifier: is_identifier, "^[a-zA-Z0-9_-]{1,128}$", "letters, digits, `-` and `_`"
}

fn is_host_label(name: &str) -> bool {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(part) && !name.starts_with('-') && !name.ends_with('-')
}

text! {
    /// One part of a host's name.
    pub struct HostLabel: is_host_label, "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "lower-case letters, digits and `-`, as in a host's name"
}

/// Any name that a service may use: paths, tags, ARNs, `[1m]`; but not one that starts like an option.
fn is_model(name: &str) -> bool {
    (1..=512).contains(&name.len())
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.@/:[]+-".contains(c))
}

text! {
    /// The name of a model, as its service spells it.
    pub struct ModelName: is_model, "^(?!-)[a-zA-Z0-9_.@/:\\[\\]+-]{1,512}$", "letters, digits and `_ . @ / : [ ] + -`, not beginning with `-`"
}

fn is_gateway_feature(name: &str) -> bool {
    let kinds = [
        "field", "tool", "block", "item", "part", "source", "edit", "call", "beta", "query", "model",
        "client",
    ];
    name.split_once(':').is_some_and(|(kind, rest)| {
        kinds.contains(&kind) && !rest.is_empty() && rest.len() <= 256 && !rest.contains(char::is_whitespace)
    })
}

text! {
    /// A feature that the model gateway can pass.
    pub struct GatewayFeature: is_gateway_feature, "^(field|tool|block|item|part|source|edit|call|beta|query|model|client):\\S{1,256}$", "a feature such as `tool:web_search_20250305`, as a refusal of the gateway shows it"
}

text! {
    /// The name of an environment variable.
    pub struct VariableName: is_variable_name, "^[A-Za-z_][A-Za-z0-9_]*$", "a variable's name: letters, digits and `_`"
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains(['/', '\0', '\n'])
}

text! {
    /// The name of a file, without a directory.
    pub struct FileName: is_file_name, "^[^./\\n][^/\\n]{0,254}$", "the name of a file, without a directory"
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/')
        && path.len() > 1
        && !path.split('/').any(|part| part == "..")
        && !path.contains(['\0', '\n'])
}

text! {
    /// An absolute path inside the sandbox.
    pub struct SandboxPath: is_absolute, "^/[^\\n]+$", "an absolute path inside the sandbox, without `..`"
}

fn is_url_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic())
}

text! {
    /// The path of a URL.
    pub struct UrlPath: is_url_path, "^/[!-~]*$", "a path that starts with `/`"
}

fn is_server_url(text: &str) -> bool {
    parts_of_url(text).is_some()
}

/// Host, port and path of a plain address: without a user, a query or a fragment.
fn parts_of_url(text: &str) -> Option<(&str, u16, &str)> {
    let (rest, usual_port) = match text.strip_prefix("https://") {
        Some(rest) => (rest, 443),
        None => (text.strip_prefix("http://")?, 80),
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['@', '?', '#', '\\', '"']) {
        return None;
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)?),
        _ => (authority, usual_port),
    };
    (!host.is_empty()).then_some((host, port, if path.is_empty() { "/" } else { path }))
}

text! {
    /// The address of a server.
    pub struct ServerUrl: is_server_url, "^https?://[!-~]+$", "an address such as `https://mcp.example.com/mcp`, without a user, a query or a fragment"
}

impl ServerUrl {
    pub fn is_tls(&self) -> bool {
        self.as_str().starts_with("https://")
    }

    /// Host, port and path.
    pub fn parts(&self) -> (&str, u16, &str) {
        parts_of_url(self.as_str()).unwrap_or_default()
    }
}

choice! {
    /// The transport of an MCP server at an address.
    pub enum McpTransport {
        /// Streamable HTTP.
        Http = "http",
        /// Server-sent events, the older one.
        Sse = "sse",
    }
}

/// An amount of money, in dollars.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Dollars(f64);

impl Dollars {
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Shape for Dollars {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let amount = f64::decode(node, decoder)?;
        if amount > 0.0 && amount <= 1e9 {
            return Some(Self(amount));
        }
        decoder.wrong_value(node, "must be an amount above zero");
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number", "exclusiveMinimum": 0 })
    }
}

/// Dollars for a million tokens. Zero is a price too.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct TokenPrice(f64);

impl TokenPrice {
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Shape for TokenPrice {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let amount = f64::decode(node, decoder)?;
        if (0.0..=1e6).contains(&amount) {
            return Some(Self(amount));
        }
        decoder.wrong_value(node, "must be dollars for a million tokens, between 0 and 1000000");
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number", "minimum": 0, "maximum": 1_000_000 })
    }
}

/// A probability.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Threshold(f64);

impl Threshold {
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Shape for Threshold {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let number = f64::decode(node, decoder)?;
        if number > 0.0 && number <= 1.0 {
            return Some(Self(number));
        }
        decoder.wrong_value(node, "must be above 0 and at most 1");
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_plain() {
        let parts = |text: &str| {
            ServerUrl::parse(text).map(|url| {
                let (host, port, path) = url.parts();
                format!("{host} {port} {path} {}", url.is_tls())
            })
        };
        assert_eq!(parts("https://mcp.example.com").as_deref(), Some("mcp.example.com 443 / true"));
        assert_eq!(parts("http://[::1]:8080/mcp/").as_deref(), Some("[::1] 8080 /mcp/ false"));
        for wrong in [
            "mcp.example.com",
            "ftp://mcp.example.com/",
            "https://",
            "https:///mcp",
            "https://me@mcp.example.com/",
            "https://mcp.example.com/?a=b",
            "https://mcp.example.com/#a",
            "https://mcp.example.com:0/",
            "https://mcp.example.com:99999/",
            "https://mcp example.com/",
            "https://a\\b/",
            "https://a/\"x",
        ] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
