//! Header fields, parsed from raw bytes. The order and the spelling of the names are preserved.

use std::fmt;

pub const MAX_FIELDS: usize = 128;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    list: Vec<(String, Vec<u8>)>,
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    BareLineEnd,
    ControlByte,
    FoldedLine,
    FieldName,
    TooManyFields,
    StartLine,
    Version,
    Method,
    Target,
    ContentLength,
    TransferEncoding,
    LengthAndChunks,
    Host,
    ConnectionOption,
    Upgrade,
}

impl HeadError {
    pub fn reason(self) -> &'static str {
        match self {
            Self::BareLineEnd => "a line ends in a bare CR or LF",
            Self::ControlByte => "the head holds a control byte",
            Self::FoldedLine => "a header line is folded",
            Self::FieldName => "a header name is not a token, or has a space before its colon",
            Self::TooManyFields => "there are too many header lines",
            Self::StartLine => "the first line does not have the form METHOD TARGET VERSION",
            Self::Version => "the version is neither HTTP/1.1 nor HTTP/1.0",
            Self::Method => "the method is not a token",
            Self::Target => "the request target has the wrong form",
            Self::ContentLength => "Content-Length is repeated or not a plain number",
            Self::TransferEncoding => "Transfer-Encoding is repeated or not exactly `chunked`",
            Self::LengthAndChunks => "the head has both Content-Length and Transfer-Encoding",
            Self::Host => "Host is missing, repeated, or not the host of the connection",
            Self::ConnectionOption => "Connection lists a header that must not be removed",
            Self::Upgrade => "the request asks for an upgrade other than websocket",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HeadError {}

/// Splits a head into its lines. Only CRLF ends a line.
pub(super) fn lines(head: &[u8]) -> Result<Vec<&[u8]>, HeadError> {
    let mut out = Vec::new();
    let mut rest = head;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        if rest.get(at..at + 2) != Some(b"\r\n") {
            return Err(HeadError::BareLineEnd);
        }
        out.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    if rest.is_empty() { Ok(out) } else { Err(HeadError::BareLineEnd) }
}

pub(super) fn is_token(bytes: &[u8]) -> bool {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(part)
}

fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f)
}

fn field(name: &[u8], value: &[u8]) -> Result<(String, Vec<u8>), HeadError> {
    if has_control(value) {
        return Err(HeadError::ControlByte);
    }
    let text = std::str::from_utf8(name).map_err(|_| HeadError::FieldName)?;
    if is_token(name) { Ok((text.to_owned(), value.to_vec())) } else { Err(HeadError::FieldName) }
}

impl Fields {
    /// Replaces all values of the field.
    pub(crate) fn set(&mut self, name: &str, value: Vec<u8>) {
        self.list.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.list.push((name.to_owned(), value));
    }

    pub(super) fn parse(lines: &[&[u8]]) -> Result<Self, HeadError> {
        if lines.len() > MAX_FIELDS {
            return Err(HeadError::TooManyFields);
        }
        let mut list = Vec::with_capacity(lines.len());
        for line in lines {
            if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
                return Err(HeadError::FoldedLine);
            }
            if has_control(line) {
                return Err(HeadError::ControlByte);
            }
            let colon = line.iter().position(|byte| *byte == b':').ok_or(HeadError::FieldName)?;
            list.push(field(&line[..colon], line[colon + 1..].trim_ascii())?);
        }
        Ok(Self { list })
    }

    /// Fields that another parser has split, checked by the same rules.
    pub fn of<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self, HeadError> {
        let list = fields.map(|(name, value)| field(name, value)).collect::<Result<Vec<_>, _>>()?;
        if list.len() > MAX_FIELDS { Err(HeadError::TooManyFields) } else { Ok(Self { list }) }
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let wanted = move |field: &&(String, Vec<u8>)| field.0.eq_ignore_ascii_case(name);
        self.list.iter().filter(wanted).map(|(_, value)| value.as_slice())
    }

    /// The value of a field that may occur once. Twice is an error, even with equal values.
    pub(super) fn single(&self, name: &'static str, repeated: HeadError) -> Result<Option<&[u8]>, HeadError> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() { Err(repeated) } else { Ok(first) }
    }

    /// The comma-separated, lower-cased words of a field.
    pub fn words(&self, name: &str) -> Vec<String> {
        self.all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase())
            .filter(|word| !word.is_empty())
            .collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.list.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Vec<u8>)> {
        self.list.iter_mut().map(|(name, value)| (name.as_str(), value))
    }

    pub fn remove(&mut self, name: &str) {
        self.list.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    }

    pub fn push(&mut self, name: &str, value: &[u8]) {
        self.list.push((name.to_owned(), value.to_vec()));
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.list {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}
