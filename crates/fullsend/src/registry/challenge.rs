//! What a registry asks for when it answers 401: `WWW-Authenticate`, as RFC 9110 spells it.

/// How a registry wants requests to be authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    /// A token from a token server.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

/// The first supported challenge; a token is preferred to a password.
pub fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = None;
    for header in headers {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
        if scheme.eq_ignore_ascii_case("bearer") {
            let parameters = read_parameters(parameters);
            let value = |name: &str| {
                let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.clone())
            };
            if let Some(realm) = value("realm") {
                return Some(Challenge::Bearer { realm, service: value("service") });
            }
        }
    }
    basic
}

/// `name="value", name=value`; a backslash escapes the next character.
fn read_parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let mut value = String::new();
        let mut letters = after.char_indices();
        let is_quoted = after.starts_with('"');
        if is_quoted {
            letters.next();
        }
        let mut end = after.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' if is_quoted => {
                    end = at + 1;
                    break;
                }
                ',' if !is_quoted => {
                    end = at;
                    break;
                }
                '\\' if is_quoted => value.extend(letters.next().map(|(_, next)| next)),
                other => value.push(other),
            }
        }
        found.push((name.trim().to_owned(), value.trim().to_owned()));
        rest = after[end..].trim_start_matches([',', ' ', '\t']);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Challenge, parse};

    #[test]
    fn challenges_are_read_as_they_are_written() {
        let check = |headers: &[&str], expected: Option<Challenge>| {
            assert_eq!(parse(headers.iter().copied()), expected, "{headers:?}");
        };
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        check(&[hub], bearer("https://auth.docker.io/token", Some("registry.docker.io")));
        check(&[r#"bearer realm="https://a/t?x=\"y\"", scope="a=b""#], bearer("https://a/t?x=\"y\"", None));
        check(&["Bearer realm=https://a/t,service=s"], bearer("https://a/t", Some("s")));
        check(&[r#"Basic realm="x""#], Some(Challenge::Basic));
        check(&["Basic", hub], bearer("https://auth.docker.io/token", Some("registry.docker.io")));
        check(&["Bearer"], None);
        check(&["Negotiate"], None);
        check(&["Bearer realm=\"https://a"], bearer("https://a", None));
        check(&[], None);
    }
}
