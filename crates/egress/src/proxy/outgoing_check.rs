//! Shows everything that leaves to a leak watcher, except what goes to the model gateway: host names, request lines,
//! headers, bodies, websocket messages, and tunnels that are not encrypted. The watcher decides; the proxy passes it
//! the bytes, follows its decision, and does not know what it looks for.

use super::destination::Destination;
use super::form_method::FormMethodCheck;
use super::refusal::Refusal;
use crate::credentials::{PlaceholderScanner, SubstituteError};
use crate::http1::{RequestHead, RequestTarget};
use std::sync::Arc;

/// Sees the bytes of one message in the order in which they leave, in portions of any size. Once it returns a reason,
/// nothing more of the message passes.
pub type MessageWatcher = Box<dyn FnMut(&[u8]) -> Option<String> + Send + Sync>;

/// Starts to watch one message to this `host:port`.
pub type LeakWatcher = Arc<dyn Fn(&str) -> MessageWatcher + Send + Sync>;

/// Watches one message to `destination`.
pub(super) fn watch(watcher: Option<&LeakWatcher>, destination: &Destination) -> MessageWatcher {
    match watcher {
        Some(watcher) => watcher(&destination.to_string()),
        None => no_watcher(),
    }
}

fn no_watcher() -> MessageWatcher {
    Box::new(|_| None)
}

pub(super) fn check_host(watcher: Option<&LeakWatcher>, destination: &Destination) -> Result<(), Refusal> {
    check_bytes(watcher, destination, destination.host_text().as_bytes())
}

/// Runs before the policy decides: a request that is refused anyway was still an attempt to send this.
pub(super) fn check_head(
    watcher: Option<&LeakWatcher>,
    destination: &Destination,
    head: &RequestHead,
) -> Result<(), Refusal> {
    if watcher.is_none() {
        return Ok(());
    }
    let mut text = format!("{} {}\n", head.method, target_text(&head.target)).into_bytes();
    for (name, value) in head.fields.iter() {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    check_bytes(watcher, destination, &text)
}

/// Checks a whole message at once.
pub(super) fn check_bytes(
    watcher: Option<&LeakWatcher>,
    destination: &Destination,
    bytes: &[u8],
) -> Result<(), Refusal> {
    watch(watcher, destination)(bytes).map_or(Ok(()), |reason| Err(Refusal::leak(reason)))
}

fn target_text(target: &RequestTarget) -> String {
    let with_query = |path: &str, query: &Option<String>| match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    match target {
        RequestTarget::Origin { path, query } => with_query(path, query),
        RequestTarget::Absolute { authority, path, query } => {
            format!("{authority}{}", with_query(path, query))
        }
        RequestTarget::Authority(authority) => authority.clone(),
        RequestTarget::Asterisk => "*".to_owned(),
    }
}

/// Checks a message that passes in portions: for placeholders that were not replaced, and by the leak watcher.
pub(super) struct MessageCheck {
    part: &'static str,
    /// `None`: placeholders are plain text for the recipient.
    placeholders: Option<PlaceholderScanner>,
    watcher: MessageWatcher,
    /// For a form that may replace the method of its request.
    form: Option<Box<FormMethodCheck>>,
}

impl MessageCheck {
    /// `part` names the part of the request for the message about a placeholder in it.
    pub(super) fn new(part: &'static str, watcher: MessageWatcher) -> Self {
        Self { part, placeholders: Some(PlaceholderScanner::default()), watcher, form: None }
    }

    /// For the model gateway, which replaces no placeholder and inspects its requests itself.
    pub(super) fn nothing() -> Self {
        Self { part: "", placeholders: None, watcher: no_watcher(), form: None }
    }

    /// Looks for a replaced method in the form too.
    pub(super) fn with_form(self, form: Option<Box<FormMethodCheck>>) -> Self {
        Self { form, ..self }
    }

    /// Why this portion must not pass.
    pub(super) fn refusal(&mut self, portion: &[u8]) -> Option<Refusal> {
        if self.placeholders.as_mut().is_some_and(|scanner| scanner.finds(portion)) {
            return Some(Refusal::credential(&SubstituteError::Misplaced { part: self.part }));
        }
        let replaced = self.form.as_mut().and_then(|form| form.refusal(portion));
        replaced.or_else(|| (self.watcher)(portion).map(Refusal::leak))
    }

    /// A placeholder does not continue in the next message; what the leak watcher looks for may.
    pub(super) fn next_message(&mut self) {
        if let Some(scanner) = &mut self.placeholders {
            *scanner = PlaceholderScanner::default();
        }
    }
}
