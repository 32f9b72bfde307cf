//! The fields of a JSON object, byte by byte; those of objects inside it replace nothing.

use super::{ForbiddenMethod, MAX_NAME, ReplacedMethod, is_override};

#[derive(Clone, Default)]
pub(super) struct JsonFields {
    depth: usize,
    /// The outermost value is an object.
    is_object: bool,
    text: Option<JsonText>,
    /// The last text of the outermost object, which may be a name.
    name: Vec<u8>,
    value: FieldValue,
}

/// A text that has not ended.
#[derive(Clone, Default)]
struct JsonText {
    /// After a `\`: what came of it.
    escape: Option<Vec<u8>>,
}

#[derive(Clone, Default)]
enum FieldValue {
    #[default]
    Other,
    /// The value of a field that replaces the method starts now.
    Next,
    Method(ReplacedMethod),
}

impl JsonFields {
    pub(super) fn push(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        if self.text.is_some() {
            return self.in_text(byte, allowed);
        }
        match byte {
            b'"' => {
                self.text = Some(JsonText::default());
                self.name.clear();
                if matches!(self.value, FieldValue::Next) {
                    self.value = FieldValue::Method(ReplacedMethod::default());
                }
            }
            b':' if self.depth == 1 && self.is_object => {
                let replaces = self.name.len() <= MAX_NAME && is_override(&self.name);
                self.value = if replaces { FieldValue::Next } else { FieldValue::Other };
            }
            b',' if self.depth == 1 => self.value = FieldValue::Other,
            b'{' | b'[' => {
                self.not_a_method()?;
                self.is_object = if self.depth == 0 { byte == b'{' } else { self.is_object };
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            // `null` replaces nothing.
            b'n' | b'u' | b'l' => {}
            other if other.is_ascii_whitespace() => {}
            _ => self.not_a_method()?,
        }
        Ok(())
    }

    /// A server may take the first text of a list, or a number for a text.
    fn not_a_method(&self) -> Result<(), ForbiddenMethod> {
        match self.value {
            FieldValue::Next => Err(ForbiddenMethod("what is not a text".to_owned())),
            FieldValue::Other | FieldValue::Method(_) => Ok(()),
        }
    }

    fn in_text(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        let Some(text) = &mut self.text else { return Ok(()) };
        match (&mut text.escape, byte) {
            (None, b'\\') => text.escape = Some(Vec::new()),
            (None, b'"') => {
                self.text = None;
                if matches!(self.value, FieldValue::Method(_)) {
                    self.value = FieldValue::Other;
                }
            }
            (None, byte) => return self.letter(byte, allowed),
            (Some(escape), byte) => {
                escape.push(byte);
                if escape[0] == b'u' && escape.len() < 5 {
                    return Ok(());
                }
                let letter = unescaped(escape);
                text.escape = None;
                return self.letter(letter, allowed);
            }
        }
        Ok(())
    }

    fn letter(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        match &mut self.value {
            FieldValue::Method(method) => method.push(byte, allowed),
            FieldValue::Other | FieldValue::Next => {
                if self.name.len() <= MAX_NAME {
                    self.name.push(byte);
                }
                Ok(())
            }
        }
    }
}

/// Methods and their names are ASCII, so other characters become `?`.
fn unescaped(escape: &[u8]) -> u8 {
    match escape {
        [b'u', digits @ ..] => {
            let number = std::str::from_utf8(digits).ok().and_then(|text| u16::from_str_radix(text, 16).ok());
            number.and_then(|number| u8::try_from(number).ok()).unwrap_or(b'?')
        }
        [b'n' | b'r' | b't' | b'f' | b'b', ..] => b' ',
        [byte, ..] => *byte,
        [] => b'?',
    }
}
