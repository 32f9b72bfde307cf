//! The query of a request as pairs of key and value.

use std::fmt;

const MAX_BYTES: usize = 65_536;
const MAX_PAIRS: usize = 1024;

/// Decoded keys and values, in order. A key may occur several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(Vec<u8>, Vec<u8>)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStringError {
    TooLong,
    TooMany,
    Encoding,
}

impl fmt::Display for QueryStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the query is longer than 65536 bytes",
            Self::TooMany => "the query has more than 1024 parameters",
            Self::Encoding => "the query contains a `%` without two hexadecimal digits after it",
        })
    }
}

impl std::error::Error for QueryStringError {}

impl Query {
    /// Reads the part after the `?`. A parameter without `=` has an empty value.
    pub fn parse(raw: &str) -> Result<Self, QueryStringError> {
        if raw.len() > MAX_BYTES {
            return Err(QueryStringError::TooLong);
        }
        let mut pairs = Vec::new();
        for parameter in raw.split('&').filter(|parameter| !parameter.is_empty()) {
            if pairs.len() == MAX_PAIRS {
                return Err(QueryStringError::TooMany);
            }
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            pairs.push((decode(key)?, decode(value)?));
        }
        Ok(Self(pairs))
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.pairs().map(|(key, _)| key)
    }

    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(name, _)| name == key.as_bytes()).map(|(_, value)| value.as_slice())
    }
}

fn decode(text: &str) -> Result<Vec<u8>, QueryStringError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
                    return Err(QueryStringError::Encoding);
                };
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            _ => byte,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{Query, QueryStringError};

    #[test]
    fn parameters_are_decoded_and_kept_in_order() {
        let query = Query::parse("tag=v1.2&t%61g=v1%2e3&empty&&a+b=c%20d=e").unwrap();
        let values = |key| {
            query.values(key).map(|value| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(values("tag"), ["v1.2", "v1.3"]);
        assert_eq!(values("empty"), [""]);
        assert_eq!(values("a b"), ["c d=e"]);
        assert_eq!(values("missing"), Vec::<String>::new());
        assert_eq!(Query::parse("a=%"), Err(QueryStringError::Encoding));
        assert_eq!(Query::parse("a=%4"), Err(QueryStringError::Encoding));
        assert_eq!(Query::parse(&"a&".repeat(1025)), Err(QueryStringError::TooMany));
        assert_eq!(Query::parse(&"a".repeat(65_537)), Err(QueryStringError::TooLong));
    }
}
