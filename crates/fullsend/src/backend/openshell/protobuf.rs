//! The wire format of protocol buffers, as much of it as the messages of the gateway need. The two lines of gateways give
//! the same numbers to different fields, so messages are written field by field instead of from one generated set.

/// A message that is being written. Default values are left out, as the format wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            self.varint((field << 3) | VARINT);
            self.varint(value);
        }
        self
    }

    pub(super) fn flag(self, field: u64, value: bool) -> Self {
        self.number(field, u64::from(value))
    }

    /// For a field in which `false` and absent differ.
    pub(super) fn explicit_flag(mut self, field: u64, value: bool) -> Self {
        self.varint((field << 3) | VARINT);
        self.varint(u64::from(value));
        self
    }

    pub(super) fn text(self, field: u64, value: &str) -> Self {
        if value.is_empty() { self } else { self.bytes(field, value.as_bytes()) }
    }

    pub(super) fn texts<T: AsRef<str>>(self, field: u64, values: impl IntoIterator<Item = T>) -> Self {
        values.into_iter().fold(self, |message, value| message.bytes(field, value.as_ref().as_bytes()))
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a call that nests messages reads better without borrows"
    )]
    pub(super) fn message(self, field: u64, value: Self) -> Self {
        self.bytes(field, &value.0)
    }

    pub(super) fn messages(self, field: u64, values: impl IntoIterator<Item = Self>) -> Self {
        values.into_iter().fold(self, |message, value| message.message(field, value))
    }

    /// A map is a list of entries with a key and a value.
    pub(super) fn map<K: AsRef<str>, V: AsRef<str>>(
        self,
        field: u64,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entry = |(key, value): (K, V)| Self::default().text(1, key.as_ref()).text(2, value.as_ref());
        self.messages(field, entries.into_iter().map(entry))
    }

    /// Also written if it is empty, because each element of a list counts.
    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint((field << 3) | BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Skipped,
}

/// A message that came in. Reading stops at the first invalid byte; later fields count as absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a>(pub(super) &'a [u8]);

impl<'a> Received<'a> {
    /// The last value of a field counts, as the format says.
    pub(super) fn number(self, field: u64) -> u64 {
        self.fields().filter(|(number, _)| *number == field).fold(0, |last, (_, value)| match value {
            Value::Number(number) => number,
            Value::Bytes(_) | Value::Skipped => last,
        })
    }

    pub(super) fn bytes(self, field: u64) -> Option<&'a [u8]> {
        self.all(field).last()
    }

    pub(super) fn message(self, field: u64) -> Option<Self> {
        self.bytes(field).map(Self)
    }

    pub(super) fn messages(self, field: u64) -> impl Iterator<Item = Self> {
        self.all(field).map(Self)
    }

    pub(super) fn text(self, field: u64) -> String {
        self.bytes(field).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    fn all(self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if number == field => Some(bytes),
            _ => None,
        })
    }

    fn fields(self) -> impl Iterator<Item = (u64, Value<'a>)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let key = varint(&mut rest)?;
            let value = match key & 7 {
                VARINT => Value::Number(varint(&mut rest)?),
                FIXED_64 => take(&mut rest, 8).map(|_| Value::Skipped)?,
                FIXED_32 => take(&mut rest, 4).map(|_| Value::Skipped)?,
                BYTES => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    Value::Bytes(take(&mut rest, length)?)
                }
                _ => return None,
            };
            Some((key >> 3, value))
        })
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let inner = Message::default().text(1, "key").number(300, u64::MAX);
        let message = Message::default()
            .number(1, 300)
            .flag(2, true)
            .text(3, "")
            .texts(4, ["a", ""])
            .map(5, [("k", "v")])
            .message(6, inner);
        let bytes = message.into_bytes();
        let read = Received(&bytes);
        assert_eq!(read.number(1), 300);
        assert_eq!(read.number(2), 1);
        assert_eq!(read.bytes(3), None, "an empty text is the default");
        assert_eq!(read.all(4).collect::<Vec<_>>(), [&b"a"[..], b""]);
        let entry = read.message(5).unwrap();
        assert_eq!((entry.text(1), entry.text(2)), ("k".to_owned(), "v".to_owned()));
        assert_eq!(read.message(6).unwrap().number(300), u64::MAX);
    }

    #[test]
    fn a_broken_message_ends_where_it_breaks() {
        let whole = Message::default().text(1, "one").text(2, "two").into_bytes();
        for end in 0..whole.len() {
            let read = Received(&whole[..end]);
            assert_eq!(read.text(2), "", "{end} bytes");
        }
        assert_eq!(
            Received(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]).bytes(1),
            None,
            "longer than the message"
        );
        assert_eq!(Received(&[0xff; 20]).number(1), 0, "a number without an end");
        assert_eq!(Received(&[0x0d, 1, 2, 3, 4, 0x10, 7]).number(2), 7, "a field of another kind is skipped");
    }
}
