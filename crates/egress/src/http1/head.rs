//! Request and response heads.

use super::body::Framing;
use super::fields::{Fields, HeadError, is_token, lines};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    Http10,
    Http11,
}

/// A request target, in one of HTTP's four forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestTarget {
    /// `/path?query`
    Origin { path: String, query: Option<String> },
    /// `http://host:port/path?query`, as a client sends it to a proxy.
    Absolute { authority: String, path: String, query: Option<String> },
    /// `host:port`, only with CONNECT.
    Authority(String),
    /// `*`, only with OPTIONS.
    Asterisk,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    pub method: String,
    pub target: RequestTarget,
    pub version: HttpVersion,
    pub fields: Fields,
    pub framing: Framing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub reason: Vec<u8>,
    pub version: HttpVersion,
    pub fields: Fields,
}

/// Headers for one connection, not for the next.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
];

/// What `Connection` may list. Anything else (`host`, `authorization`) would remove headers that the decision depends on.
const CONNECTION_OPTIONS: &[&str] =
    &["close", "keep-alive", "upgrade", "te", "trailers", "proxy-connection", "http2-settings"];

impl RequestHead {
    /// `bytes` ends with the empty line.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        let lines = lines(bytes)?;
        let (Some((start, rest)), Some(b"")) = (lines.split_first(), lines.last().copied()) else {
            return Err(HeadError::BareLineEnd);
        };
        let fields = Fields::parse(&rest[..rest.len().saturating_sub(1)])?;
        let mut parts = start.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(HeadError::StartLine);
        };
        Self::of(method, target, parse_version(version)?, fields)
    }

    /// A head that another parser has split, checked by the same rules.
    pub fn of(method: &[u8], target: &[u8], version: HttpVersion, fields: Fields) -> Result<Self, HeadError> {
        if !is_token(method) {
            return Err(HeadError::Method);
        }
        let method = String::from_utf8(method.to_vec()).map_err(|_| HeadError::Method)?;
        let target = parse_target(&method, target)?;
        let framing = request_framing(&fields, version)?;
        check_hop(&fields)?;
        Ok(Self { method, target, version, fields, framing })
    }

    /// Without the headers for this connection, and without those that are written anew for the next.
    pub fn without_hop(&self) -> Fields {
        let mut fields = self.fields.clone();
        for name in HOP_BY_HOP {
            fields.remove(name);
        }
        for name in ["host", "content-length", "transfer-encoding"] {
            fields.remove(name);
        }
        fields
    }

    /// The one Host field; HTTP/1.0 may have none.
    pub fn host(&self) -> Result<Option<&str>, HeadError> {
        let host = self.fields.single("host", HeadError::Host)?;
        match (host, self.version) {
            (None, HttpVersion::Http11) => Err(HeadError::Host),
            (None, HttpVersion::Http10) => Ok(None),
            (Some(host), _) => std::str::from_utf8(host).map(Some).map_err(|_| HeadError::Host),
        }
    }

    pub fn wants_close(&self) -> bool {
        let words = self.fields.words("connection");
        words.iter().any(|word| word == "close")
            || (self.version == HttpVersion::Http10 && !words.iter().any(|word| word == "keep-alive"))
    }

    pub fn is_websocket(&self) -> bool {
        self.fields.words("upgrade") == ["websocket"]
            && self.fields.words("connection").iter().any(|word| word == "upgrade")
    }

    /// The head for the server: origin form, our own framing, without the headers for this connection.
    pub fn write_upstream(&self, host: &str, path_and_query: &str) -> Vec<u8> {
        let mut fields = self.without_hop();
        if !self.is_websocket() {
            fields.remove("upgrade");
        }
        let mut out = format!("{} {path_and_query} HTTP/1.1\r\nHost: {host}\r\n", self.method).into_bytes();
        match self.framing {
            Framing::None => {}
            Framing::Length(length) => {
                out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
            }
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose => {}
        }
        if self.is_websocket() {
            out.extend_from_slice(b"Connection: Upgrade\r\n");
        }
        fields.write(&mut out);
        out
    }
}

fn parse_version(bytes: &[u8]) -> Result<HttpVersion, HeadError> {
    match bytes {
        b"HTTP/1.1" => Ok(HttpVersion::Http11),
        b"HTTP/1.0" => Ok(HttpVersion::Http10),
        _ => Err(HeadError::Version),
    }
}

fn parse_target(method: &str, bytes: &[u8]) -> Result<RequestTarget, HeadError> {
    let text = std::str::from_utf8(bytes).map_err(|_| HeadError::Target)?;
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || byte == b'#') {
        return Err(HeadError::Target);
    }
    if method == "CONNECT" {
        return Ok(RequestTarget::Authority(text.to_owned()));
    }
    if text == "*" {
        return if method == "OPTIONS" { Ok(RequestTarget::Asterisk) } else { Err(HeadError::Target) };
    }
    if text.starts_with('/') {
        let (path, query) = split_query(text);
        return Ok(RequestTarget::Origin { path, query });
    }
    let scheme_end = text.find("://").ok_or(HeadError::Target)?;
    if !text[..scheme_end].eq_ignore_ascii_case("http") {
        return Err(HeadError::Target);
    }
    let rest = &text[scheme_end + 3..];
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains(['@', '\\']) {
        return Err(HeadError::Target);
    }
    let (path, query) = split_query(if rest.starts_with('/') { rest } else { "/" });
    let query = query.or_else(|| rest.strip_prefix('?').map(str::to_owned));
    Ok(RequestTarget::Absolute { authority: authority.to_owned(), path, query })
}

fn split_query(text: &str) -> (String, Option<String>) {
    match text.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (text.to_owned(), None),
    }
}

fn request_framing(fields: &Fields, version: HttpVersion) -> Result<Framing, HeadError> {
    let length = content_length(fields)?;
    match (transfer_encoding(fields)?, length) {
        (true, Some(_)) => Err(HeadError::LengthAndChunks),
        (true, None) if version == HttpVersion::Http10 => Err(HeadError::TransferEncoding),
        (true, None) => Ok(Framing::Chunked),
        (false, Some(length)) => Ok(Framing::Length(length)),
        (false, None) => Ok(Framing::None),
    }
}

fn content_length(fields: &Fields) -> Result<Option<u64>, HeadError> {
    let Some(value) = fields.single("content-length", HeadError::ContentLength)? else { return Ok(None) };
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::ContentLength);
    }
    let text = std::str::from_utf8(value).map_err(|_| HeadError::ContentLength)?;
    text.parse().map(Some).map_err(|_| HeadError::ContentLength)
}

fn transfer_encoding(fields: &Fields) -> Result<bool, HeadError> {
    match fields.single("transfer-encoding", HeadError::TransferEncoding)? {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"chunked") => Ok(true),
        Some(_) => Err(HeadError::TransferEncoding),
    }
}

fn check_hop(fields: &Fields) -> Result<(), HeadError> {
    let options = fields.words("connection");
    if options.iter().any(|word| !CONNECTION_OPTIONS.contains(&word.as_str())) {
        return Err(HeadError::ConnectionOption);
    }
    let upgrades = fields.words("upgrade");
    if upgrades.iter().any(|word| word != "websocket") || upgrades.len() > 1 {
        return Err(HeadError::Upgrade);
    }
    Ok(())
}

impl ResponseHead {
    pub fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        let lines = lines(bytes)?;
        let (Some((start, rest)), Some(b"")) = (lines.split_first(), lines.last().copied()) else {
            return Err(HeadError::BareLineEnd);
        };
        let fields = Fields::parse(&rest[..rest.len().saturating_sub(1)])?;
        let (version, rest) = start.split_at_checked(8).ok_or(HeadError::StartLine)?;
        let version = parse_version(version)?;
        let status = rest.get(1..4).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let (Some(b' '), Some(status)) = (rest.first(), status) else { return Err(HeadError::StartLine) };
        let status = status.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
        let reason = match rest.get(4..) {
            Some([b' ', reason @ ..]) => reason.to_vec(),
            Some([]) | None => Vec::new(),
            Some(_) => return Err(HeadError::StartLine),
        };
        if !(100..=599).contains(&status) || reason.iter().any(|byte| *byte < b' ' && *byte != b'\t') {
            return Err(HeadError::StartLine);
        }
        Ok(Self { status, reason, version, fields })
    }

    /// How the body of the response to this method ends.
    pub fn framing(&self, method: &str) -> Result<Framing, HeadError> {
        let length = content_length(&self.fields)?;
        let chunked = transfer_encoding(&self.fields)?;
        if method == "HEAD" || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Framing::None);
        }
        match (chunked, length) {
            (true, Some(_)) => Err(HeadError::LengthAndChunks),
            (true, None) => Ok(Framing::Chunked),
            (false, Some(length)) => Ok(Framing::Length(length)),
            (false, None) => Ok(Framing::UntilClose),
        }
    }

    pub fn wants_close(&self) -> bool {
        let words = self.fields.words("connection");
        words.iter().any(|word| word == "close")
            || (self.version == HttpVersion::Http10 && !words.iter().any(|word| word == "keep-alive"))
    }

    /// The head for the client. A body without a length ends with the connection.
    pub fn write_downstream(&self, framing: Framing, keeps_alive: bool) -> Vec<u8> {
        let mut fields = self.fields.clone();
        for name in HOP_BY_HOP {
            fields.remove(name);
        }
        let mut out = format!("HTTP/1.1 {} ", self.status).into_bytes();
        out.extend_from_slice(&self.reason);
        out.extend_from_slice(b"\r\n");
        let bodied = !matches!(framing, Framing::None);
        if bodied {
            fields.remove("content-length");
            fields.remove("transfer-encoding");
        }
        match framing {
            Framing::Length(length) => {
                out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
            }
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::None | Framing::UntilClose => {}
        }
        if self.status == 101 {
            out.extend_from_slice(b"Connection: Upgrade\r\n");
        } else if !keeps_alive {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        fields.write(&mut out);
        out
    }
}
