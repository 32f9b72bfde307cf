//! `fullsend policy test`: one request, decided as the proxy decides it. Names are not looked up.

use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use policy::glob::{Pattern, Separator};
use policy::{
    AccessBody, AccessRequest, CallingProgram, Compiled, DecidingRule, Denial, Host, Policy, PolicyDecision,
    RequestAction,
};
use serde_json::json;
use yaml::Sources;

use super::super::exit::{Exit, Failure};

/// No endpoint reads a longer body.
const MAX_BODY: u64 = 16 << 20;

#[derive(Args, Debug)]
pub struct Arguments {
    /// The policy file
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// The program that makes the request; default: any program that the rules name
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The body, for GraphQL, JSON-RPC and MCP
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// A file with the body; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,
    /// The type of the body
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    content_type: String,
    /// The HTTP method, or WEBSOCKET_TEXT for a text frame that a client sends
    method: String,
    /// The URL; the default port is that of the scheme
    url: String,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let url = Url::parse(&arguments.url).map_err(|why| {
        Failure::new(Exit::Usage, format!("`{}` {why}", arguments.url))
            .help("such as https://api.example.com/v1/x")
    })?;
    let (sources, policy) = super::read(&arguments.policy)?;
    let compiled = match &arguments.binary {
        Some(_) => Compiled::new(&policy),
        None => Compiled::new(&for_every_program(&policy)),
    };
    let binary = arguments.binary.as_deref().unwrap_or(Path::new("/"));
    let action = match arguments.method.as_str() {
        "WEBSOCKET_TEXT" => RequestAction::WebsocketText,
        method => RequestAction::Http(method),
    };
    let address = match Host::parse(url.host) {
        Ok(Host::Address(address)) => vec![address],
        _ => Vec::new(),
    };
    let body = body(arguments)?;
    let decision = policy::decide(
        &compiled,
        &AccessRequest {
            host: url.host,
            port: url.port,
            caller: CallingProgram { binary, ancestors: &[] },
            request: Some((action, &url.target)),
            body: match &body {
                Some(bytes) => AccessBody::Bytes { content_type: &arguments.content_type, bytes },
                None => AccessBody::Empty,
            },
            addresses: (!address.is_empty()).then_some(&address[..] as &[IpAddr]),
        },
    );
    let printer = DecisionPrinter { sources: &sources, file: &arguments.policy };
    let line = printer.line(&decision);
    if arguments.json {
        let (word, why) = line.split_once(": ").unwrap_or((&line, ""));
        let object = json!({ "passes": decision.passes(), "decision": word, "why": why });
        writeln!(std::io::stdout().lock(), "{object}")?;
    } else {
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    Ok(if decision.passes() { Exit::Done } else { Exit::Failed })
}

/// The body, whole as the proxy has it before it decides, and no longer than any endpoint reads.
fn body(arguments: &Arguments) -> Result<Option<Vec<u8>>, Failure> {
    let Some(file) = &arguments.body_file else {
        return Ok(arguments.body.as_ref().map(|body| body.clone().into_bytes()));
    };
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_BODY + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|opened| opened.take(MAX_BODY + 1).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(Some(bytes)),
        Err(error) => {
            Err(Failure::new(Exit::Usage, format!("cannot read the body {}: {error}", file.display())))
        }
    }
}

/// The same rules, for any program.
fn for_every_program(policy: &Policy) -> Policy {
    let mut all = policy.clone();
    for network in &mut all.networks {
        for binary in &mut network.binaries {
            binary.value = Pattern::everything(Separator::Slash);
        }
    }
    all
}

/// Prints a decision with its file and line.
struct DecisionPrinter<'a> {
    sources: &'a Sources,
    file: &'a Path,
}

impl DecisionPrinter<'_> {
    fn line(&self, decision: &PolicyDecision) -> String {
        match decision {
            PolicyDecision::Allow(cause) => format!("allow: {}", self.place(Some(cause))),
            PolicyDecision::Audit(denial) => {
                format!("allow (audit; enforce would deny: {})", self.denial(denial))
            }
            PolicyDecision::Deny(denial) => format!("deny: {}", self.denial(denial)),
        }
    }

    fn denial(&self, denial: &Denial) -> String {
        let operation =
            denial.operation.as_ref().map(|operation| format!("{operation}: ")).unwrap_or_default();
        format!("{}: {operation}{}", self.place(denial.cause.as_ref()), denial.reason)
    }

    /// The line that decided; the whole file where none did.
    fn place(&self, cause: Option<&DecidingRule>) -> String {
        match cause {
            Some(cause) => format!("{}, rule `{}`", self.sources.locate(cause.at), cause.rule),
            None => self.file.display().to_string(),
        }
    }
}

/// The parts of a URL that a policy asks about.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    host: &'a str,
    port: u16,
    /// Path and query.
    target: String,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("is not a URL")?;
        let default = match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => Some(80),
            "https" | "wss" => Some(443),
            "tcp" => None,
            _ => return Err("has a scheme other than http, https, ws, wss and tcp".to_owned()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err("contains a user name: a policy matches only hosts".to_owned());
        }
        let bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(at) => (&authority[..bracket + at], Some(&authority[bracket + at + 1..])),
            None => (authority, None),
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("has an invalid port")?,
            None => default.ok_or("needs a port")?,
        };
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { host, port, target: format!("{slash}{target}") })
    }
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn urls_are_read_as_far_as_a_policy_asks() {
        for (text, host, port, target) in [
            ("https://api.test", "api.test", 443, "/"),
            ("HTTP://api.test:8080/a?b=c#d", "api.test", 8080, "/a?b=c"),
            ("wss://[::1]/x", "[::1]", 443, "/x"),
            ("https://a.test?q=1", "a.test", 443, "/?q=1"),
            ("tcp://db.test:5432", "db.test", 5432, "/"),
        ] {
            assert_eq!(Url::parse(text), Ok(Url { host, port, target: target.to_owned() }), "{text}");
        }
        for text in [
            "api.test",
            "ftp://a.test/",
            "https://u@a.test/",
            "https://a.test:0/",
            "https://a.test:x/",
            "tcp://a.test",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
