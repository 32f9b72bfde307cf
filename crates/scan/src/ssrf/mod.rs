//! Finds internal addresses: the machine itself, private networks and the metadata services of clouds, also in the unusual
//! notations that clients accept. It resolves no names. The proxy judges names again when a connection is made.

pub mod url;

use std::net::IpAddr;
use std::ops::Range;

use redact::{Category, Hit, RuleName, Severity, rule};

use policy::address::{Class, classify, parse_literal};

use crate::origin::Origin;
use crate::steps;
use url::ParsedUrl;

const MAX_URL: usize = 2048;
/// How much of an address inside another one is read. Without a limit, a text of many `://` would take quadratic time.
const MAX_INNER_URL: usize = 256;
/// How often an address inside another one is decoded.
const MAX_ENCODINGS: usize = 3;
const REFUSED_SCHEMES: &[&str] = &[
    "file", "ftp", "gopher", "data", "dict", "ldap", "ldaps", "tftp", "jar", "netdoc", "smb", "telnet",
    "phar",
];
const METADATA_NAMES: &[&str] = &[
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    "instance-data",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
];
/// Public services that resolve a name to the address in it: `10.0.0.1.nip.io`.
const WILDCARD_NAMES: &[&str] = &["nip.io", "sslip.io", "xip.io", "traefik.me", "1u.ms", "rbndr.us"];
/// Public names that resolve to the machine itself.
const LOOPBACK_NAMES: &[&str] = &[
    "localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "ip6-loopback",
    "localtest.me",
    "lvh.me",
    "vcap.me",
    "lacolhost.com",
    "fbi.com.localtest.me",
];
/// Names of the run itself: the sandbox's own resolver gives them addresses, and only to what the harness declares.
const OWN_ENDING: &str = ".fullsend.internal";
const INTERNAL_ENDINGS: &[&str] = &[
    ".internal",
    ".local",
    ".localhost",
    ".localdomain",
    ".lan",
    ".intranet",
    ".corp",
    ".home.arpa",
    ".svc",
    ".cluster.local",
];

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressProblem {
    pub rule: RuleName,
    pub severity: Severity,
    pub detail: String,
}

/// Whether an address leads to the machine itself, is written in the usual form, and contains no redirect.
pub fn is_plain_loopback(address: &str) -> bool {
    let Some(url) = url::parse(address) else { return false };
    let host = url.host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    is_loopback
        && url.scheme != "file"
        && !url.is_disguised
        && user(&url).is_none()
        && redirect(&url).is_none()
}

/// The host without what the shell or a template puts in (`${HOST}`, `$HOST`, `<host>`, `{host}`, `%s`, `%HOST%`). Their
/// values are unknown here; the proxy checks the real host. Only the fixed text is checked.
fn without_placeholders(host: &str) -> String {
    let mut left = String::new();
    let mut rest = host;
    while let Some(at) = rest.find(['$', '<', '{', '%']) {
        left.push_str(&rest[..at]);
        let found = &rest[at..];
        let name = |from: usize| {
            from + found[from..]
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                .count()
        };
        let closed = |with: char| found.find(with).map_or(0, |end| end + 1);
        let is_encoded =
            found.len() > 2 && found.bytes().skip(1).take(2).all(|byte| byte.is_ascii_hexdigit());
        let length = match found.as_bytes() {
            [b'$', b'{', ..] | [b'{', ..] => closed('}'),
            [b'<', ..] => closed('>'),
            [b'%', ..] if is_encoded => 0,
            [b'%', ..] if found[name(1)..].starts_with('%') => name(1) + 1,
            _ => name(1),
        };
        // Other text stays, except a single `$`, `<`, `{` or `%` at the end: the text was cut there.
        if length <= 1 && found.len() > 1 {
            left.push_str(&found[..1]);
        }
        rest = &found[length.max(1)..];
    }
    left + rest
}

/// The most severe problem of an address that an agent wants to fetch.
pub fn check(address: &str) -> Option<AddressProblem> {
    let (scheme_name, after) = address.split_once("://").unwrap_or(("", address));
    let host = &after[..after.find(['/', '?', '#']).unwrap_or(after.len())];
    let written = without_placeholders(host);
    if after.is_empty() {
        // The text was cut before a placeholder.
        return None;
    }
    if !scheme_name.is_empty() && written != host {
        let written = written.trim_start_matches(['.', '-', '_']);
        if written.is_empty() || written.starts_with(':') {
            let url = url::parse(address)?;
            return worst([scheme(&url), redirect(&url)]);
        }
        return check_written(&format!("{scheme_name}://{written}{}", &after[host.len()..]));
    }
    check_written(address)
}

fn worst<const N: usize>(problems: [Option<AddressProblem>; N]) -> Option<AddressProblem> {
    problems.into_iter().flatten().max_by_key(|problem| problem.severity)
}

fn check_written(address: &str) -> Option<AddressProblem> {
    let url = url::parse(address)?;
    worst([scheme(&url), target(&url), user(&url), redirect(&url)])
}

fn problem(rule: RuleName, severity: Severity, detail: String) -> Option<AddressProblem> {
    Some(AddressProblem { rule, severity, detail })
}

fn scheme(url: &ParsedUrl) -> Option<AddressProblem> {
    match url.scheme.as_str() {
        "http" | "https" if url.host.is_empty() => {
            problem(rule::ssrf::NO_HOST, Severity::High, "an address without a host".to_owned())
        }
        "http" | "https" => None,
        name if REFUSED_SCHEMES.contains(&name) => {
            problem(rule::ssrf::REFUSED_SCHEME, Severity::High, format!("the scheme `{name}` is not allowed"))
        }
        "ws" | "wss" | "ssh" | "git" | "mailto" => None,
        // Names of buckets, which clients of object stores make into public addresses.
        "s3" | "gs" | "gcs" | "az" | "abfs" | "abfss" | "r2" => None,
        name => {
            problem(rule::ssrf::UNKNOWN_SCHEME, Severity::Medium, format!("the scheme `{name}` is unknown"))
        }
    }
}

/// What kind of host it is.
fn target(url: &ParsedUrl) -> Option<AddressProblem> {
    if matches!(url.scheme.as_str(), "s3" | "gs" | "gcs" | "az" | "abfs" | "abfss" | "r2") {
        return None;
    }
    let host = url.host.as_str();
    if METADATA_NAMES.contains(&host) {
        return problem(
            rule::ssrf::METADATA_SERVICE,
            Severity::Critical,
            format!("`{host}` hands out the machine's credentials"),
        );
    }
    if let Some(address) = address_in(host) {
        return internal(host, address, url.is_disguised || is_odd_spelling(host, address));
    }
    let is_local =
        |name: &str| host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    if LOOPBACK_NAMES.iter().any(|name| is_local(name)) {
        return problem(
            rule::ssrf::INTERNAL_ADDRESS,
            Severity::High,
            format!("`{host}` is the machine itself"),
        );
    }
    // A name without a dot is completed with the search domain of the machine.
    let is_bare = !host.is_empty() && !host.contains(['.', ':']);
    let is_internal =
        !host.ends_with(OWN_ENDING) && INTERNAL_ENDINGS.iter().any(|ending| host.ends_with(ending));
    if is_bare || is_internal {
        return problem(
            rule::ssrf::INTERNAL_NAME,
            Severity::High,
            format!("`{host}` is a name of an internal network"),
        );
    }
    None
}

/// The IP address of a host, or the one inside a name such as `10.0.0.1.nip.io`.
fn address_in(host: &str) -> Option<IpAddr> {
    if let Ok(found @ Some(_)) = parse_literal(host) {
        return found;
    }
    let wildcard = WILDCARD_NAMES.iter().find(|name| host.ends_with(**name))?;
    let prefix = host.strip_suffix(wildcard)?.trim_end_matches('.');
    let dotted =
        prefix.rsplit('.').take(4).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(".");
    let dashed = prefix.rsplit('.').next().unwrap_or_default().rsplit('-').take(4).collect::<Vec<_>>();
    let dashed = dashed.into_iter().rev().collect::<Vec<_>>().join(".");
    dotted.parse().or_else(|_| dashed.parse()).ok()
}

fn internal(host: &str, address: IpAddr, is_odd: bool) -> Option<AddressProblem> {
    let class = classify(address);
    let detail = format!("`{host}` is {address} ({class})");
    match class {
        Class::Public | Class::Documentation if is_odd => {
            problem(rule::ssrf::DISGUISED_ADDRESS, Severity::Medium, detail)
        }
        Class::Public | Class::Documentation => None,
        Class::Metadata => problem(rule::ssrf::METADATA_SERVICE, Severity::Critical, detail),
        _ if is_odd => problem(rule::ssrf::DISGUISED_ADDRESS, Severity::Critical, detail),
        _ => problem(rule::ssrf::INTERNAL_ADDRESS, Severity::High, detail),
    }
}

/// `2130706433`, `0x7f.1`, `0177.0.0.1`, `[::ffff:10.0.0.1]`: notations that hide an address.
fn is_odd_spelling(host: &str, address: IpAddr) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    match address {
        IpAddr::V4(v4) => plain != v4.to_string() && !WILDCARD_NAMES.iter().any(|name| host.ends_with(name)),
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
    }
}

/// `https://github.com@evil.example/`: the text before the `@` is not the host.
fn user(url: &ParsedUrl) -> Option<AddressProblem> {
    let is_web = matches!(url.scheme.as_str(), "http" | "https");
    (is_web && url.has_user).then_some(()).and_then(|()| {
        problem(
            rule::ssrf::USER_IN_ADDRESS,
            Severity::Medium,
            format!("the part before the @ is a user; the host is `{}`", url.host),
        )
    })
}

/// A redirector sends the client to an address inside the address. It may be encoded several times.
fn redirect(url: &ParsedUrl) -> Option<AddressProblem> {
    let mut rest = url.rest.clone();
    for _ in 0..=MAX_ENCODINGS {
        steps::count(rest.len());
        if let Some(found) = inner(&rest) {
            let detail = format!("contains an internal address: {}", found.detail);
            return problem(rule::ssrf::REDIRECT_INSIDE, Severity::High, detail);
        }
        if !rest.contains('%') {
            return None;
        }
        rest = url::decode_percent(&rest);
    }
    None
}

/// What is wrong with an address that is written out in a path or a query.
fn inner(rest: &str) -> Option<AddressProblem> {
    let lower = rest.to_ascii_lowercase();
    let absolute = memchr::memmem::find_iter(lower.as_bytes(), "http").filter_map(|at| {
        let after = lower[at..].strip_prefix("http")?;
        let slashes = after.strip_prefix('s').unwrap_or(after).strip_prefix(':')?;
        slashes.starts_with(['/', '\\']).then(|| target_at(rest, at, ""))?
    });
    // `//host` keeps the scheme. A path may start the same way, so a name without a dot is not a host here.
    let query = rest.find('?').unwrap_or(rest.len());
    let values = memchr::memchr_iter(b'=', &rest.as_bytes()[query..]).map(|at| query + at + 1);
    let relative = values.filter_map(|at| {
        let is_place = ["//", "\\\\", "/\\", "\\/"].iter().any(|slashes| rest[at..].starts_with(slashes));
        let found = is_place.then(|| target_at(rest, at, "http:"))??;
        (found.rule != rule::ssrf::INTERNAL_NAME).then_some(found)
    });
    absolute.chain(relative).find(|found| found.severity >= Severity::High)
}

/// The problem of the address that starts at `at`.
fn target_at(rest: &str, at: usize, scheme: &str) -> Option<AddressProblem> {
    let to = rest.floor_char_boundary((at + MAX_INNER_URL).min(rest.len()));
    let end = rest[at..to].find(['&', ';', '"', '\'', ' ']).map_or(to, |end| at + end);
    steps::count(end - at);
    target(&url::parse(&format!("{scheme}{}", &rest[at..end]))?)
}

/// Every `scheme://…` of a text. Trailing punctuation belongs to the sentence.
pub fn addresses(text: &str) -> Vec<Range<usize>> {
    let mut addresses = Addresses::default();
    memchr::memmem::find_iter(text.as_bytes(), b"://").filter_map(|at| addresses.around(text, at)).collect()
}

/// The addresses of one text, in order.
#[derive(Default)]
pub(crate) struct Addresses {
    /// The end of the last address that is not inside another.
    outer_end: usize,
}

impl Addresses {
    /// The address around the `://` at `at`.
    fn around(&mut self, text: &str, at: usize) -> Option<Range<usize>> {
        if at < self.outer_end {
            return address_around(text, at, MAX_INNER_URL);
        }
        let range = address_around(text, at, MAX_URL)?;
        self.outer_end = range.end;
        Some(range)
    }
}

fn address_around(text: &str, at: usize, limit: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_scheme = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let start = at - bytes[at.saturating_sub(16)..at].iter().rev().take_while(is_scheme).count();
    if start == at {
        return None;
    }
    let rest = &text[at..text.floor_char_boundary((at + limit).min(text.len()))];
    let ends = |letter: char| {
        letter.is_whitespace()
            || letter.is_control()
            || matches!(letter, '"' | '\'' | '`' | '<' | '>' | '|' | ';' | '{' | '}' | '“' | '”')
    };
    let end = at + rest.find(ends).unwrap_or(rest.len());
    steps::count(end - start);
    let trimmed = text[start..end].trim_end_matches(['.', ',', ')', ']', '!', '?', ':', '*', '_']);
    Some(start..start + trimmed.len())
}

/// Addresses in a text. Plain internal ones are common in documentation and are not reported; metadata services and disguised
/// addresses are.
pub(crate) fn scan(addresses: &mut Addresses, text: &str, at: usize, origin: Origin) -> Option<Hit> {
    let range = addresses.around(text, at)?;
    let found = check(&text[range.clone()])?;
    let severity = match found.rule {
        rule::ssrf::METADATA_SERVICE => Severity::Medium,
        rule::ssrf::DISGUISED_ADDRESS if found.severity == Severity::Critical && origin.is_foreign() => {
            Severity::High
        }
        rule::ssrf::DISGUISED_ADDRESS => Severity::Medium,
        _ => return None,
    };
    Some(hit(AddressProblem { severity, ..found }, range))
}

pub fn hit(problem: AddressProblem, range: Range<usize>) -> Hit {
    let AddressProblem { rule, severity, detail } = problem;
    let advice = "Use a public address. Only the operator can allow an internal one (`ssrf_pretool`).";
    let category = Category::SsrfValidator;
    Hit { rule, category, severity, score: None, range, passage: None, detail: Some(detail), advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(address: &str, rule: &str) {
        let found = check(address);
        assert_eq!(found.as_ref().map(|found| found.rule.name()), Some(rule), "{address}: {found:?}");
        assert!(found.unwrap().severity >= Severity::High, "{address}");
    }

    #[test]
    fn text_beside_a_placeholder_is_scanned() {
        for address in [
            "https://${HOST}/a",
            "https://$HOST:8443/",
            "https://${A}.example.com/",
            "http://%s/",
            "http://<host>/",
        ] {
            assert!(check(address).is_none(), "{address}");
        }
        for address in [
            "http://${X}169.254.169.254/",
            "http://$x@169.254.169.254/",
            "http://127.0.0.1${X}/",
            "file://${X}/etc/passwd",
        ] {
            assert!(check(address).is_some_and(|problem| problem.severity >= Severity::High), "{address}");
        }
    }

    #[test]
    fn every_notation_of_an_internal_address_is_found() {
        for address in [
            "http://127.0.0.1/",
            "http://10.1.2.3:8080",
            "http://[::1]/",
            "http://192.168.0.1",
            "http://[fe80::1]/",
            "http://localhost:3000/",
            "http://foo.localhost/",
            "http://10.0.0.1.nip.io/",
            "http://app-192-168-1-5.sslip.io/",
            "http://localtest.me",
        ] {
            refuses(address, "internal-address");
        }
        for address in [
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://①②⑦.⓪.⓪.①/",
            "http://%31%30.0.0.1/",
        ] {
            refuses(address, "disguised-address");
        }
        for address in [
            "http://169.254.169.254/latest/meta-data/",
            "http://metadata.google.internal/",
            "http://METADATA.GOOGLE.INTERNAL./",
            "http://100.100.100.200",
            "http://[fd00:ec2::254]/",
        ] {
            refuses(address, "metadata-service");
        }
        refuses("http://db.prod.internal/", "internal-name");
        refuses("http://evilfullsend.internal/", "internal-name");
        refuses("file:///etc/passwd", "refused-scheme");
        refuses("gopher://example.com:70/_x", "refused-scheme");
        refuses("http://?path", "no-host");
        refuses("http://intranet/path", "internal-name");
        for address in [
            "https://example.com/login?next=http%3A%2F%2F169.254.169.254%2F",
            "https://r.example/http://10.0.0.1/x",
            "https://r.example/HTTPS:/localhost:3000",
            "https://r.example/?u=http%253A%252F%252F10.0.0.1",
            "https://r.example/a?b=c&u=//10.0.0.1/x",
            "https://r.example/?u=%2F%2F169.254.169.254",
            "https://r.example/?u=%5c%5clocalhost",
            "https://r.example/#!u=1&http://127.0.0.1",
        ] {
            refuses(address, "redirect-inside");
        }
    }

    #[test]
    fn public_addresses_pass() {
        for address in [
            "https://example.com/",
            "https://8.8.8.8/",
            "https://api.github.com/repos/a/b?q=http",
            "wss://example.com/",
            "http://tracker.api.fullsend.internal:8080/issues",
            "https://example.com/?u=https://other.example/",
            "https://r.example/https://other.example/http:basics",
            "https://example.com/?path=//share/file&q=a//10.0.0.1",
            "https://example.com/?u=//other.example/x",
            "https://example.com/?ip=10.0.0.1",
            "https://example.com/a%20b%25",
        ] {
            assert_eq!(check(address), None, "{address}");
        }
        assert_eq!(check("https://github.com@evil.example/").unwrap().rule.name(), "user-in-address");
        assert_eq!(check("http://134744072/").unwrap().rule.name(), "disguised-address");
    }

    #[test]
    fn addresses_are_cut_out_of_sentences() {
        let text = "see (https://a.example/x), curl 'http://b/y?z=1' and <ftp://c>.";
        let found: Vec<&str> = addresses(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["https://a.example/x", "http://b/y?z=1", "ftp://c"]);
    }
}
