//! The file of `serve --webhooks`: which webhooks the server takes. It names the variables that hold the secrets, never a secret.

use std::path::Path;

use session::SessionId;
use yaml::{At, Decoder, Diagnostic, ParseLimits, Shape, Sources, record};

use super::check;
use super::configuration::variable;
use super::exit::{Exit, Failure};
use crate::harness::names::ForgeName;
use crate::serve::{IncomingWebhook, WebhookForge, WebhookTarget};

/// A secret that is shorter can be guessed.
const SHORTEST_SECRET: usize = 16;

record! {
    /// The webhooks of a server.
    pub struct WebhookFile {
        /// What forges send to this server.
        incoming: Vec<IncomingEntry>,
    }
}

record! {
    /// A webhook that the server takes at /v1/webhooks/NAME.
    pub struct IncomingEntry {
        /// The last part of its path.
        name: At<String>,
        /// Who sends it: github or gitlab.
        forge: At<ForgeName>,
        /// The variable of the server's environment that holds the secret.
        secret: At<String>,
        /// The session that gets each event as a message. Default: events start harnesses by their `trigger`.
        session: Option<At<String>>,
        /// Whether it also counts what people do who cannot write to the repository.
        anyone: Option<At<bool>>,
    }
}

/// The webhooks of a file, and the names of the variables that hold their secrets.
#[derive(Default)]
pub struct Webhooks {
    pub incoming: Vec<IncomingWebhook>,
    pub variables: Vec<String>,
}

/// Reads the file. A webhook without a secret is a failure: nobody could be believed.
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
    let mut webhooks = Webhooks { incoming: Vec::new(), variables: Vec::new() };
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
    Ok(webhooks)
}

fn incoming(place: &str, entry: &IncomingEntry) -> Result<IncomingWebhook, Failure> {
    let wrong =
        |why: String, help: &str| Err(Failure::new(Exit::Invalid, format!("{place}: {why}")).help(help));
    let IncomingEntry { name, forge, secret, session, anyone } = entry;
    let name = &name.value;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return wrong(format!("`{name}` is not the name of a webhook"), "use letters, digits, `-` and `_`");
    }
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
    let anyone = anyone.as_ref().is_some_and(|anyone| anyone.value);
    Ok(IncomingWebhook { name: name.clone(), forge, secret, target, anyone })
}
