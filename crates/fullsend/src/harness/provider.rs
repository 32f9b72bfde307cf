//! Provider and profile files: which credential, from where, for which endpoints. Only names of variables are written here,
//! never values.

use yaml::macros::Json;
use yaml::{Decoder, Diagnostic, Map, Node, Schemas, Shape, Spanned, Value, choice, record};

use super::names::Identifier;
use super::template::Template;

record! {
    /// A provider: credentials of one type that the run may use. The agent never gets their values.
    pub struct Provider {
        /// The name that harnesses use.
        name: Spanned<Identifier>,
        /// The profile it follows: anthropic, openai, github, gitlab, or one in profiles/.
        kind as "type": Spanned<Identifier>,
        /// Variable inside the sandbox → where the value comes from: `${HOST_VAR}`, `file:PATH` or `exec:COMMAND`. An
        /// empty text means no credential: then the provider only opens its profile's endpoints.
        credentials: Map<Spanned<Template>>,
        /// Settings of the profile, such as base_url. `${VAR}` is expanded.
        config: Map<Spanned<Template>>,
    }
}

choice! {
    /// What a profile is for.
    pub enum ProviderCategory {
        Other = "other", Inference = "inference", Agent = "agent", SourceControl = "source_control",
        Messaging = "messaging", Data = "data", Knowledge = "knowledge",
    }
}

choice! {
    /// Which part of a request holds the credential: `Authorization` (basic, bearer), the header `header_name`, the query
    /// parameter `query_param`, or the path.
    pub enum AuthStyle { Basic = "basic", Bearer = "bearer", Header = "header", Query = "query", Path = "path" }
}

record! {
    /// A profile: what a type of provider needs and where it may be used.
    pub struct Profile {
        /// The type that providers name.
        id: Spanned<Identifier>,
        display_name: Option<String>,
        description: Option<String>,
        category: Option<ProviderCategory>,
        /// Whether the model gateway may use it.
        inference_capable: Option<bool>,
        annotations: Map<String>,
        credentials: Vec<ProfileCredential>,
        discovery: Option<Discovery>,
        /// Endpoints in the policy format that the credentials are bound to.
        endpoints: Vec<Raw>,
        /// Programs that may use them.
        binaries: Vec<Spanned<String>>,
    }
}

record! {
    /// A credential that a profile knows.
    pub struct ProfileCredential {
        name: Spanned<String>,
        description: Option<String>,
        env_vars: Vec<Spanned<String>>,
        required: Option<bool>,
        /// Without it the credential goes into `Authorization` only.
        auth_style: Option<AuthStyle>,
        header_name: Option<String>,
        query_param: Option<String>,
        /// The path with the credential in braces, such as `/bot{token}/**`.
        path_template: Option<String>,
        /// Whether it may be sent without TLS.
        plain: Option<bool>,
        /// How a gateway would refresh it.
        refresh: Option<Raw>,
        token_grant: Option<Raw>,
    }
}

record! {
    /// Where to look for credentials.
    pub struct Discovery {
        credentials: Vec<Spanned<String>>,
    }
}

/// A part of the file that other code decodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw(pub Node);

impl Shape for Raw {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        if matches!(node.value, Value::Map(_)) {
            return Some(Self(node.clone()));
        }
        decoder.wrong_kind(node, "a map");
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        yaml::macros::json!({ "type": "object" })
    }
}

/// Errors of a provider beyond its structure: secrets written into the file, and variables that would take control of
/// the sandbox.
pub fn problems(provider: &Provider) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, value) in provider.credentials.iter() {
        if !super::template::is_variable_name(name) || is_reserved(name) {
            let message = format!("`credentials.{}` cannot be a variable of the sandbox", name.value);
            found.push(
                Diagnostic::error("reserved-name", name.at, message)
                    .help("use a name of its own, such as GH_TOKEN"),
            );
        }
        let raw = value.raw();
        let from_outside = raw.starts_with("file:") || raw.starts_with("exec:") || is_one_variable(value);
        if !from_outside && !raw.is_empty() {
            let message = format!("`credentials.{}` is in plain text in the file", name.value);
            found.push(Diagnostic::error("literal-credential", value.at, message).help(format!(
                "name where it comes from: `${{{}}}`, `file:PATH` or `exec:COMMAND`",
                name.value
            )));
        }
    }
    found
}

/// The credentials that have a value. An empty text is not one.
pub fn credentials(provider: &Provider) -> impl Iterator<Item = (&Spanned<String>, &Spanned<Template>)> {
    provider.credentials.iter().filter(|(_, value)| !value.raw().is_empty())
}

/// What the profile requires and the provider does not name. A scripted model needs no key.
pub fn absent(provider: &Provider, profile: &Profile) -> Vec<Diagnostic> {
    if provider.config.get("scenario").is_some() {
        return Vec::new();
    }
    let given = |credential: &ProfileCredential| {
        credential.env_vars.iter().any(|name| credentials(provider).any(|(key, _)| key.value == name.value))
    };
    let required = profile.credentials.iter().filter(|credential| credential.required == Some(true));
    let say = |credential: &ProfileCredential| {
        let names: Vec<&str> = credential.env_vars.iter().map(|name| name.value.as_str()).collect();
        let message = format!(
            "the provider `{}` does not name the credential `{}`, which its type requires",
            provider.name.value, credential.name.value
        );
        Diagnostic::error("no-credential", provider.name.at, message)
            .related(credential.name.at, "required here")
            .help(format!("add to `credentials` one of: {}", names.join(", ")))
    };
    required.filter(|credential| !given(credential)).map(say).collect()
}

/// The profile's entries for the variable. Several entries name several parts of a request.
pub fn entries<'a>(profile: &'a Profile, variable: &str) -> impl Iterator<Item = &'a ProfileCredential> {
    let names =
        |credential: &ProfileCredential| credential.env_vars.iter().any(|name| name.value == *variable);
    let found: Vec<&ProfileCredential> =
        profile.credentials.iter().filter(|credential| names(credential)).collect();
    found.into_iter()
}

fn is_one_variable(value: &Template) -> bool {
    let mut names = value.variables();
    names.next().is_some_and(|name| value.raw() == format!("${{{name}}}"))
}

/// Variables that fullsend sets inside, and variables that decide how programs start, which certificates they trust,
/// where the model is, or what git runs.
const RESERVED: &[&str] = &[
    "PATH",
    "HOME",
    "SHELL",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "ENV",
    "BASH_ENV",
    "IFS",
    "NODE_OPTIONS",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "TRACEPARENT",
    "TIRITH_FAIL_ON",
    "TIRITH_REQUIRED",
    "RUST_LOG",
    "FULLSEND_ROLE",
    "FULLSEND_SLUG",
    "FULLSEND_DIR",
    "FULLSEND_RUN_DIR",
    "FULLSEND_WAKE_ID",
    "FULLSEND_DEADLINE",
    "FULLSEND_TRACE_ID",
];

/// Variables that name the certificates that a program trusts. The sandbox sets them to its own bundle.
const TRUST: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

const RESERVED_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "PYTHON",
    "GIT_",
    "OPENSHELL_",
    "BASH_FUNC_",
    "FULLSEND_OUTPUT",
    "FULLSEND_INPUT",
    "FULLSEND_TARGET_",
    "FULLSEND_GUARD_",
    "FULLSEND_MODEL_",
    "FULLSEND_API_",
    "FULLSEND_SESSION_",
    "FULLSEND_FETCH_",
    "FULLSEND_CANARY_",
];

/// Harmless names below a reserved prefix: the author of a commit, and whether git prompts.
const ORDINARY: &[&str] = &[
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
    "GIT_TERMINAL_PROMPT",
];

/// Whether the variable is reserved: no harness may set it.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
        || TRUST.contains(&name)
        || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !ORDINARY.contains(&name)
}

/// The same for a value: a certificate variable may name the sandbox's own bundle, because that changes nothing.
pub fn is_reserved_for(name: &str, value: &str) -> bool {
    is_reserved(name) && !(TRUST.contains(&name) && CA_BUNDLES.contains(&value))
}

/// Where programs inside find the trusted certificates. Programs written for OpenShell use the second path.
pub const CA_BUNDLES: [&str; 2] = ["/etc/fullsend/ca-bundle.pem", "/etc/openshell-tls/ca-bundle.pem"];
