//! Reading and writing of single messages.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER_BYTES: usize = 12;
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// More compression pointers than an honest name has.
const MAX_JUMPS: usize = 16;
const MAX_RECORDS: usize = 256;
const CLASS_IN: u16 = 1;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionType {
    A,
    Aaaa,
    Other(u16),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuestion {
    pub id: u16,
    /// Lower case, without a dot at its end.
    pub name: String,
    pub kind: QuestionType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyCode {
    Fine,
    NoSuchName,
    Failure(u8),
}

/// A name server's reply to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsReply {
    pub id: u16,
    pub code: ReplyCode,
    /// Too long for a datagram: ask again over TCP.
    pub truncated: bool,
    pub addresses: Vec<IpAddr>,
    /// The shortest lifetime of a record in the chain.
    pub ttl_seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsError {
    Short,
    NotAQuestion,
    NotAReply,
    BadName,
    OtherQuestion,
    TooManyRecords,
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the message is too short",
            Self::NotAQuestion => "the message is not a single question",
            Self::NotAReply => "the message is not a reply",
            Self::BadName => "the message has an invalid name",
            Self::OtherQuestion => "the reply is to another question",
            Self::TooManyRecords => "the reply has too many records",
        })
    }
}

impl std::error::Error for DnsError {}

impl QuestionType {
    fn from_code(code: u16) -> Self {
        match code {
            TYPE_A => Self::A,
            TYPE_AAAA => Self::Aaaa,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u16 {
        match self {
            Self::A => TYPE_A,
            Self::Aaaa => TYPE_AAAA,
            Self::Other(other) => other,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u16(&mut self) -> Result<u16, DnsError> {
        let pair = self.bytes.get(self.at..self.at + 2).ok_or(DnsError::Short)?;
        self.at += 2;
        Ok(u16::from_be_bytes([pair[0], pair[1]]))
    }

    fn u32(&mut self) -> Result<u32, DnsError> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    /// Follows compression; `at` ends after the name's own bytes here.
    fn name(&mut self) -> Result<String, DnsError> {
        let mut name = String::new();
        let mut at = self.at;
        let mut jumps = 0;
        loop {
            let length = usize::from(*self.bytes.get(at).ok_or(DnsError::Short)?);
            if length & 0xc0 == 0xc0 {
                let low = usize::from(*self.bytes.get(at + 1).ok_or(DnsError::Short)?);
                if jumps == 0 {
                    self.at = at + 2;
                }
                jumps += 1;
                if jumps > MAX_JUMPS {
                    return Err(DnsError::BadName);
                }
                at = (length & 0x3f) << 8 | low;
                continue;
            }
            if length == 0 {
                if jumps == 0 {
                    self.at = at + 1;
                }
                return Ok(name);
            }
            let label = self.bytes.get(at + 1..at + 1 + length).ok_or(DnsError::Short)?;
            push_label(&mut name, label)?;
            at += 1 + length;
        }
    }
}

/// Only characters of a host name: a label with a dot or a NUL in it would read as another name.
fn push_label(name: &mut String, label: &[u8]) -> Result<(), DnsError> {
    let proper = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if label.len() > MAX_LABEL_BYTES || !label.iter().all(proper) {
        return Err(DnsError::BadName);
    }
    if !name.is_empty() {
        name.push('.');
    }
    name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    if name.len() > MAX_NAME_BYTES { Err(DnsError::BadName) } else { Ok(()) }
}

fn push_name(out: &mut Vec<u8>, name: &str) -> Result<(), DnsError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(DnsError::BadName);
    }
    for label in name.split('.') {
        push_label(&mut String::new(), label.as_bytes())?;
        let length = u8::try_from(label.len()).map_err(|_| DnsError::BadName)?;
        if length == 0 {
            return Err(DnsError::BadName);
        }
        out.push(length);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    Ok(())
}

pub fn read_question(bytes: &[u8]) -> Result<DnsQuestion, DnsError> {
    let mut reader = Reader { bytes, at: 0 };
    let id = reader.u16()?;
    let flags = reader.u16()?;
    let questions = reader.u16()?;
    // A reply, another operation than a query, or more than one question.
    if flags & 0xf800 != 0 || questions != 1 {
        return Err(DnsError::NotAQuestion);
    }
    reader.at = HEADER_BYTES;
    let name = reader.name()?;
    let kind = QuestionType::from_code(reader.u16()?);
    if reader.u16()? != CLASS_IN {
        return Err(DnsError::NotAQuestion);
    }
    Ok(DnsQuestion { id, name, kind })
}

pub fn write_question(question: &DnsQuestion) -> Result<Vec<u8>, DnsError> {
    let mut out = Vec::with_capacity(HEADER_BYTES + question.name.len() + 6);
    out.extend_from_slice(&question.id.to_be_bytes());
    // A query that asks for recursion, one question, nothing else.
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    push_name(&mut out, &question.name)?;
    out.extend_from_slice(&question.kind.code().to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    Ok(out)
}

/// A reply to a question that we received. `Fine` without an address means that the name exists without such a record.
pub fn write_reply(
    question: &DnsQuestion,
    code: ReplyCode,
    address: Option<Ipv4Addr>,
    ttl_seconds: u32,
) -> Vec<u8> {
    let mut out = write_question(question).unwrap_or_else(|_| header_only(question.id));
    let low = match code {
        ReplyCode::Fine => 0,
        ReplyCode::NoSuchName => 3,
        ReplyCode::Failure(code) => code & 0x0f,
    };
    // A reply, authoritative, recursion asked for and available.
    out[2] = 0x85;
    out[3] = 0x80 | low;
    if let Some(address) = address {
        out[7] = 1;
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&TYPE_A.to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        out.extend_from_slice(&ttl_seconds.to_be_bytes());
        out.extend_from_slice(&[0, 4]);
        out.extend_from_slice(&address.octets());
    }
    out
}

fn header_only(id: u16) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    out[..2].copy_from_slice(&id.to_be_bytes());
    out
}

/// Takes the addresses of the name that was asked for, along its chain of aliases, and no others.
pub fn read_reply(bytes: &[u8], asked: &DnsQuestion) -> Result<DnsReply, DnsError> {
    let mut reader = Reader { bytes, at: 0 };
    let id = reader.u16()?;
    let flags = reader.u16()?;
    let questions = reader.u16()?;
    let answers = reader.u16()?;
    if flags & 0x8000 == 0 || questions != 1 {
        return Err(DnsError::NotAReply);
    }
    reader.at = HEADER_BYTES;
    let name = reader.name()?;
    let kind = QuestionType::from_code(reader.u16()?);
    reader.u16()?;
    if id != asked.id || kind != asked.kind || name != asked.name.to_ascii_lowercase() {
        return Err(DnsError::OtherQuestion);
    }
    let code = match flags & 0x0f {
        0 => ReplyCode::Fine,
        3 => ReplyCode::NoSuchName,
        other => ReplyCode::Failure(other as u8),
    };
    let truncated = flags & 0x0200 != 0;
    let mut reply = DnsReply { id, code, truncated, addresses: Vec::new(), ttl_seconds: u32::MAX };
    if usize::from(answers) > MAX_RECORDS {
        return Err(DnsError::TooManyRecords);
    }
    let mut wanted = name;
    for _ in 0..answers {
        let record = match read_record(&mut reader) {
            Err(DnsError::Short) if truncated => break,
            other => other?,
        };
        if record.owner != wanted {
            continue;
        }
        match record.data {
            Data::Alias(target) => wanted = target,
            Data::Address(address) => reply.addresses.push(address),
            Data::Other => continue,
        }
        reply.ttl_seconds = reply.ttl_seconds.min(record.ttl_seconds);
    }
    Ok(reply)
}

struct Record {
    owner: String,
    ttl_seconds: u32,
    data: Data,
}

enum Data {
    Address(IpAddr),
    Alias(String),
    Other,
}

fn read_record(reader: &mut Reader<'_>) -> Result<Record, DnsError> {
    let owner = reader.name()?;
    let kind = reader.u16()?;
    let class = reader.u16()?;
    let ttl_seconds = reader.u32()?;
    let length = usize::from(reader.u16()?);
    let start = reader.at;
    let data = reader.bytes.get(start..start + length).ok_or(DnsError::Short)?;
    let data = match (class, kind, length) {
        (CLASS_IN, TYPE_A, 4) => Data::Address(Ipv4Addr::new(data[0], data[1], data[2], data[3]).into()),
        (CLASS_IN, TYPE_AAAA, 16) => {
            let mut octets = [0; 16];
            octets.copy_from_slice(data);
            Data::Address(Ipv6Addr::from(octets).into())
        }
        (CLASS_IN, TYPE_CNAME, _) => Data::Alias(reader.name()?),
        _ => Data::Other,
    };
    reader.at = start + length;
    Ok(Record { owner, ttl_seconds, data })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question(name: &str) -> DnsQuestion {
        DnsQuestion { id: 7, name: name.to_owned(), kind: QuestionType::A }
    }

    /// `name CNAME alias` and `owner A 192.0.2.1`, uncompressed.
    fn reply_with(asked: &DnsQuestion, records: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
        let mut out = write_reply(asked, ReplyCode::Fine, None, 0);
        out[7] = u8::try_from(records.len()).unwrap();
        for (owner, kind, data) in records {
            push_name(&mut out, owner).unwrap();
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, u8::try_from(data.len()).unwrap()]);
            out.extend_from_slice(data);
        }
        out
    }

    fn encoded(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push_name(&mut out, name).unwrap();
        out
    }

    #[test]
    fn a_question_survives_and_its_reply_is_read() {
        let asked = question("api.example.com");
        assert_eq!(read_question(&write_question(&asked).unwrap()), Ok(asked.clone()));
        let address = Ipv4Addr::new(198, 18, 0, 1);
        let reply = read_reply(&write_reply(&asked, ReplyCode::Fine, Some(address), 5), &asked).unwrap();
        assert_eq!((reply.code, reply.ttl_seconds), (ReplyCode::Fine, 5));
        assert_eq!(reply.addresses, [IpAddr::from(address)]);
        let reply = read_reply(&write_reply(&asked, ReplyCode::NoSuchName, None, 0), &asked).unwrap();
        assert_eq!((reply.code, reply.addresses.len()), (ReplyCode::NoSuchName, 0));
    }

    #[test]
    fn a_chain_of_aliases_is_followed_and_strangers_are_not() {
        let asked = question("a.test");
        let records = [
            ("a.test", TYPE_CNAME, encoded("b.test")),
            ("evil.test", TYPE_A, vec![10, 0, 0, 1]),
            ("b.test", TYPE_A, vec![192, 0, 2, 1]),
        ];
        let reply = read_reply(&reply_with(&asked, &records), &asked).unwrap();
        assert_eq!(reply.addresses, [IpAddr::from([192, 0, 2, 1])]);
    }

    #[test]
    fn replies_to_other_questions_are_refused() {
        let asked = question("a.test");
        for other in [
            question("b.test"),
            DnsQuestion { id: 8, ..asked.clone() },
            DnsQuestion { kind: QuestionType::Aaaa, ..asked.clone() },
        ] {
            let bytes = write_reply(&other, ReplyCode::Fine, None, 0);
            assert_eq!(read_reply(&bytes, &asked), Err(DnsError::OtherQuestion));
        }
        assert_eq!(read_reply(&write_question(&asked).unwrap(), &asked), Err(DnsError::NotAReply));
    }

    #[test]
    fn odd_names_are_refused_both_ways() {
        for name in ["", ".", "a..b", "a b", "é.test", "a\0.test", &"x".repeat(64), &"x.".repeat(200)] {
            assert!(write_question(&question(name)).is_err(), "{name:?}");
        }
        let mut bytes = write_question(&question("evil.com")).unwrap();
        bytes[13] = b'.';
        assert_eq!(read_question(&bytes), Err(DnsError::BadName));
        // A name that points at itself.
        let mut looping = header_only(1);
        looping[5] = 1;
        looping.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(read_question(&looping), Err(DnsError::BadName));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(read_question(&bytes));
            drop(read_reply(&bytes, &question("a.test")));
        }

        #[test]
        fn damaged_replies_are_read_without_a_panic(at in 0usize..200, byte: u8, length in 0usize..200) {
            let asked = question("a.test");
            let records = [("a.test", TYPE_CNAME, encoded("b.test")), ("b.test", TYPE_A, vec![1, 2, 3, 4])];
            let mut bytes = reply_with(&asked, &records);
            let place = at % bytes.len();
            bytes[place] = byte;
            bytes.truncate(length);
            drop(read_reply(&bytes, &asked));
        }
    }
}
