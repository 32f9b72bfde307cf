//! Inside, a declared credential is its placeholder, however the variable is set. The model's key has no placeholder,
//! because the gateway uses it; its variable is left out. A real value enters only in a host file that is delivered
//! unchanged, which the record lists.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use egress::credentials::Secret;
use redact::{Redactor, ValueTooShort};

use super::RunContext;
use crate::check::Checked;
use crate::event::finding::{FindingAction, FindingFamily, FindingOrigin, FindingSeverity};
use crate::event::log::Emitter;
use crate::event::{FindingEvent, RunEvent};
use crate::harness::provider;

pub struct Placeholders<'a> {
    /// By the name of the variable; `None` for the model's credentials.
    by_name: BTreeMap<String, Option<String>>,
    values: Vec<(String, Secret)>,
    /// Masks the value in other encodings.
    redactor: Redactor,
    of_host: &'a dyn Fn(&str) -> Option<String>,
    emit: &'a Emitter,
    reported: RefCell<BTreeSet<(String, String)>>,
}

impl<'a> Placeholders<'a> {
    /// `placeholders` are those of the proxy, by the names of their variables.
    pub fn new(
        placeholders: Vec<(String, String)>,
        checked: &Checked,
        context: &RunContext<'a>,
    ) -> Result<Self, ValueTooShort> {
        let mut by_name: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut values: Vec<(String, Secret)> = Vec::new();
        for file in &checked.providers {
            let loaded = context.credentials.of(file.provider.name.as_str());
            values.extend(loaded.filter_map(|one| Some((one.key.clone(), one.source.last()?))));
            for (name, template) in provider::credentials(&file.provider) {
                by_name.insert(name.value.clone(), None);
                // A replayed model's key is not loaded, and stays outside too.
                let is_known = values.iter().any(|(known, _)| *known == name.value);
                let is_variable =
                    !template.raw().starts_with("file:") && !template.raw().starts_with("exec:");
                if !is_known && is_variable {
                    let value = template.expand(context.variables).unwrap_or_default();
                    let is_long = value.len() >= Redactor::MIN_KNOWN;
                    values.extend(is_long.then(|| (name.value.clone(), Secret::new(value))));
                }
            }
        }
        by_name.extend(placeholders.into_iter().map(|(name, placeholder)| (name, Some(placeholder))));
        let known = values.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        let redactor = Redactor::with_known(known)?.known_only();
        let reported = RefCell::default();
        Ok(Self { by_name, values, redactor, of_host: context.variables, emit: context.emit, reported })
    }

    /// A variable of the host, as `${VAR}` may show it inside.
    pub fn expand(&self, name: &str) -> Option<String> {
        (self.of_host)(name).map(|value| self.conceal(&format!("${{{name}}}"), &value))
    }

    /// The variables without those of credentials, and without the values of credentials. `origin` names the source of
    /// the variables.
    pub fn filter(&self, origin: &str, variables: Vec<(String, String)>) -> Vec<(String, String)> {
        let kept = variables.into_iter().filter_map(|(name, value)| match self.by_name.get(&name) {
            Some(Some(placeholder)) if *placeholder == value => Some((name, value)),
            Some(_) => {
                self.report(&format!("{name} in {origin}"), &name);
                None
            }
            None => {
                let value = self.conceal(&format!("{name} in {origin}"), &value);
                Some((name, value))
            }
        });
        kept.collect()
    }

    /// The same for the variables of a sandbox.
    pub fn filter_all(&self, origin: &str, variables: &mut Vec<(OsString, OsString)>) {
        let text = |word: OsString| word.to_string_lossy().into_owned();
        let all = std::mem::take(variables).into_iter().map(|(name, value)| (text(name), text(value)));
        let kept = self.filter(origin, all.collect());
        *variables = kept.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    }

    /// The variables of credentials, with their placeholders.
    pub fn variables(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.by_name.iter().map(|(name, placeholder)| (name.as_str(), placeholder.as_deref()))
    }

    /// The credentials whose values are in a text, in any encoding that is masked.
    pub fn found_in(&self, text: &str) -> BTreeSet<&str> {
        if self.redactor.redact(text) == text {
            return BTreeSet::new();
        }
        let holds = |(name, value): &(String, Secret)| {
            let known = [(name.as_str(), value.reveal())];
            Redactor::with_known(known).is_ok_and(|one| one.known_only().redact(text) != text)
        };
        self.values.iter().filter(|one| holds(one)).map(|(name, _)| name.as_str()).collect()
    }

    /// Whether a text contains a placeholder instead of the secret.
    pub fn has_placeholder(&self, text: &str) -> bool {
        self.by_name.values().flatten().any(|placeholder| text.contains(placeholder))
    }

    /// The text with placeholders in place of the values that have one.
    pub fn replace_values(&self, text: &str) -> String {
        let mut replaced = text.to_owned();
        for (name, value) in &self.values {
            if let Some(Some(placeholder)) = self.by_name.get(name) {
                replaced = replaced.replace(value.reveal(), placeholder);
            }
        }
        replaced
    }

    /// The text with placeholders or masks instead of values, reported as a finding. `place` names the text.
    pub fn conceal(&self, place: &str, text: &str) -> String {
        let replaced = self.replace_values(text);
        let concealed = self.redactor.redact(&replaced).into_owned();
        if concealed != text {
            self.found_in(text).into_iter().for_each(|name| self.report(place, name));
        }
        concealed
    }

    fn report(&self, place: &str, credential: &str) {
        if !self.reported.borrow_mut().insert((place.to_owned(), credential.to_owned())) {
            return;
        }
        let instead = match self.by_name.get(credential) {
            Some(Some(_)) => "programs inside get the placeholder",
            _ => "the model gateway uses it, and the sandbox does not get it",
        };
        self.emit.emit(RunEvent::Finding(FindingEvent {
            place: place.to_owned(),
            origin: FindingOrigin::Configuration,
            rule: "credential_in_variable".to_owned(),
            category: FindingFamily::SecretRedactor,
            severity: FindingSeverity::Medium,
            excerpt: format!("{credential} is the credential of a provider: {instead}"),
            advice: "leave it out: the provider sets the variable. A program that needs the value itself can read \
                     it from a file that `host_files` names"
                .to_owned(),
            action: FindingAction::Cleaned,
            ..FindingEvent::default()
        }));
    }
}
