//! Variables that make other programs load or run something, or stop checking certificates.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::{Call, Word};

const ADVICE: &str = "Run the command without this variable. Only the operator can set it, in the harness.";

pub(super) fn judge(call: &Call) -> Option<Harm> {
    call.assignments
        .iter()
        .filter_map(|(name, value)| of_variable(name, value))
        .max_by_key(|harm| harm.severity)
}

fn of_variable(name: &str, value: &Word) -> Option<Harm> {
    let (severity, what) = match name {
        "LD_PRELOAD" | "LD_AUDIT" | "DYLD_INSERT_LIBRARIES" => {
            (Severity::High, "loads a library into every program")
        }
        "BASH_ENV" | "PROMPT_COMMAND" | "ENV"
            if !value.text.is_empty() && name != "ENV" || (name == "ENV" && value.text.contains('/')) =>
        {
            (Severity::High, "runs a file in every shell")
        }
        "NODE_OPTIONS"
            if ["--require", "-r ", "--import", "--loader"]
                .iter()
                .any(|option| value.text.contains(option)) =>
        {
            (Severity::High, "loads code into every Node program")
        }
        "PYTHONSTARTUP" | "PERL5OPT" | "RUBYOPT" => (Severity::High, "loads code into every interpreter"),
        "GIT_SSH_COMMAND" | "GIT_SSH" | "GIT_EXTERNAL_DIFF" | "GIT_PROXY_COMMAND" | "GIT_ASKPASS"
        | "SSH_ASKPASS" => (Severity::High, "makes git run something else"),
        "NODE_TLS_REJECT_UNAUTHORIZED" | "PYTHONHTTPSVERIFY" if value.text == "0" => {
            (Severity::Medium, "stops checking certificates")
        }
        "GIT_SSL_NO_VERIFY" => (Severity::Medium, "stops checking certificates"),
        "PATH" if value.text.starts_with('.') || value.text.starts_with("/tmp") => {
            (Severity::High, "looks for programs in a directory that anybody can write")
        }
        "http_proxy" | "https_proxy" | "HTTP_PROXY" | "HTTPS_PROXY" | "ALL_PROXY"
            if value.text.contains("://") =>
        {
            (Severity::Medium, "sends traffic through another server")
        }
        _ => return None,
    };
    let harm = harm(rule::command::ENVIRONMENT, severity, format!("`{name}` {what}"), ADVICE)?;
    // Code that an interpreter loads has no more rights than the command itself.
    let is_everyday = matches!(name, "NODE_OPTIONS" | "PYTHONSTARTUP" | "PERL5OPT" | "RUBYOPT" | "PATH");
    Some(if is_everyday { harm.ends_with_sandbox() } else { harm })
}
