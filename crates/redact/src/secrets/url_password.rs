//! Passwords inside addresses: `postgres://app:password@host/db`. Only the password is the secret; the rest stays
//! readable.

use std::ops::Range;

use super::{Confidence, SecretMatch, randomness};
use crate::rule;
use crate::steps;

const MAX_AUTHORITY: usize = 512;
const MIN_PASSWORD: usize = 3;
const DATABASES: &[&str] = &[
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "mongodb+srv",
    "redis",
    "rediss",
    "amqp",
    "amqps",
    "mssql",
    "sqlserver",
    "clickhouse",
    "cockroachdb",
    "cassandra",
    "oracle",
    "couchdb",
    "neo4j",
    "nats",
    "influxdb",
    "ldap",
    "ldaps",
    "snowflake",
    "redshift",
    "cloudinary",
];

/// `hit` is the `://`.
pub(super) fn find(text: &str, hit: Range<usize>) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let is_scheme_byte = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    let before = bytes[hit.start.saturating_sub(24)..hit.start].iter().rev();
    let scheme = &text[hit.start - before.take_while(is_scheme_byte).count()..hit.start];
    let window = &bytes[hit.end..bytes.len().min(hit.end + MAX_AUTHORITY)];
    let authority = window.iter().take_while(|byte| !ends_authority(**byte)).count();
    steps::count(authority);
    let at_sign = window[..authority].iter().rposition(|byte| *byte == b'@')?;
    let colon = window[..at_sign].iter().position(|byte| *byte == b':')?;
    let range = hit.end + colon + 1..hit.end + at_sign;
    if scheme.is_empty() || !text.is_char_boundary(range.start) || !text.is_char_boundary(range.end) {
        return None;
    }
    let is_database =
        DATABASES.iter().any(|name| scheme.eq_ignore_ascii_case(name) || begins_with(scheme, name));
    let password = &text[range.clone()];
    if !is_secret(password, is_database) {
        return None;
    }
    let format = if is_database {
        rule::secret::DATABASE_URL_PASSWORD.name()
    } else {
        rule::secret::URL_PASSWORD.name()
    };
    Some(SecretMatch { format, confidence: Confidence::Structural, range })
}

/// `postgresql+asyncpg`, `mysql+pymysql`.
fn begins_with(scheme: &str, database: &str) -> bool {
    scheme.strip_prefix(database).is_some_and(|rest| rest.starts_with('+'))
}

fn ends_authority(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\')
}

fn is_secret(password: &str, is_database: bool) -> bool {
    let words = ["pass", "pw", "pwd", "password", "your_password", "db_password", "x-oauth-basic", "mypass"];
    let lower = password.to_ascii_lowercase();
    let is_reference = password.starts_with(['$', '{', '[', '%', '(']) || password.contains("[REDACTED");
    let is_long_enough = password.len() >= if is_database { MIN_PASSWORD } else { 6 };
    is_long_enough
        && !is_reference
        && !words.contains(&lower.as_str())
        && !randomness::is_common_value(password)
        && (is_database || randomness::is_mixed(password) || password.len() >= 16)
}
