//! Somebody outside who looks at everything that leaves, apart from what the model gateway passes: the names of hosts,
//! request lines, fields, bodies, websocket messages, and tunnels that are not encrypted. The proxy shows it the bytes
//! and obeys; what is looked for is not known here.

use super::Proxy;
use super::admission::Destination;
use super::refusal::Refusal;
use crate::http1::{RequestHead, Target};
use std::sync::Arc;

/// Sees the bytes of one message in the order in which they leave, in whatever portions. Once it says why they must
/// not, nothing more of the message passes.
pub type Look = Box<dyn FnMut(&[u8]) -> Option<String> + Send + Sync>;

/// Begins to look at one message to this `host:port`.
pub type Lookout = Arc<dyn Fn(&str) -> Look + Send + Sync>;

impl Proxy {
    /// A look at what goes there.
    pub(super) fn look(&self, destination: &Destination) -> Look {
        match &self.lookout {
            Some(lookout) => lookout(&destination.to_string()),
            None => Box::new(|_| None),
        }
    }

    pub(super) fn look_at_host(&self, destination: &Destination) -> Result<(), Refusal> {
        self.look_once(destination, destination.host_text().as_bytes())
    }

    /// Before anything is decided: what is refused in any case was tried all the same.
    pub(super) fn look_at_head(&self, destination: &Destination, head: &RequestHead) -> Result<(), Refusal> {
        if self.lookout.is_none() {
            return Ok(());
        }
        let mut text = format!("{} {}\n", head.method, target(&head.target)).into_bytes();
        for (name, value) in head.fields.iter() {
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        self.look_once(destination, &text)
    }

    pub(super) fn look_once(&self, destination: &Destination, bytes: &[u8]) -> Result<(), Refusal> {
        self.look(destination)(bytes).map_or(Ok(()), |reason| Err(Refusal::seen(reason)))
    }
}

fn target(target: &Target) -> String {
    let with_query = |path: &str, query: &Option<String>| match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    match target {
        Target::Origin { path, query } => with_query(path, query),
        Target::Absolute { authority, path, query } => format!("{authority}{}", with_query(path, query)),
        Target::Authority(authority) => authority.clone(),
        Target::Asterisk => "*".to_owned(),
    }
}
