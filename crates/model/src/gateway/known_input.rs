//! How many tokens a request can have. Every byte is at most one token. If a request repeats a conversation exactly,
//! the vendor has counted that part before, so the bound is the vendor's count plus the new bytes.

use serde_json::Value;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// About the most tokens that a vendor counts for one image or page, which may be fewer bytes in the body.
const TOKENS_OF_OTHER_BLOCK: u64 = 5000;
/// The tokens that a vendor adds to one message.
const TOKENS_AROUND: u64 = 32;
/// More conversations than one run has at a time.
const MAX_KNOWN: usize = 1024;

/// The parts of a body that become tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct InputParts {
    /// Bytes of the fields before the messages, which are counted with them.
    before: u64,
    /// Bytes of all other fields.
    rest: u64,
    /// One for each beginning of the conversation: everything that comes before the messages, then one more message each.
    beginnings: Vec<KnownPrefix>,
}

#[derive(Debug, Clone, Copy)]
struct KnownPrefix {
    digest: u64,
    /// Bytes of its last message.
    bytes: u64,
}

/// What the vendor has counted.
#[derive(Default)]
pub(super) struct KnownInputs {
    hash: RandomState,
    tokens: HashMap<u64, u64>,
}

/// Fields that hold the conversation.
const MESSAGES: [&str; 2] = ["messages", "input"];
/// Fields before the conversation that stay the same.
const BEFORE: [&str; 4] = ["model", "system", "instructions", "tools"];

impl KnownInputs {
    /// `body` is a request of any wire format.
    pub(super) fn parts(&self, body: &Value) -> InputParts {
        let mut hasher = self.hash.build_hasher();
        let mut before = 0;
        let mut rest = 0;
        let fields = body.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| !MESSAGES.contains(&name.as_str())) {
            let mut counted = self.counted();
            name.hash(&mut counted.hasher);
            counted.add(value);
            if BEFORE.contains(&name.as_str()) {
                before += counted.bytes;
                counted.hasher.finish().hash(&mut hasher);
            } else {
                rest += counted.bytes;
            }
        }
        let mut beginnings = Vec::new();
        for name in MESSAGES {
            let messages = body[name].as_array().map(Vec::as_slice).unwrap_or_default();
            rest += body[name].as_str().map_or(0, |text| text.len() as u64);
            for message in messages {
                let mut counted = self.counted();
                counted.add(message);
                counted.hasher.finish().hash(&mut hasher);
                let bytes = counted.bytes.saturating_add(TOKENS_AROUND);
                beginnings.push(KnownPrefix { digest: hasher.finish(), bytes });
            }
        }
        InputParts { before, rest, beginnings }
    }

    fn counted(&self) -> InputDigester {
        InputDigester { hasher: self.hash.build_hasher(), bytes: 0 }
    }

    /// The most tokens that the request can have.
    pub(super) fn bound(&self, parts: &InputParts) -> u64 {
        let mut tokens = parts.before;
        for KnownPrefix { digest, bytes } in &parts.beginnings {
            let counted = self.tokens.get(digest).copied();
            tokens = counted.unwrap_or_else(|| tokens.saturating_add(*bytes));
        }
        tokens.saturating_add(parts.rest)
    }

    /// Stores the vendor's count.
    pub(super) fn learn(&mut self, parts: &InputParts, tokens: u64) {
        if self.tokens.len() >= MAX_KNOWN {
            self.tokens.clear();
        }
        if let Some(KnownPrefix { digest, .. }) = parts.beginnings.last().filter(|_| tokens > 0) {
            self.tokens.insert(*digest, tokens);
        }
    }
}

/// A digest of a value and a bound of its tokens, without fields that only control the vendor's cache.
struct InputDigester {
    hasher: std::hash::DefaultHasher,
    bytes: u64,
}

impl InputDigester {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let text = value.to_string();
                text.hash(&mut self.hasher);
                self.bytes += text.len() as u64 + 1;
            }
            Value::String(text) => {
                text.hash(&mut self.hasher);
                self.bytes += text.len() as u64 + 2;
            }
            Value::Array(items) => {
                items.len().hash(&mut self.hasher);
                items.iter().for_each(|item| self.add(item));
                self.bytes += 2;
            }
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(name, _)| *name != "cache_control");
                for (name, value) in fields {
                    name.hash(&mut self.hasher);
                    self.bytes += name.len() as u64 + 3;
                    self.add(value);
                }
                "}".hash(&mut self.hasher);
                let kind = value["type"].as_str().unwrap_or_default();
                if kind.contains("image") || kind.contains("document") || kind.contains("file") {
                    self.bytes += TOKENS_OF_OTHER_BLOCK;
                }
                self.bytes += 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(messages: &[Value]) -> Value {
        json!({"model": "m", "system": "s".repeat(10_000), "messages": messages, "max_tokens": 9})
    }

    #[test]
    fn a_counted_beginning_is_not_counted_again_by_its_bytes() {
        let mut known = KnownInputs::default();
        let user = json!({"role": "user", "content": "x".repeat(4000)});
        let marked =
            json!({"role": "user", "content": "x".repeat(4000), "cache_control": {"type": "ephemeral"}});
        let answer = json!({"role": "assistant", "content": "y".repeat(100)});
        let first = known.parts(&body(std::slice::from_ref(&marked)));
        assert!(known.bound(&first) > 14_000);
        known.learn(&first, 900);
        let second = known.parts(&body(&[user.clone(), answer.clone()]));
        let bound = known.bound(&second);
        assert!((900 + 100..900 + 100 + 500).contains(&bound), "{bound}");
        let changed = json!({"role": "user", "content": format!("{}y", "x".repeat(3999))});
        assert!(known.bound(&known.parts(&body(&[changed, answer]))) > 14_000, "another beginning");
        let mut other = body(&[user]);
        other["system"] = json!("t".repeat(10_000));
        assert!(known.bound(&known.parts(&other)) > 14_000, "other instructions");
    }
}
