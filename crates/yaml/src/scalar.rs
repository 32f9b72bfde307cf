//! The scalar shapes, and the macros that make a new one: a choice of words, a text with a rule, a number in a range.

use crate::macros::{Json, json};
use crate::{Decoder, Node, Schemas, Shape, Value};

impl Shape for bool {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        decoder.wrong_kind(node, "true or false");
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "boolean" })
    }
}

impl Shape for String {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        if let Value::Text(text) = &node.value {
            return Some(text.clone());
        }
        decoder.wrong_kind(node, if node.scalar().is_some() { "text (put it in quotes)" } else { "text" });
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "string" })
    }
}

impl Shape for f64 {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let number = match &node.value {
            Value::Number(raw) => raw.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        };
        if number.is_none() {
            decoder.wrong_kind(node, "a number");
        }
        number
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number" })
    }
}

impl Shape for u64 {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let number = match &node.value {
            Value::Number(raw) => integer(raw),
            _ => None,
        };
        if number.is_none() {
            decoder.wrong_kind(node, "a whole number");
        }
        number
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "integer", "minimum": 0 })
    }
}

/// A number of any kind; a hexadecimal or octal one is a whole number.
pub(crate) fn number(raw: &str) -> Option<f64> {
    integer(raw).map(|whole| whole as f64).or_else(|| raw.parse().ok())
}

fn integer(raw: &str) -> Option<u64> {
    match raw
        .strip_prefix("0x")
        .map(|hex| (hex, 16))
        .or_else(|| raw.strip_prefix("0o").map(|octal| (octal, 8)))
    {
        Some((digits, radix)) => u64::from_str_radix(digits, radix).ok(),
        None => raw.parse().ok(),
    }
}

/// An enum whose variants are words in the file.
#[macro_export]
macro_rules! choice {
    ($(#[doc = $doc:literal])* pub enum $name:ident { $($(#[doc = $vdoc:literal])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $vdoc])* $variant),+ }

        impl $name {
            /// All words, in the order of the variants.
            pub const WORDS: &[&str] = &[$($word),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::Shape for $name {
            fn decode(node: &$crate::Node, decoder: &mut $crate::Decoder) -> Option<Self> {
                $crate::decode_choice(node, decoder, Self::WORDS).and_then(Self::parse)
            }

            fn schema(_: &mut $crate::Schemas) -> $crate::macros::Json {
                $crate::macros::json!({ "enum": Self::WORDS })
            }
        }
    };
}

/// A text that follows a rule, given as a function and, for the schema, as a pattern that means the same.
#[macro_export]
macro_rules! text {
    ($(#[doc = $doc:literal])* pub struct $name:ident: $rule:path, $pattern:literal, $says:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: &str) -> Option<Self> {
                $rule(text).then(|| Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl $crate::Shape for $name {
            fn decode(node: &$crate::Node, decoder: &mut $crate::Decoder) -> Option<Self> {
                let text = <String as $crate::Shape>::decode(node, decoder)?;
                let parsed = Self::parse(&text);
                if parsed.is_none() {
                    decoder.wrong_value(node, concat!("must be ", $says));
                }
                parsed
            }

            fn schema(_: &mut $crate::Schemas) -> $crate::macros::Json {
                $crate::macros::json!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

/// A whole number within bounds.
#[macro_export]
macro_rules! ranged {
    ($(#[doc = $doc:literal])* pub struct $name:ident: $from:literal..=$to:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            pub const LEAST: u64 = $from;
            pub const MOST: u64 = $to;

            pub fn get(self) -> u64 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $crate::Shape for $name {
            fn decode(node: &$crate::Node, decoder: &mut $crate::Decoder) -> Option<Self> {
                let number = <u64 as $crate::Shape>::decode(node, decoder)?;
                if !(Self::LEAST..=Self::MOST).contains(&number) {
                    decoder.wrong_value(node, format!("must be between {} and {}, not {number}", Self::LEAST, Self::MOST));
                    return None;
                }
                Some(Self(number))
            }

            fn schema(_: &mut $crate::Schemas) -> $crate::macros::Json {
                $crate::macros::json!({ "type": "integer", "minimum": Self::LEAST, "maximum": Self::MOST })
            }
        }
    };
}

/// The word of a choice, if it is one of them. An empty word is accepted but not listed in messages.
pub fn decode_choice<'a>(node: &'a Node, decoder: &mut Decoder, words: &[&'static str]) -> Option<&'a str> {
    let shown: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    let expected = format!("one of {}", shown.join(", "));
    let Some(word) = node.scalar() else {
        decoder.wrong_kind(node, &expected);
        return None;
    };
    if words.contains(&word) {
        return Some(word);
    }
    let why = match crate::closest(word, shown) {
        Some(near) => format!("must be {expected}; did you mean `{near}`?"),
        None => format!("must be {expected}"),
    };
    decoder.wrong_value(node, why);
    None
}
