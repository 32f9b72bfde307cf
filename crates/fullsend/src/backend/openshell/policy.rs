//! The policy of a run as the gateway takes it. Access presets are expanded to rules before, and each endpoint has
//! `enforcement`: without it the gateway only logs refusals.

use policy::Policy;
use policy::model::{
    Compatibility, Endpoint, HostPattern, NetworkRule, Protocol, RequestRule, RuleSubject, ValuePattern,
};

use super::client::ProtocolVersion;
use super::protobuf::Message;

/// `writable` are the directories that the run needs beside those of the policy; the gateway makes those that the image
/// does not have. `provider` is the name that a provider has on the gateway.
pub(super) fn message(
    policy: &Policy,
    writable: &[&str],
    line: ProtocolVersion,
    provider: &dyn Fn(&str) -> Option<String>,
) -> Message {
    let filesystem = &policy.filesystem;
    let mut read_write: Vec<&str> = filesystem.read_write.iter().map(|path| path.value.as_str()).collect();
    read_write.extend(writable);
    read_write.sort_unstable();
    read_write.dedup();
    let read_only = filesystem.read_only.iter().map(|path| path.value.as_str());
    let files = Message::default()
        .flag(1, filesystem.includes_workdir())
        .texts(2, read_only.filter(|path| !read_write.contains(path)))
        .texts(3, &read_write);
    let compatibility = match policy.landlock.value {
        Compatibility::BestEffort => "best_effort",
        Compatibility::HardRequirement => "hard_requirement",
    };
    let identity = |identity: Option<String>| identity.unwrap_or_default();
    let process = Message::default()
        .text(1, &identity(policy.process.user.as_ref().map(|user| user.value.to_string())))
        .text(2, &identity(policy.process.group.as_ref().map(|group| group.value.to_string())));
    let networks = policy
        .networks
        .iter()
        .map(|rule| Message::default().text(1, &rule.key.value).message(2, network(rule, line, provider)));
    Message::default()
        .number(1, 1)
        .message(2, files)
        .message(3, Message::default().text(1, compatibility))
        .message(4, process)
        .messages(5, networks)
}

fn network(rule: &NetworkRule, line: ProtocolVersion, provider: &dyn Fn(&str) -> Option<String>) -> Message {
    let binaries = rule.binaries.iter().map(|path| Message::default().text(1, path.value.as_str()));
    Message::default()
        .text(1, &rule.name)
        .messages(2, rule.endpoints.iter().map(|one| endpoint(one, line, provider)))
        .messages(3, binaries)
}

pub(super) fn endpoint(
    endpoint: &Endpoint,
    line: ProtocolVersion,
    provider: &dyn Fn(&str) -> Option<String>,
) -> Message {
    let host = match &endpoint.host {
        HostPattern::Any => String::new(),
        host => host.to_string(),
    };
    let reads = endpoint.protocol.reads_requests();
    let message = Message::default().text(1, &host).text(3, endpoint.protocol.word());
    let message = match line {
        ProtocolVersion::V0_0 => message.text(4, if endpoint.tls_skip { "skip" } else { "" }).text(
            5,
            match (reads, endpoint.enforce) {
                (false, _) => "",
                (true, true) => "enforce",
                (true, false) => "audit",
            },
        ),
        ProtocolVersion::V0_1 => message.flag(4, endpoint.tls_skip).number(
            5,
            match (reads, endpoint.enforce) {
                (false, _) => 0,
                (true, true) => 1,
                (true, false) => 2,
            },
        ),
    };
    let allow = endpoint.allow.iter().map(|rule| Message::default().message(1, request(rule)));
    let ports = endpoint.ports.iter().fold(Vec::new(), |mut all, port| {
        all.extend_from_slice(&packed(u64::from(*port)));
        all
    });
    let limit = |protocols: &[Protocol]| {
        if protocols.contains(&endpoint.protocol) { endpoint.limits.max_body_bytes } else { 0 }
    };
    let credentials = &endpoint.credentials;
    let message = message
        .messages(7, allow)
        .texts(8, endpoint.allowed_ips.iter().map(ToString::to_string))
        .bytes(9, &ports)
        .messages(10, endpoint.deny.iter().map(request))
        .flag(11, endpoint.allow_encoded_slash)
        .number(14, limit(&[Protocol::Graphql]))
        .text(15, endpoint.path.as_ref().map_or("", |path| path.value.as_str()))
        .flag(16, credentials.rewrite_websocket)
        .flag(17, credentials.rewrite_body)
        .number(22, limit(&[Protocol::JsonRpc, Protocol::Mcp]))
        .flag(25, credentials.allow_uninspected);
    let message = match endpoint.protocol {
        Protocol::Mcp => {
            let strict = Message::default().explicit_flag(1, endpoint.limits.strict_tool_names);
            // `allow_all_known_mcp_methods` was expanded to rules before.
            message.message(23, strict.explicit_flag(2, false))
        }
        _ => message,
    };
    match credentials.provider.as_deref().and_then(provider) {
        Some(provider) => message.message(24, Message::default().text(1, &provider)),
        None => message,
    }
}

/// The numbers of a list follow each other without keys.
fn packed(number: u64) -> Vec<u8> {
    // A field's key is one byte here.
    Message::default().number(1, number).into_bytes().split_off(1)
}

/// An allow rule and a deny rule have the same fields.
fn request(rule: &RequestRule) -> Message {
    let matcher = |value: &ValuePattern| match &value.0[..] {
        [one] => Message::default().text(1, one.as_str()),
        several => Message::default().texts(2, several.iter().map(|one| one.as_str())),
    };
    let entry = |key: &str, value: &ValuePattern| Message::default().text(1, key).message(2, matcher(value));
    match &rule.on {
        RuleSubject::Http(http) => Message::default()
            .text(1, &http.method.to_string())
            .text(2, http.path.as_str())
            .messages(4, http.query.iter().map(|(key, value)| entry(key, value))),
        RuleSubject::Graphql(graphql) => Message::default()
            .text(5, &graphql.operation_type)
            .text(6, graphql.operation_name.as_ref().map_or("", |name| name.as_str()))
            .texts(7, graphql.fields.iter().map(|field| field.as_str())),
        RuleSubject::Rpc(rpc) => Message::default()
            .text(1, rpc.method.as_str())
            .messages(9, rpc.tool.iter().map(|tool| entry("name", tool))),
        RuleSubject::Sql { command } => Message::default().text(3, command),
    }
}
