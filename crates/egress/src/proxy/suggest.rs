//! The smallest addition to the policy that allows what was refused, as lines for a policy file.

use policy::address::{Class, classify};
use policy::glob::Pattern;
use policy::{Fix, GraphqlOperation, Host, Operation, RpcCall};

/// `None` where nothing should be suggested: an address that is not public.
pub fn suggest(fix: &Fix) -> Option<String> {
    match fix {
        Fix::Rule { host, port, binary } => {
            if let Host::Address(address) = host
                && classify(*address) != Class::Public
            {
                return None;
            }
            let name: String = host
                .to_string()
                .chars()
                .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
                .collect();
            Some(format!(
                "network_policies:\n  {name}_{port}:\n    endpoints:\n      - host: {}\n        port: {port}\n    \
                 binaries:\n      - path: {}\n",
                quoted(&host.to_string()),
                quoted(&binary.to_string_lossy())
            ))
        }
        Fix::Binary { rule, binary } => Some(format!(
            "network_policies:\n  {}:\n    binaries:\n      - path: {}\n",
            quoted(&rule.rule),
            quoted(&binary.to_string_lossy())
        )),
        Fix::Allow { endpoint, method, path } => Some(format!(
            "# in the endpoint of rule {}:\nrules:\n  - allow:\n      method: {}\n      path: {}\n",
            quoted(&endpoint.rule),
            quoted(method),
            quoted(path)
        )),
        Fix::AllowOperation { endpoint, operation } => {
            let keys: String =
                keys(operation).iter().map(|(key, value)| format!("      {key}: {value}\n")).collect();
            Some(format!("# in the endpoint of rule {}:\nrules:\n  - allow:\n{keys}", quoted(&endpoint.rule)))
        }
    }
}

/// The rule that allows an operation.
fn keys(operation: &Operation) -> Vec<(&'static str, String)> {
    match operation {
        Operation::Rpc(RpcCall { method, tool, .. }) => {
            let tool = tool.as_ref().map(|tool| ("tool", quoted(&Pattern::escape(tool))));
            std::iter::once(("method", quoted(method))).chain(tool).collect()
        }
        Operation::Graphql(GraphqlOperation { operation_type, name, fields }) => {
            let mut keys = vec![("operation_type", operation_type.clone())];
            keys.extend(name.as_ref().map(|name| ("operation_name", name.clone())));
            keys.extend((!fields.is_empty()).then(|| ("fields", format!("[{}]", fields.join(", ")))));
            keys
        }
        Operation::Session => Vec::new(),
    }
}

/// JSON strings are YAML strings, and plain words need no quotes.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    if begins_well && text.bytes().all(plain) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn rule(host: &str, binary: &str) -> Option<String> {
        suggest(&Fix::Rule { host: Host::parse(host).unwrap(), port: 443, binary: PathBuf::from(binary) })
    }

    #[test]
    fn suggestions_are_minimal_and_quoted() {
        let expected = "network_policies:\n  api_example_com_443:\n    endpoints:\n      - host: api.example.com\n        \
                        port: 443\n    binaries:\n      - path: /usr/bin/curl\n";
        assert_eq!(rule("api.example.com", "/usr/bin/curl").as_deref(), Some(expected));
        assert!(rule("api.example.com", "/tmp/a: b\n").unwrap().contains(r#"- path: "/tmp/a: b\n""#));
        assert!(rule("8.8.8.8", "/bin/x").unwrap().contains(r#"host: "8.8.8.8""#));
    }

    #[test]
    fn nothing_is_suggested_for_what_is_not_public() {
        for host in ["169.254.169.254", "10.0.0.1", "127.0.0.1", "[::1]", "192.168.1.1"] {
            assert_eq!(rule(host, "/bin/x"), None, "{host}");
        }
    }
}
