//! The values of the run's credentials: a variable of the host, a file, or the output of a command that runs again
//! before the value expires. They are loaded before anything starts. The guard gets every value, and none is written to
//! disk, passed as an argument or put into an error.

mod command;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use egress::credentials::{CredentialSource, Secret};

use crate::check::providers::ProviderFile;
use crate::harness::provider;
use crate::harness::template::Template;
use command::CredentialCommand;

/// Longer than any key or token; a file that is larger is not one.
const MAX_BYTES: u64 = 64 << 10;

/// Gets every value before it is used, with the name of its variable. Returns an error if the value cannot be masked.
pub type Learn = Arc<dyn Fn(&str, &str) -> Result<(), String> + Send + Sync>;

/// The credentials of one run.
#[derive(Debug, Default)]
pub struct Credentials {
    all: Vec<LoadedCredential>,
}

#[derive(Clone, Debug)]
pub struct LoadedCredential {
    pub provider: String,
    /// The variable under which the provider names it.
    pub key: String,
    pub source: CredentialSource,
}

/// A credential that is not available.
#[derive(Debug)]
pub struct CredentialError {
    provider: String,
    key: String,
    why: String,
}

impl std::fmt::Display for CredentialError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the credential {} of the provider `{}` is not available: {}",
            self.key, self.provider, self.why
        )
    }
}

impl std::error::Error for CredentialError {}

/// What loading needs of the host.
pub struct CredentialHost<'a> {
    /// The base of a script's environment.
    pub environment: BTreeMap<String, String>,
    /// The host's variables that a run may have.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    pub working_directory: &'a Path,
}

/// Loads all of them, or says which one is missing.
pub fn load<'a>(
    providers: impl IntoIterator<Item = &'a ProviderFile>,
    host: &CredentialHost<'_>,
    learn: &Learn,
) -> Result<Credentials, CredentialError> {
    let mut all = Vec::new();
    for file in providers {
        for (key, template) in provider::credentials(&file.provider) {
            let provider = file.provider.name.to_string();
            let key = key.value.clone();
            match source(&key, template, host, learn) {
                Ok(source) => all.push(LoadedCredential { provider, key, source }),
                Err(why) => return Err(CredentialError { provider, key, why }),
            }
        }
    }
    Ok(Credentials { all })
}

/// Whether the value of a credential can be used. A command that makes one is not run.
pub fn check(
    file: &ProviderFile,
    key: &str,
    template: &Template,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<(), CredentialError> {
    let wrong =
        |why: String| CredentialError { provider: file.provider.name.to_string(), key: key.to_owned(), why };
    if template.raw().starts_with("exec:") {
        return Ok(());
    }
    let secret = fixed(template, variables).map_err(wrong)?;
    if secret.reveal().len() < redact::Redactor::MIN_KNOWN {
        return Err(wrong(TOO_SHORT.to_owned()));
    }
    Ok(())
}

/// Why a value cannot be masked.
pub const TOO_SHORT: &str = "it is too short to be masked";

impl Credentials {
    pub fn of<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = &'a LoadedCredential> {
        self.all.iter().filter(move |loaded| loaded.provider == provider)
    }
}

fn source(
    key: &str,
    template: &Template,
    host: &CredentialHost<'_>,
    learn: &Learn,
) -> Result<CredentialSource, String> {
    if template.raw().starts_with("exec:") {
        let (command, key, learn) =
            (CredentialCommand::new(template, host)?, key.to_owned(), Arc::clone(learn));
        let fetch = move || {
            let fetched = command.run()?;
            learn(&key, fetched.secret.reveal())?;
            Ok(fetched)
        };
        return CredentialSource::fetched(fetch).map_err(|error| error.reason().to_owned());
    }
    let secret = fixed(template, host.variables)?;
    learn(key, secret.reveal())?;
    Ok(CredentialSource::fixed(secret))
}

/// The value of a variable or a file.
fn fixed(template: &Template, variables: &dyn Fn(&str) -> Option<String>) -> Result<Secret, String> {
    let text = template.expand(variables).map_err(|name| format!("{name} is not set"))?;
    match template.raw().strip_prefix("file:") {
        Some(_) => from_file(Path::new(&text["file:".len()..])),
        None => usable(text).map_err(|why| format!("the value {why}")),
    }
}

/// The whole file, without the line break at its end.
fn from_file(path: &Path) -> Result<Secret, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{} {why}", path.display());
    if !path.is_absolute() {
        return Err(wrong(&"is not an absolute path"));
    }
    let about = std::fs::metadata(path).map_err(|error| wrong(&format_args!("cannot be read: {error}")))?;
    if !about.is_file() {
        return Err(wrong(&"is not a file"));
    }
    // Allocate the whole buffer at once: a growing buffer leaves copies of the secret in memory.
    let mut text = String::with_capacity(usize::try_from(MAX_BYTES).unwrap_or(0) + 2);
    let file = std::fs::File::open(path).map_err(|error| wrong(&format_args!("cannot be read: {error}")))?;
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| wrong(&format_args!("cannot be read: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(wrong(&format_args!("has more than {MAX_BYTES} bytes")));
    }
    usable(text).map_err(|why| wrong(&format_args!("holds a value that {why}")))
}

/// A value without the line breaks around it; an empty text is not a value.
fn usable(text: String) -> Result<Secret, String> {
    let text = Secret::new(text);
    let trimmed = text.reveal().trim_matches(['\r', '\n']);
    if trimmed.is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(Secret::new(trimmed.to_owned()))
}

/// Keeps this process's memory out of core dumps, on disk and in a handler: with a limit of one byte neither gets a
/// dump, while with a limit of zero a handler would get all of it.
pub fn forbid_core_dumps() -> std::io::Result<()> {
    let resource = rustix::process::Resource::Core;
    let rustix::process::Rlimit { maximum, .. } = rustix::process::getrlimit(resource);
    let current = Some(maximum.map_or(1, |most| most.min(1)));
    Ok(rustix::process::setrlimit(resource, rustix::process::Rlimit { current, maximum })?)
}

#[cfg(test)]
mod tests;
