//! Host files with `mask: true`: files of credentials, such as `.netrc`, as copies in which the values of the providers' credentials
//! are placeholders. The proxy puts the values in on the way out. A file in which another credential would be left is refused.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::placeholders::Placeholders;

/// The fields that hold a credential in `.netrc`, `.npmrc`, gh's `hosts.yml`, a kubeconfig and Docker's `config.json`.
const SECRET_FIELDS: [&str; 13] = [
    "_auth",
    "_authtoken",
    "_password",
    "access-token",
    "auth",
    "client-key-data",
    "id-token",
    "identitytoken",
    "oauth_token",
    "password",
    "refresh-token",
    "registrytoken",
    "token",
];
/// A shorter word holds no user and password.
const MIN_ENCODED: usize = 8;

/// The masked text, or what would be left in it.
pub(super) fn mask(text: &str, placeholders: &Placeholders<'_>) -> Result<String, String> {
    let masked =
        in_encoded_words(&placeholders.replace_values(text), |plain| placeholders.replace_values(plain));
    let is_masked = |value: &str| {
        let plain = decode(value);
        plain.is_some_and(|plain| placeholders.has_placeholder(&plain)) || placeholders.has_placeholder(value)
    };
    let advice = "declare it as a credential of a provider, or deliver the file without `mask`";
    if let Some((field, _)) = secret_fields(&masked).into_iter().find(|(_, value)| !is_masked(value)) {
        return Err(format!("has a value of `{field}` that no provider declares; {advice}"));
    }
    if let Some(name) = placeholders.found_in(&masked).first() {
        return Err(format!("has the credential {name} in a form that cannot be masked; {advice}"));
    }
    let secrets = redact::find_secrets(&masked);
    let left = secrets.into_iter().find(|secret| !is_masked(&masked[secret.range.clone()]));
    match left {
        Some(secret) => {
            Err(format!("has a credential ({}) that no provider declares; {advice}", secret.format))
        }
        None => Ok(masked),
    }
}

fn is_encoded(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')
}

fn decode(word: &str) -> Option<String> {
    let bytes = STANDARD_NO_PAD.decode(word.trim_end_matches('=')).ok();
    let bytes = bytes.filter(|_| word.len() >= MIN_ENCODED)?;
    String::from_utf8(bytes).ok()
}

/// Docker and npm keep `user:password` in base64.
fn in_encoded_words(text: &str, replace: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_encoded) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_encoded(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        // `KEY=WORD` looks like one word.
        let begin = word.trim_end_matches('=').rfind('=').map_or(0, |at| at + 1);
        out.push_str(&word[..begin]);
        let word = &word[begin..];
        match decode(word).map(|plain| (replace(&plain), plain)) {
            Some((replaced, plain)) if replaced != plain => out.push_str(&STANDARD.encode(replaced)),
            _ => out.push_str(word),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The values of all fields that hold credentials, in JSON, YAML, INI and `.netrc`: the name, then `:`, `=` or a space, and the value.
fn secret_fields(text: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        let mut words =
            line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '{' | '}' | '='));
        let mut field: Option<&'static str> = None;
        for word in words.by_ref().filter(|word| !word.is_empty() && *word != ":") {
            if let Some(field) = field.take() {
                found.push((field, word.to_owned()));
                continue;
            }
            // In `.npmrc` the registry comes first: `//registry.example/:_authToken`.
            let name = word.trim_end_matches(':');
            let name = name.rsplit(['/', ':']).next().unwrap_or(name);
            field = SECRET_FIELDS.into_iter().find(|known| name.eq_ignore_ascii_case(known));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(&'static str, String)> {
        secret_fields(text)
    }

    #[test]
    fn fields_of_credentials_are_found_in_every_format() {
        for (text, expected) in [
            ("machine a.example login me password hunter2\n", ("password", "hunter2")),
            ("//registry.example/:_authToken=npm-word\n", ("_authtoken", "npm-word")),
            ("_auth = dXNlcjpwYXNz\n", ("_auth", "dXNlcjpwYXNz")),
            ("github.com:\n    oauth_token: word\n    user: me\n", ("oauth_token", "word")),
            ("users:\n- name: a\n  user:\n    token: word\n", ("token", "word")),
            ("    client-key-data: LS0tLS1=\n", ("client-key-data", "LS0tLS1")),
            ("{\"auths\":{\"r.example\":{\"auth\":\"dXNlcjpwYXNz\"}}}", ("auth", "dXNlcjpwYXNz")),
            ("{\n  \"identitytoken\" : \"word\"\n}", ("identitytoken", "word")),
        ] {
            assert_eq!(fields(text), [(expected.0, expected.1.to_owned())], "{text}");
        }
        for harmless in
            ["# password none\n", "tokenFile: /run/token\n", "auths: {}\n", "git_protocol: https\n"]
        {
            assert_eq!(fields(harmless), [], "{harmless}");
        }
    }

    #[test]
    fn encoded_words_are_replaced_and_others_stay() {
        let word = STANDARD.encode("user:secret");
        let replaced = STANDARD.encode("user:other");
        let replace = |plain: &str| plain.replace("secret", "other");
        for (text, expected) in [
            (format!("{{\"auth\": \"{word}\"}}"), format!("{{\"auth\": \"{replaced}\"}}")),
            (format!("_auth={word}\nkey=plain"), format!("_auth={replaced}\nkey=plain")),
            ("nothing here = dGVzdA==, é".to_owned(), "nothing here = dGVzdA==, é".to_owned()),
        ] {
            assert_eq!(in_encoded_words(&text, replace), expected);
        }
    }
}
