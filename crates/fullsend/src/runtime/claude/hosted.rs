//! Claude Code in the format of the service that hosts the model. It uses one only if the harness's own files select it
//! and the provider is of that service; the gateway then speaks the same format. It authenticates nowhere: the gateway does.

use std::ffi::OsString;

use crate::check::Checked;
use crate::check::services;

/// A service whose format Claude Code has.
struct HostedService {
    /// Its name in the gateway's table of services.
    name: &'static str,
    /// The variable that selects it.
    select: &'static str,
    skip_authentication: &'static str,
    base_url: &'static str,
    /// What follows the gateway's address in `base_url`.
    prefix: &'static str,
    /// Variables without which it does not start. The gateway does not read their values.
    required: &'static [(&'static str, &'static str)],
}

const HOSTED: &[HostedService] = &[
    HostedService {
        name: "vertex",
        select: "CLAUDE_CODE_USE_VERTEX",
        skip_authentication: "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        base_url: "ANTHROPIC_VERTEX_BASE_URL",
        prefix: "/v1",
        required: &[("ANTHROPIC_VERTEX_PROJECT_ID", "held-by-fullsend"), ("CLOUD_ML_REGION", "global")],
    },
    HostedService {
        name: "bedrock",
        select: "CLAUDE_CODE_USE_BEDROCK",
        skip_authentication: "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        base_url: "ANTHROPIC_BEDROCK_BASE_URL",
        prefix: "",
        required: &[("AWS_REGION", "us-east-1")],
    },
];

/// The service of the provider that serves the model, if Claude Code has its format.
fn of_provider(checked: &Checked) -> Option<&'static HostedService> {
    let provider = checked.providers.iter().find(|file| file.inference_capable())?;
    let service = services::service(provider).ok()?;
    HOSTED.iter().find(|hosted| hosted.name == service.name)
}

/// The variable that selects the provider's service.
pub fn selecting_variable(checked: &Checked) -> Option<&'static str> {
    of_provider(checked).map(|hosted| hosted.select)
}

/// What Claude Code needs to send the selected format to the gateway; nothing if the harness selects none.
pub fn variables(
    checked: &Checked,
    set_by_harness: &[(OsString, OsString)],
    gateway: &str,
) -> Vec<(&'static str, String)> {
    let value_of = |name: &str| {
        let set = set_by_harness.iter().rev().find(|(known, _)| known == name);
        set.and_then(|(_, value)| value.to_str()).filter(|value| !value.is_empty())
    };
    let selected = of_provider(checked).filter(|hosted| value_of(hosted.select).is_some_and(is_true));
    let Some(hosted) = selected else { return Vec::new() };
    let missing = hosted.required.iter().filter(|(name, _)| value_of(name).is_none());
    let mut variables = vec![
        (hosted.select, "1".to_owned()),
        (hosted.skip_authentication, "1".to_owned()),
        (hosted.base_url, format!("{gateway}{}", hosted.prefix)),
    ];
    variables.extend(missing.map(|(name, value)| (*name, (*value).to_owned())));
    variables
}

/// As Claude Code reads a switch.
fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.trim().to_ascii_lowercase().as_str())
}
