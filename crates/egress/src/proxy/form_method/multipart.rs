//! The fields of a form in parts, line by line. Every line that starts with `--` may be a border, because readers differ in the
//! border that they take from the head.

use super::{ForbiddenMethod, MAX_NAME, ReplacedMethod, is_override};

/// Of a line that may be a header.
const MAX_LINE: usize = 4096;

#[derive(Clone, Default)]
pub(super) struct MultipartFields {
    place: MultipartSection,
    line: Vec<u8>,
    /// Of the part whose headers are being read.
    is_override: bool,
    method: Option<ReplacedMethod>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum MultipartSection {
    #[default]
    Content,
    Headers,
}

impl MultipartFields {
    pub(super) fn push(&mut self, byte: u8, allowed: &[&str]) -> Result<(), ForbiddenMethod> {
        if byte != b'\n' {
            if self.line.len() < MAX_LINE {
                self.line.push(byte);
            }
            // The first line of a part is the method.
            return match &mut self.method {
                Some(method) if self.line.first() != Some(&b'-') => method.push(byte, allowed),
                _ => Ok(()),
            };
        }
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.starts_with(b"--") {
            self.place = MultipartSection::Headers;
            self.is_override = false;
            self.method = None;
        } else if self.place == MultipartSection::Headers && line.is_empty() {
            self.place = MultipartSection::Content;
            self.method = self.is_override.then(ReplacedMethod::default);
        } else if self.place == MultipartSection::Headers {
            self.is_override = self.is_override || names(line).any(|name| is_override(&name));
        }
        Ok(())
    }
}

/// The values of the parameters called `name`, without their quotes and escapes.
fn names(line: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let text = String::from_utf8_lossy(line).into_owned();
    let parameters: Vec<String> = text.split([';', ',']).map(str::to_owned).collect();
    parameters.into_iter().filter_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        let key = key.rsplit(':').next().unwrap_or_default();
        let is_name = key.trim().trim_end_matches(['*', '0']).trim().eq_ignore_ascii_case("name");
        let value = value.trim().trim_matches(['"', '\'']).replace('\\', "");
        let value = value.rsplit_once("''").map_or(value.as_str(), |(_, value)| value).to_owned();
        (is_name && value.len() <= MAX_NAME).then(|| percent_decoded(value.as_bytes()))
    })
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}
