//! Hosts that imitate others: letters of other scripts, one letter different from a well-known name, a user name in front, a bare
//! or disguised address, a URL shortener.

use redact::{Severity, rule};

use unicode_security::skeleton;

use super::{Harm, harm};
use crate::script::Call;
use crate::target;
use scan::ssrf::{self, url};

const ADVICE: &str = "Use the full address with the host's real name.";

const KNOWN: &[&str] = &[
    "github.com",
    "raw.githubusercontent.com",
    "gitlab.com",
    "bitbucket.org",
    "pypi.org",
    "files.pythonhosted.org",
    "npmjs.com",
    "registry.npmjs.org",
    "crates.io",
    "static.crates.io",
    "rubygems.org",
    "docker.com",
    "docker.io",
    "google.com",
    "googleapis.com",
    "microsoft.com",
    "amazonaws.com",
    "anthropic.com",
    "openai.com",
    "cloudflare.com",
    "apple.com",
    "paypal.com",
    "golang.org",
    "rust-lang.org",
    "python.org",
    "nodejs.org",
    "ubuntu.com",
    "debian.org",
];
const SHORTENERS: &[&str] = &[
    "bit.ly",
    "tinyurl.com",
    "t.co",
    "goo.gl",
    "is.gd",
    "ow.ly",
    "buff.ly",
    "cutt.ly",
    "rb.gy",
    "shorturl.at",
    "t.ly",
    "tiny.cc",
];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    let fetches = call.is(super::FETCHERS)
        || call.is(&[
            "git", "pip", "pip3", "npm", "npx", "yarn", "pnpm", "cargo", "go", "ssh", "scp", "docker", "gem",
            "brew",
        ]);
    if !fetches {
        return None;
    }
    let written = call.words().filter(|word| word.contains("://")).map(str::to_owned);
    let made = target::targets(call);
    written.chain(made).filter_map(|word| of_address(&word)).max_by_key(|harm| harm.severity)
}

fn of_address(word: &str) -> Option<Harm> {
    let range = ssrf::addresses(word).into_iter().next()?;
    let address = &word[range];
    let url = url::parse(address)?;
    let host = url.host.as_str();
    if host.split('.').any(|label| label.starts_with("xn--")) || !host.is_ascii() {
        return harm(
            rule::command::LOOKALIKE_HOST,
            Severity::High,
            format!("`{host}` is written with letters of another script"),
            ADVICE,
        );
    }
    if url.is_disguised {
        return harm(
            rule::command::LOOKALIKE_HOST,
            Severity::High,
            format!("the host `{host}` is written so that it looks like another"),
            ADVICE,
        );
    }
    if let Some(known) = KNOWN.iter().find(|known| imitates(host, known)) {
        return harm(
            rule::command::LOOKALIKE_HOST,
            Severity::High,
            format!("`{host}` imitates `{known}`"),
            ADVICE,
        );
    }
    if SHORTENERS.contains(&host) {
        return harm(
            rule::command::SHORT_ADDRESS,
            Severity::Medium,
            format!("`{host}` is a link shortener, which hides the real address"),
            ADVICE,
        );
    }
    if let Some(problem) = ssrf::check(address)
        .filter(|problem| matches!(problem.rule, rule::ssrf::USER_IN_ADDRESS | rule::ssrf::DISGUISED_ADDRESS))
    {
        return harm(
            rule::command::LOOKALIKE_HOST,
            Severity::High.min(problem.severity.max(Severity::Medium)),
            problem.detail,
            ADVICE,
        );
    }
    let is_number = host
        .parse::<std::net::Ipv4Addr>()
        .is_ok_and(|address| !address.is_private() && !address.is_loopback() && !address.is_unspecified());
    is_number.then_some(()).and_then(|()| {
        harm(
            rule::command::BARE_ADDRESS,
            Severity::Medium,
            format!("`{host}` is a number, not a name"),
            ADVICE,
        )
    })
}

/// The same after `0` is read as `o`, `1` as `l` and `rn` as `m`; or one letter away; or with the known name in front.
fn imitates(host: &str, known: &str) -> bool {
    if host == known || host.ends_with(&format!(".{known}")) {
        return false;
    }
    let fold = |name: &str| -> String {
        skeleton(name).collect::<String>().replace("rn", "m").replace('0', "o").replace('1', "l")
    };
    let tail = |name: &str| name.rsplit('.').take(2).collect::<Vec<_>>().join(".");
    let is_other_known = KNOWN.contains(&host);
    let is_prefix = host.starts_with(&format!("{known}.")) || host.starts_with(&format!("{known}-"));
    let is_near = known.len() >= 8 && distance_is_one(host, known) && tail(host) != tail(known);
    !is_other_known && (fold(host) == fold(known) || is_prefix || is_near)
}

/// Whether one letter was added, left out or changed.
fn distance_is_one(a: &str, b: &str) -> bool {
    let (short, long) =
        if a.len() <= b.len() { (a.as_bytes(), b.as_bytes()) } else { (b.as_bytes(), a.as_bytes()) };
    if long.len() - short.len() > 1 {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    if short.len() == long.len() {
        short[same + 1..] == long[same + 1..]
    } else {
        short[same..] == long[same + 1..]
    }
}
