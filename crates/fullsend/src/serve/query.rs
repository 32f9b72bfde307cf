//! The query of a request, decoded and checked.

use super::problem::Problem;

/// How many entries one answer has, if the caller does not say.
const DEFAULT_LIMIT: usize = 50;
pub(super) const MAX_LIMIT: usize = 1000;

pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let decode = |part: &str| {
            decoded(&part.replace('+', " ")).ok_or_else(|| Problem::bad_request("the query is not valid"))
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        Ok(Self(pairs.collect::<Result<_, Problem>>()?))
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number);
        number.map(Some).ok_or_else(|| Problem::bad_request(format!("`{name}` must be a whole number")))
    }

    pub(super) fn limit(&self) -> Result<usize, Problem> {
        let limit = self.number("limit")?.map_or(Ok(DEFAULT_LIMIT), usize::try_from);
        match limit {
            Ok(limit @ 1..=MAX_LIMIT) => Ok(limit),
            _ => Err(Problem::bad_request(format!("`limit` must be from 1 to {MAX_LIMIT}"))),
        }
    }
}

/// `%20` and the like. `None`: it is not UTF-8, or an escape is not complete.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let [high, low, tail @ ..] = tail else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_checked() {
        let query = Query::parse("harness=a%20b+c&limit=7&after=x&limit=8&empty").unwrap();
        assert_eq!(query.value("harness"), Some("a b c"));
        assert_eq!(query.value("empty"), Some(""));
        assert_eq!(query.value("outcome"), None);
        assert_eq!(query.limit().unwrap(), 7);
        assert!(query.number("after").is_err());
        for text in
            ["limit=0", "limit=1001", "limit=-1", "limit=%2B5", "limit=99999999999999999999", "limit="]
        {
            assert!(Query::parse(text).unwrap().limit().is_err(), "{text}");
        }
        for text in ["a=%", "a=%f", "a=%ff", "%zz=1"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
