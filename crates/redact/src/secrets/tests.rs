//! Cases for the secret rules as a whole; each module tests its own decisions.

use super::*;

/// Builds tokens at run time, so that secret scanners do not report this file.
fn token(parts: &[&str]) -> String {
    parts.concat()
}

#[track_caller]
fn check(text: &str, expected: Option<(&str, &str)>) {
    let found = find_secret(text).map(|secret| (secret.format, text[secret.range].to_owned()));
    let expected = expected.map(|(format, value)| (format, value.to_owned()));
    assert_eq!(found, expected, "{text}");
}

#[test]
fn vendor_tokens_are_found_where_they_stand() {
    let github = token(&["ghp_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ", "0mLq17"]);
    for text in
        [github.clone(), format!("x = \"{github}\""), format!(r"a\n{github}\n"), format!("token={github},")]
    {
        check(&text, Some(("github-personal-access-token", &github)));
        assert_eq!(find_secret(&text).unwrap().confidence, Confidence::Verified);
    }
    check(&format!("x{github}"), None);
    check(&format!("{github}x"), None);
    let azure = token(&["a8Z", "8Q~", "x7TqLm2Vb9KdRw4Ys6NcJf1Hg3PzQu5Ea"]);
    check(&format!("secret is {azure}"), Some(("azure-client-secret", &azure)));
    let telegram = token(&["712345698", ":AA", "Hk3jd9Qw8Zx7Lm5Np2Vb4Rt6Ys1Df0Gh_"]);
    check(&telegram, Some(("telegram-bot-token", &telegram)));
}

#[test]
fn examples_are_left_alone() {
    check("AKIAIOSFODNN7EXAMPLE", None);
    check("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", None);
    check("sk-ant-api03-your-key-here-your-key-here-your-key-here", None);
    check("API_KEY=<your key>", None);
    check("password: ${DB_PASSWORD}", None);
    check("postgres://postgres:postgres@localhost/db", None);
    check("Authorization: Bearer $TOKEN", None);
}

#[test]
fn assignments_need_the_name_of_a_secret() {
    check("DB_PASSWORD=hunter2-rainbow\n", Some(("password-assignment", "hunter2-rainbow")));
    check(r#"{"password": "p4ss,w0rd!x"}"#, Some(("password-assignment", "p4ss,w0rd!x")));
    check(
        r#"{\"api_key\": \"a8f5f167f44f4964e6c998de\"}"#,
        Some(("secret-assignment", "a8f5f167f44f4964e6c998de")),
    );
    check("clientSecret: 'Zk3-99_plm-QX7'", Some(("secret-assignment", "Zk3-99_plm-QX7")));
    check("password: str = \"Tr0ub4dor&3\"", Some(("password-assignment", "Tr0ub4dor&3")));
    check("tool --api-key a8f5f167f44f4964e6c998de", Some(("secret-assignment", "a8f5f167f44f4964e6c998de")));
    for harmless in [
        r#""author": "Jane Doe 1234567890""#,
        r#""issue_key": "PROJ-48213-abc9""#,
        "monkey = \"banana-Split42\"",
        "token = lexer.next_token()",
        "password = get_password(user)",
        "max_tokens: 128000",
        "token_count = 1234567",
        "password: required",
        "secret: my-secret-name",
        "PASSWORD_FILE=/run/secrets/db1",
    ] {
        check(harmless, None);
    }
}

#[test]
fn assignments_of_many_languages() {
    let password = Some(("password-assignment", "hunter2-rainbow"));
    for text in [
        "DB_PASSWORD ?= hunter2-rainbow\n",
        "props.setProperty(\"db.password\", \"hunter2-rainbow\");",
        "config.put('password', 'hunter2-rainbow')",
        "os.Setenv(\"DB_PASSWORD\", \"hunter2-rainbow\")",
        "<password>hunter2-rainbow</password>",
        "<spring.db.password>hunter2-rainbow</spring.db.password>",
        "var dbPassword string = \"hunter2-rainbow\"",
        "const Password string = \"hunter2-rainbow\"",
        "curl -s -u admin:hunter2-rainbow https://internal.example/api",
        "curl --user 'admin:hunter2-rainbow' https://internal.example/api",
        "curl -uadmin:hunter2-rainbow https://internal.example/api",
    ] {
        check(text, password);
    }
    for harmless in [
        "DB_PASSWORD ?= changeme",
        "form.label(\"password\", \"at-least-8-characters\")",
        "props.setProperty(\"db.password\", System.getenv(\"DB_PASSWORD\"));",
        "<password>${db.password}</password>",
        "<password>********</password>",
        "if x<password>12345678</b>",
        "var dbPassword string",
        "the password is = \"required\"",
        "curl -u \"$USER:$PASSWORD\" https://example.com",
        "curl -u user:password https://example.com",
        "curl -s https://example.com/a:b",
        "curl --unix-socket /run/x:1a2b3c4d5e http://x",
    ] {
        check(harmless, None);
    }
}

/// A name inside a value has no unquoted value of its own; a quoted value after it is still checked.
#[test]
fn names_inside_values() {
    let masked = |text: &str| -> String {
        find_secrets(text).iter().map(|secret| &text[secret.range.clone()]).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(masked("DB_PASSWORD=ab1&token=a8f5f167f44f4964"), "ab1&token=a8f5f167f44f4964");
    assert_eq!(masked("DB_PASSWORD=token:\"a8f5f167f44f4964e6c998de\""), "token: a8f5f167f44f4964e6c998de");
    assert_eq!(
        masked("DB_PASSWORD=one-of-12 API_TOKEN=a8f5f167f44f4964e6c998de"),
        "one-of-12 a8f5f167f44f4964e6c998de"
    );
}

#[test]
fn headers_addresses_and_keys() {
    check(
        "Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==",
        Some(("authorization-header", "dXNlcjpwYXNzd29yZDEyMw==")),
    );
    check("bearer tokens are explained below", None);
    check("postgresql+asyncpg://app:S3cr3t!@db:5432/x", Some(("database-url-password", "S3cr3t!")));
    check("see http://localhost:8080/@scope/name", None);
    let body = "MIIEpAIBAAKCAQEA7bq0Zk3p9XvLm2Rt8Ys5Wd1Fg6Hj4Kl0Qe7Uo3Ia9Pz";
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----");
    check(&format!("k:\n{key}\nrest"), Some(("private-key", &key)));
    check("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", None);
    let web = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiIsIm4iOiJxIn0.Zm9vYmFyMTIzcXV4cXV1eDk4";
    check(&format!("jwt {web}"), Some(("json-web-token", web)));
}

#[test]
fn a_field_gives_its_value_a_meaning() {
    assert_eq!(find_secret_in_field("dbPassword", "Tr0ub4dor&3").unwrap().format, "password-assignment");
    assert_eq!(find_secret_in_field("title", "Tr0ub4dor&3"), None);
    assert_eq!(find_secret_in_field("password", "${DB_PASSWORD}"), None);
}

#[test]
fn overlapping_matches_become_one() {
    let github = token(&["ghp_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ", "0mLq17"]);
    let found = find_secrets(&format!("GITHUB_TOKEN={github}"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].format, "github-personal-access-token");
}
