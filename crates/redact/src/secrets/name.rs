//! Decides whether an identifier names a secret: `DB_PASSWORD`, `apiKey` and `client-secret` do; `author`,
//! `issue_key`, `monkey`, `token_count` and `password_file` do not. Looks at whole words, never at substrings.

/// Parts that make an identifier worth splitting into words.
pub(super) const LITERALS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "privatekey",
    "private_key",
    "private-key",
    "credential",
    "signing_key",
    "signingkey",
    "encryption_key",
    "encryptionkey",
    "master_key",
    "masterkey",
    "account_key",
    "accountkey",
    "auth_key",
    "authkey",
    "storage_key",
    "shared_key",
    "license_key",
    "deploy_key",
    "consumer_key",
    "key_base",
    "client-key-data",
    "_auth",
    "db_pass",
    "smtp_pass",
    "mysql_pass",
    "user_pass",
    "sshpass",
];

/// A name that ends in one of these holds a secret.
const HEADS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "credentials",
    "authtoken",
    "accesstoken",
    "secretkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "authkey",
    "accountkey",
    "pgpassword",
    "sshpass",
    "dbpassword",
    "userpassword",
];

/// `key` is a secret only after one of these.
const KEY_KINDS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "master",
    "auth",
    "account",
    "storage",
    "shared",
    "deploy",
    "consumer",
    "license",
    "app",
    "service",
    "role",
    "admin",
    "session",
];

/// Words that may follow the head without changing what it holds.
const TAILS: &[&str] = &[
    "value",
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "test",
    "live",
    "base64",
    "b64",
    "old",
    "new",
    "plain",
    "plaintext",
    "raw",
    "current",
    "previous",
    "primary",
    "secondary",
    "main",
    "default",
];

/// Words before `token` that make it a part of a text or a cursor.
const HARMLESS_BEFORE_TOKEN: &[&str] = &[
    "next",
    "page",
    "continuation",
    "cancellation",
    "cancel",
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "cls",
    "mask",
    "design",
    "stop",
    "start",
    "end",
    "sync",
    "resume",
    "lexer",
    "parser",
    "special",
    "per",
    "max",
    "min",
    "color",
    "current",
    "last",
    "first",
    "prev",
    "previous",
    "cursor",
    "css",
    "theme",
    "semantic",
    "spacing",
];

/// How much a name says about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameHint {
    /// `password` and similar names: the value is a secret, however simple it is.
    Password,
    /// `token`, `secret`, `api_key`: the value should look generated.
    Generated,
}

pub(super) fn naming(identifier: &str) -> Option<NameHint> {
    let words = words(identifier);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    while let Some(last) = words.last() {
        if !(TAILS.contains(last) || last.bytes().all(|byte| byte.is_ascii_digit())) {
            break;
        }
        words.pop();
    }
    let (head, before) = words.split_last()?;
    let previous = before.last().copied();
    match *head {
        "password" | "passwd" | "passphrase" | "passcode" | "pwd" | "sshpass" | "pgpassword"
        | "dbpassword" | "userpassword" => (previous != Some("no")).then_some(NameHint::Password),
        "pass" => {
            matches!(previous?, "db" | "smtp" | "mysql" | "user" | "postgres" | "redis" | "ftp" | "mail")
                .then_some(NameHint::Password)
        }
        "key" => KEY_KINDS.contains(&previous?).then_some(NameHint::Generated),
        "token" if previous.is_some_and(|word| HARMLESS_BEFORE_TOKEN.contains(&word)) => None,
        "base" => (previous == Some("key")).then_some(NameHint::Generated),
        "data" => {
            (previous == Some("key") && before.first() == Some(&"client")).then_some(NameHint::Generated)
        }
        "auth" => identifier.ends_with("_auth").then_some(NameHint::Generated),
        word => HEADS.contains(&word).then_some(NameHint::Generated),
    }
}

/// `dbPassword2`, `DB_PASSWORD` and `db-password` alike become lower-case words.
fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut previous = ' ';
    for letter in identifier.chars() {
        let splits_case = letter.is_ascii_uppercase() && previous.is_ascii_lowercase();
        let splits_digit =
            letter.is_ascii_digit() && previous.is_ascii_alphabetic() && !current.starts_with('b');
        if (splits_case || splits_digit || !letter.is_ascii_alphanumeric()) && !current.is_empty() {
            words.push(std::mem::take(&mut current));
        }
        if letter.is_ascii_alphanumeric() {
            current.push(letter.to_ascii_lowercase());
        }
        previous = letter;
    }
    words.extend((!current.is_empty()).then_some(current));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], expected: Option<NameHint>) {
        for name in names {
            assert_eq!(naming(name), expected, "{name}");
        }
    }

    #[test]
    fn names_of_secrets() {
        check(
            &["DB_PASSWORD", "password", "dbPassword", "smtp_pass", "PASSWORD2", "admin-password"],
            Some(NameHint::Password),
        );
        check(
            &["api_key", "apiKey", "X-Api-Key", "clientSecret", "AWS_SECRET_ACCESS_KEY", "token"],
            Some(NameHint::Generated),
        );
        check(
            &["secret_key_base", "GITHUB_TOKEN", "STRIPE_SECRET_KEY_LIVE", "client-key-data", "_auth"],
            Some(NameHint::Generated),
        );
    }

    #[test]
    fn names_that_only_sound_like_it() {
        check(
            &["author", "issue_key", "monkey", "keyboard", "keywords", "authorization_tier", "public_key"],
            None,
        );
        check(
            &["token_count", "max_tokens", "next_token", "password_file", "secret_name", "tokenizer"],
            None,
        );
        check(
            &["primary_key", "key", "secretary", "cache_key", "token_url", "passwordless", "api_key_id"],
            None,
        );
    }
}
