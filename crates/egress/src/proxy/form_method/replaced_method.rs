//! The value of a field that replaces the method, read letter by letter.

use super::ForbiddenMethod;

/// Spaces around it do not count, nor does the case.
#[derive(Clone, Default)]
pub(super) struct ReplacedMethod {
    letters: String,
}

impl ReplacedMethod {
    /// Refuses as soon as no allowed method starts like this.
    pub(super) fn push(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        let is_whole = allowed.contains(&self.letters.as_str());
        if byte.is_ascii_whitespace() && (self.letters.is_empty() || is_whole) {
            return Ok(());
        }
        self.letters.push(char::from(byte).to_ascii_uppercase());
        if allowed.iter().any(|method| method.starts_with(&self.letters)) {
            Ok(())
        } else {
            Err(ForbiddenMethod(self.letters.clone()))
        }
    }
}
