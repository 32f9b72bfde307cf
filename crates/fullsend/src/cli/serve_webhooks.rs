//! The file of `serve --webhooks`: which webhooks the server accepts and sends. It contains no secrets, only the names of the
//! variables that hold them.

use std::path::Path;
use std::time::Duration;

use session::SessionId;
use yaml::{Decoder, Diagnostic, ParseLimits, Shape, Sources, Spanned, ranged, record};

use super::check;
use super::configuration::variable;
use super::exit::{Exit, Failure};
use crate::fetch::{HostNetwork, WebAddress};
use crate::harness::names::ForgeName;
use crate::serve::{
    IncomingWebhook, OutgoingWebhook, WebhookEventKind, WebhookForge, WebhookTarget, is_standard_secret,
};

/// A shorter secret can be guessed.
const SHORTEST_SECRET: usize = 16;

/// The largest number of outgoing webhooks. Each has its own thread.
const MAX_OUTGOING: usize = 32;

/// How long a receiver may take to answer, unless the file sets it.
const TIMEOUT: Duration = Duration::from_secs(10);

record! {
    /// The webhooks of a server.
    pub struct WebhookFile {
        /// What forges send to this server.
        incoming: Vec<IncomingEntry>,
        /// What this server reports to others.
        outgoing: Vec<OutgoingEntry>,
    }
}

ranged! {
    /// How long a receiver may take to answer.
    pub struct AnswerSeconds: 1..=30
}

record! {
    /// A webhook that the server sends.
    pub struct OutgoingEntry {
        /// Its name in lists, logs and metrics.
        name: Spanned<String>,
        /// The address that it is sent to: https, or http on this machine.
        url: Spanned<String>,
        /// The variable of the server's environment that holds the signing secret: `whsec_` and base64.
        secret: Spanned<String>,
        /// What it reports. Default: everything.
        events: Vec<WebhookEventKind>,
        /// How long the receiver may take to answer. Default: 10.
        timeout_seconds: Option<AnswerSeconds>,
    }
}

record! {
    /// A webhook that the server accepts at /v1/webhooks/NAME.
    pub struct IncomingEntry {
        /// The last part of its path.
        name: Spanned<String>,
        /// Who sends it: github or gitlab.
        forge: Spanned<ForgeName>,
        /// The variable of the server's environment that holds the secret.
        secret: Spanned<String>,
        /// The session that gets each event as a message. Default: events start harnesses by their `trigger`.
        session: Option<Spanned<String>>,
        /// Whether to accept events of people without write access, too.
        anyone: Option<Spanned<bool>>,
    }
}

/// The webhooks of a file, and the names of the variables that hold their secrets.
#[derive(Default)]
pub struct Webhooks {
    pub incoming: Vec<IncomingWebhook>,
    pub outgoing: Vec<OutgoingWebhook>,
    /// How they are sent.
    pub network: Option<HostNetwork>,
    pub variables: Vec<String>,
}

/// Reads the file. A webhook without a secret is an error: its sender could not be verified.
pub fn read(path: &Path) -> Result<Webhooks, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Missing, format!("cannot read {shown}: {error}")))?;
    let mut sources = Sources::default();
    let id = sources.add(shown.to_string(), text);
    let mut decoder = Decoder::whole();
    let decoded = match yaml::parse(&sources, id, ParseLimits::default()) {
        Ok(tree) => WebhookFile::decode(&tree, &mut decoder),
        Err(problem) => {
            decoder.diagnostics.push(*problem);
            None
        }
    };
    let is_wrong = decoder.diagnostics.iter().any(Diagnostic::is_error);
    check::show(&sources, &decoder.diagnostics);
    let file = decoded.filter(|_| !is_wrong);
    let file =
        file.ok_or_else(|| Failure::new(Exit::Invalid, format!("the webhooks in {shown} cannot be used")))?;
    let mut webhooks = Webhooks::default();
    for entry in &file.incoming {
        let place = sources.locate(entry.name.at).to_string();
        let webhook = incoming(&place, entry)?;
        if webhooks.incoming.iter().any(|other| other.name == webhook.name) {
            let why = format!("{place}: two webhooks are called `{}`", webhook.name);
            return Err(Failure::new(Exit::Invalid, why).help("rename one"));
        }
        webhooks.incoming.push(webhook);
        webhooks.variables.push(entry.secret.value.clone());
    }
    if file.outgoing.len() > MAX_OUTGOING {
        let why = format!("{shown}: `outgoing` has more than {MAX_OUTGOING} webhooks");
        return Err(Failure::new(Exit::Invalid, why).help("let one receiver pass events on to others"));
    }
    if file.outgoing.is_empty() {
        return Ok(webhooks);
    }
    let network = HostNetwork::of_host(&variable, Vec::new())
        .map_err(|error| Failure::new(Exit::Missing, error.to_string()))?;
    for entry in &file.outgoing {
        let place = sources.locate(entry.name.at).to_string();
        let webhook = outgoing(&place, entry, &network)?;
        if webhooks.outgoing.iter().any(|other| other.name == webhook.name) {
            let why = format!("{place}: two webhooks are called `{}`", webhook.name);
            return Err(Failure::new(Exit::Invalid, why).help("rename one"));
        }
        webhooks.outgoing.push(webhook);
        webhooks.variables.push(entry.secret.value.clone());
    }
    webhooks.network = Some(network);
    Ok(webhooks)
}

fn outgoing(place: &str, entry: &OutgoingEntry, network: &HostNetwork) -> Result<OutgoingWebhook, Failure> {
    let wrong = |why: String, help: &str| Failure::new(Exit::Invalid, format!("{place}: {why}")).help(help);
    let OutgoingEntry { name, url, secret, events, timeout_seconds } = entry;
    check_name(place, &name.value)?;
    let name = &name.value;
    let address = WebAddress::parse(&url.value)
        .and_then(|address| network.check(&address).map(|()| address).map_err(|error| error.to_string()));
    let address = address.map_err(|why| {
        let help = "write https://HOST/PATH, or http:// for a receiver on this machine";
        wrong(format!("`url` of `{name}`: {why}"), help)
    })?;
    let variable_name = &secret.value;
    let secret = variable(variable_name).filter(|secret| is_standard_secret(secret)).ok_or_else(|| {
        let why = format!(
            "the variable {variable_name} must hold the signing secret of `{name}`: `whsec_` and base64"
        );
        wrong(why, "`echo whsec_$(openssl rand -base64 32)` makes one; give the same to the receiver")
    })?;
    let all = || WebhookEventKind::WORDS.iter().filter_map(|word| WebhookEventKind::parse(word)).collect();
    Ok(OutgoingWebhook {
        name: name.clone(),
        address,
        secret,
        events: if events.is_empty() { all() } else { events.clone() },
        timeout: timeout_seconds.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.get())),
    })
}

fn check_name(place: &str, name: &str) -> Result<(), Failure> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Ok(());
    }
    let why = format!("{place}: `{name}` is not the name of a webhook");
    Err(Failure::new(Exit::Invalid, why).help("use letters, digits, `-` and `_`"))
}

fn incoming(place: &str, entry: &IncomingEntry) -> Result<IncomingWebhook, Failure> {
    let wrong =
        |why: String, help: &str| Err(Failure::new(Exit::Invalid, format!("{place}: {why}")).help(help));
    let IncomingEntry { name, forge, secret, session, anyone } = entry;
    let name = &name.value;
    check_name(place, name)?;
    let forge = match forge.value {
        ForgeName::Github => WebhookForge::Github,
        ForgeName::Gitlab => WebhookForge::Gitlab,
        ForgeName::Jira => {
            return wrong("webhooks of jira are not supported".to_owned(), "use github or gitlab");
        }
    };
    let variable_name = &secret.value;
    let Some(secret) = variable(variable_name).filter(|secret| secret.len() >= SHORTEST_SECRET) else {
        let why = format!(
            "the variable {variable_name} must hold the secret of `{name}`: {SHORTEST_SECRET} letters or more"
        );
        return wrong(why, "`openssl rand -hex 32` makes one; give the same to the forge");
    };
    let target = match session.as_ref().map(|id| id.value.parse::<SessionId>()) {
        None => WebhookTarget::Harnesses,
        Some(Ok(id)) => WebhookTarget::Session(id),
        Some(Err(_)) => {
            return wrong(
                "`session` is not the id of a session".to_owned(),
                "`fullsend session list` lists them",
            );
        }
    };
    let allow_non_writers = anyone.as_ref().is_some_and(|anyone| anyone.value);
    Ok(IncomingWebhook { name: name.clone(), forge, secret, target, allow_non_writers })
}
