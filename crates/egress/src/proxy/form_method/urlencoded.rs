//! The fields of a form in the encoding of URLs, byte by byte.

use super::{ForbiddenMethod, MAX_NAME, ReplacedMethod, is_override};

#[derive(Clone, Default)]
pub(super) struct UrlencodedFields {
    name: Vec<u8>,
    value: FieldValue,
    /// The digits of a `%` that has not ended.
    escape: Option<Vec<u8>>,
}

#[derive(Clone, Default)]
enum FieldValue {
    /// The name has not ended.
    #[default]
    NotYet,
    Other,
    Method(ReplacedMethod),
}

impl UrlencodedFields {
    pub(super) fn push(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        if let Some(digits) = &mut self.escape {
            if byte.is_ascii_hexdigit() {
                digits.push(byte);
                if digits.len() < 2 {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(digits);
                let decoded = u8::from_str_radix(&text, 16).unwrap_or(b'%');
                self.escape = None;
                return self.decoded(decoded, allowed);
            }
            let kept = std::mem::take(digits);
            self.escape = None;
            self.decoded(b'%', allowed)?;
            kept.into_iter().try_for_each(|digit| self.decoded(digit, allowed))?;
        }
        match byte {
            b'%' => self.escape = Some(Vec::new()),
            b'+' => self.decoded(b' ', allowed)?,
            b'&' | b';' => *self = Self::default(),
            b'=' if matches!(self.value, FieldValue::NotYet) => {
                let replaces = self.name.len() <= MAX_NAME && is_override(&self.name);
                self.value =
                    if replaces { FieldValue::Method(ReplacedMethod::default()) } else { FieldValue::Other };
            }
            other => self.decoded(other, allowed)?,
        }
        Ok(())
    }

    fn decoded(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        match &mut self.value {
            FieldValue::NotYet if self.name.len() <= MAX_NAME => self.name.push(byte),
            FieldValue::NotYet | FieldValue::Other => {}
            FieldValue::Method(method) => return method.push(byte, allowed),
        }
        Ok(())
    }
}
