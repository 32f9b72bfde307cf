//! The address that a call connects to, if it is written without a scheme: `curl 10.0.0.5:8500/v1`, `git clone host:path`. Knows
//! which words of which programs are addresses; judges none.

use super::script::{Call, Word};

/// What the operands of a program are.
#[derive(Clone, Copy)]
enum Operands {
    /// Each an address.
    Addresses,
    /// An address or a file; a word without a dot is a file.
    AddressesOrFiles,
    /// An address, perhaps after a method, and then what is sent.
    Request,
    /// A host, and then a port or a command.
    Host,
    /// `host:path`, or a path or a name.
    Copies,
}

struct Client {
    names: &'static [&'static str],
    operands: Operands,
    /// Letters of the options that take a value.
    short: &'static str,
    /// Whole options that take a value, without their dashes.
    long: &'static str,
    /// The options whose value is an address.
    addresses: &'static [&'static str],
}

/// aria2c is not here: it refuses an address without a scheme.
const CLIENTS: &[Client] = &[
    Client {
        names: &["curl"],
        operands: Operands::Addresses,
        short: "AbcCdDeEFHKmoPQrtTuUwxXyYz",
        long: "abstract-unix-socket alt-svc aws-sigv4 cacert capath cert cert-type ciphers config connect-timeout \
            connect-to continue-at cookie cookie-jar create-file-mode crlfile curves data data-ascii data-binary \
            data-raw data-urlencode delegation dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url \
            dump-header egd-file engine etag-compare etag-save expect100-timeout form form-string ftp-account \
            ftp-alternative-to-user ftp-method ftp-port ftp-ssl-ccc-mode happy-eyeballs-timeout-ms \
            haproxy-clientip header hostpubmd5 hostpubsha256 hsts interface ip-tos ipfs-gateway json keepalive-cnt \
            keepalive-time key key-type krb libcurl limit-rate local-port login-options mail-auth mail-from \
            mail-rcpt max-filesize max-redirs max-time netrc-file noproxy oauth2-bearer output output-dir \
            parallel-max pass pinnedpubkey preproxy proto proto-default proto-redir proxy proxy-cacert \
            proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile proxy-header proxy-key \
            proxy-key-type proxy-pass proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers \
            proxy-tlsauthtype proxy-tlspassword proxy-tlsuser proxy-user proxy1.0 pubkey quote random-file range \
            rate referer request request-target resolve retry retry-delay retry-max-time sasl-authzid \
            service-name socks4 socks4a socks5 socks5-gssapi-service socks5-hostname speed-limit speed-time \
            stderr telnet-option tftp-blksize time-cond tls-max tls13-ciphers tlsauthtype tlspassword tlsuser \
            trace trace-ascii trace-config unix-socket upload-file url url-query user user-agent variable \
            vlan-priority write-out",
        addresses: &[
            "url",
            "x",
            "proxy",
            "preproxy",
            "proxy1.0",
            "socks4",
            "socks4a",
            "socks5",
            "socks5-hostname",
        ],
    },
    Client {
        names: &["wget", "wget2"],
        operands: Operands::Addresses,
        short: "aABDeiIloOPQRtTUwX",
        long: "accept accept-regex append-output base bind-address body-data body-file ca-certificate \
            ca-directory certificate certificate-type compression config connect-timeout crl-file cut-dirs \
            default-page directory-prefix dns-servers dns-timeout domains exclude-directories exclude-domains \
            execute follow-tags ftp-password ftp-user header hsts-file http-password http-user ignore-tags \
            include-directories input-file level limit-rate load-cookies local-encoding max-redirect method \
            output-document output-file password post-data post-file prefer-family private-key \
            private-key-type progress proxy-password proxy-user quota read-timeout referer regex-type reject \
            reject-regex rejected-log remote-encoding report-speed restrict-file-names retry-on-http-error \
            save-cookies secure-protocol start-pos timeout tries user user-agent wait waitretry warc-file",
        addresses: &[],
    },
    Client {
        names: &["http", "https", "xh", "xhs"],
        operands: Operands::Request,
        short: "aAopPs",
        long: "auth auth-type bearer boundary cert cert-key ciphers default-scheme download-file \
            format-options history-print http-version interface max-headers max-redirects output path-as-is \
            pretty print proxy raw resolve response-charset response-mime session session-read-only ssl style \
            timeout unix-socket verify",
        addresses: &[],
    },
    Client { names: &["fetch"], operands: Operands::Addresses, short: "BiNohTSsw", long: "", addresses: &[] },
    Client {
        names: &["lynx", "w3m", "links", "elinks"],
        operands: Operands::AddressesOrFiles,
        short: "",
        long: "B I O T bookmark cfg cols config cookie-jar l lss o ppc t width",
        addresses: &[],
    },
    Client {
        names: &["nc", "ncat", "netcat"],
        operands: Operands::Host,
        short: "cegGiIKmMoOpPqsTVwWxX",
        long: "allow allowfile deny denyfile delay exec hex-dump idle-timeout lua-exec max-conns output proxy \
            proxy-auth proxy-type sh-exec source source-port ssl-cert ssl-key ssl-trustfile wait",
        addresses: &["x", "proxy"],
    },
    Client {
        names: &["ssh", "telnet", "ftp", "tftp"],
        operands: Operands::Host,
        short: "bcDEeFIiJLlmOopPQRSWwX",
        long: "",
        addresses: &["J"],
    },
    Client {
        names: &["scp", "sftp", "rsync", "git"],
        operands: Operands::Copies,
        short: "",
        long: "",
        addresses: &[],
    },
];

/// The schemes that need no slashes: `curl http:10.0.0.1`. Any other text before a colon is a host.
const SCHEMES: &[&str] = &[
    "http", "https", "ws", "wss", "ftp", "ftps", "file", "gopher", "dict", "ldap", "ldaps", "tftp", "telnet",
];

/// Every address in a call, as an absolute URL.
pub(super) fn targets(call: &Call) -> Vec<String> {
    let Some(client) = CLIENTS.iter().find(|client| call.is(client.names)) else { return Vec::new() };
    let (operands, mut targets) = read_options(client, call);
    match client.operands {
        Operands::Addresses => targets.extend(operands.iter().filter_map(|word| absolute(&word.text))),
        Operands::AddressesOrFiles => {
            let is_place = |word: &&&Word| word.text.contains(['.', ':']) || word.text == "localhost";
            targets.extend(operands.iter().filter(is_place).filter_map(|word| absolute(&word.text)));
        }
        Operands::Request => targets.extend(request(&operands).and_then(absolute)),
        Operands::Host if listens(call) => {}
        Operands::Host => targets.extend(operands.first().and_then(|word| host(&word.text))),
        Operands::Copies => targets.extend(copied(call, &operands).filter_map(remote)),
    }
    targets
}

/// The operands, and the addresses among the values of options.
fn read_options<'c>(client: &Client, call: &'c Call) -> (Vec<&'c Word>, Vec<String>) {
    let mut operands = Vec::new();
    let mut targets = Vec::new();
    let mut words = call.arguments.iter();
    let mut are_options_over = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if are_options_over || !text.starts_with('-') {
            operands.push(word);
        } else if text == "--" {
            are_options_over = true;
        } else if let Some((name, value)) = option_with_value(client, text) {
            let value = value.or_else(|| words.next().map(|word| word.text.as_str())).unwrap_or_default();
            if client.addresses.contains(&name) {
                targets.extend(absolute(value));
            }
            targets.extend(replaced_host(client, name, value).and_then(absolute));
        }
    }
    (operands, targets)
}

/// The name of an option that takes a value, and the value if it stands in the same word.
fn option_with_value<'c>(client: &Client, text: &'c str) -> Option<(&'c str, Option<&'c str>)> {
    let name = text.trim_start_matches('-');
    if let Some((name, value)) = name.split_once('=').filter(|_| text.starts_with("--")) {
        return Some((name, Some(value)));
    }
    if client.long.split(' ').any(|long| long == name) {
        return Some((name, None));
    }
    if text.starts_with("--") {
        return None;
    }
    // In `-sSLo file` and `-ofile`, the letters end with the first one that takes a value.
    let (at, letter) = name.char_indices().find(|(_, letter)| client.short.contains(*letter))?;
    let end = at + letter.len_utf8();
    Some((&name[at..end], Some(&name[end..]).filter(|rest| !rest.is_empty())))
}

/// `--resolve name:port:ADDRESS` and `--connect-to name:port:HOST:port` let a public name lead elsewhere.
fn replaced_host<'v>(client: &Client, option: &str, value: &'v str) -> Option<&'v str> {
    let is_replaced = client.names.contains(&"curl") && matches!(option, "resolve" | "connect-to");
    let place = is_replaced.then(|| value.splitn(3, ':').nth(2))??;
    let first = place.split(',').next().unwrap_or(place);
    Some(first.trim_end_matches(':')).filter(|host| !host.is_empty())
}

/// The address of `http POST host/path name=value`.
fn request<'c>(operands: &[&'c Word]) -> Option<&'c str> {
    let is_method = |word: &&&Word| word.text.bytes().all(|byte| byte.is_ascii_uppercase());
    let skipped = usize::from(operands.len() > 1 && operands.first().is_some_and(|word| is_method(&word)));
    operands.get(skipped).map(|word| word.text.as_str())
}

/// Whether the program listens, and so connects to nothing.
fn listens(call: &Call) -> bool {
    call.is(&["nc", "ncat", "netcat"]) && (call.has_short('l') || call.has_long("--listen"))
}

/// A host as ssh writes it, with a user or without. A user is normal here, unlike in a web address.
fn host(word: &str) -> Option<String> {
    let address = absolute(word)?;
    Some(address.strip_prefix("http://").map_or(address.clone(), |place| format!("ssh://{place}")))
}

/// A word as the client reads it. Expansions of the shell are unknown.
fn absolute(word: &str) -> Option<String> {
    let is_unknown = word.is_empty() || word == "-" || word.starts_with(['$', '`', '@']);
    if is_unknown || word.contains(char::is_whitespace) {
        return None;
    }
    let scheme = word.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    if word.contains("://") || scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.as_str())) {
        return Some(word.to_owned());
    }
    // httpie and similar programs read a port alone as a port of this machine; other programs do not.
    let host = if word.starts_with(':') && !word.starts_with("::") { "localhost" } else { "" };
    let is_ipv6 = word.parse::<std::net::Ipv6Addr>().is_ok();
    Some(if is_ipv6 { format!("http://[{word}]") } else { format!("http://{host}{word}") })
}

/// The words of a copying call that can name a host. For git these are refs and paths, except for a few commands.
fn copied<'c>(call: &Call, operands: &[&'c Word]) -> impl Iterator<Item = &'c str> {
    let is_git = call.is(&["git"]);
    let texts: Vec<&'c str> = operands.iter().map(|word| word.text.as_str()).collect();
    let is_naming = |word: &&str| matches!(*word, "clone" | "ls-remote" | "remote" | "submodule");
    let is_moving = |word: &&str| matches!(*word, "fetch" | "pull" | "push");
    let all = !is_git || texts.iter().any(is_naming);
    let moved = texts.iter().position(is_moving).map_or(0, |at| at + 1);
    let (from, count) = if all { (0, usize::MAX) } else { (moved, usize::from(moved > 0)) };
    texts.into_iter().skip(from).take(count)
}

/// `user@host:path`, as ssh and similar programs write it. One letter before the colon is a drive.
fn remote(word: &str) -> Option<String> {
    if word.contains("://") {
        return Some(word.to_owned());
    }
    let (place, path) = match word.find("]:").filter(|_| word.contains('[')) {
        Some(at) => (&word[..=at], &word[at + 2..]),
        None => word.split_once(':')?,
    };
    let is_host =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_' | '@' | '[' | ']' | ':');
    (place.len() > 1 && place.chars().all(is_host))
        .then(|| format!("ssh://{place}/{}", path.trim_start_matches([':', '/'])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[track_caller]
    fn check(command: &str, expected: &[&str]) {
        let script = parse::parse(command);
        let found: Vec<String> = script.calls.iter().flat_map(targets).collect();
        assert_eq!(found, expected, "{command}");
    }

    #[test]
    fn operands_of_clients_are_addresses() {
        check("curl 169.254.169.254/latest/meta-data", &["http://169.254.169.254/latest/meta-data"]);
        check("curl -sSLo out.json -XPOST 10.0.0.5:8500/v1/kv", &["http://10.0.0.5:8500/v1/kv"]);
        check(
            "curl -H 'Host: a' --data x=1 --compressed host/a other/b",
            &["http://host/a", "http://other/b"],
        );
        check(
            "curl --url=10.0.0.5 -x 10.0.0.6:80 -- -a",
            &["http://10.0.0.5", "http://10.0.0.6:80", "http://-a"],
        );
        check("curl http:10.0.0.1 ::1", &["http:10.0.0.1", "http://[::1]"]);
        check("wget -qO- localhost:6379", &["http://localhost:6379"]);
        check("wget -O page --tries 3 metadata.google.internal", &["http://metadata.google.internal"]);
        check("http POST :3000/items name=value", &["http://localhost:3000/items"]);
        check("xh example.com a==b", &["http://example.com"]);
        check("nc -w 3 127.0.0.1 22", &["ssh://127.0.0.1"]);
        check("ssh -i key -p 22 me@10.0.0.5 ls", &["ssh://me@10.0.0.5"]);
        check("w3m -cols 80 notes.txt README", &["http://notes.txt"]);
    }

    #[test]
    fn a_public_name_can_be_led_elsewhere() {
        let command = "curl --resolve a.example:80:10.0.0.1 --connect-to a.example:80:10.0.0.2:81 a.example";
        check(command, &["http://10.0.0.1", "http://10.0.0.2:81", "http://a.example"]);
    }

    #[test]
    fn copies_name_hosts_before_a_colon() {
        check("git clone git@10.0.0.5:a/b.git dir", &["ssh://git@10.0.0.5/a/b.git"]);
        check("scp -r dir me@host:/tmp C:/x", &["ssh://me@host/tmp"]);
        check("rsync -a 'me@[::1]:/x' .", &["ssh://me@[::1]/x"]);
        check("git push origin HEAD:main", &[]);
        check("git push 10.0.0.5:x HEAD:main", &["ssh://10.0.0.5/x"]);
        check("git show HEAD:a.txt", &[]);
        check("git log --format=%h:%s a:b", &[]);
    }

    #[test]
    fn what_is_no_address_is_left_alone() {
        check("curl \"$URL\" $(cat url) @body -", &[]);
        check("nc -lvp 4444", &[]);
        check("nc -l 127.0.0.1 8080", &[]);
        check("echo 10.0.0.1", &[]);
        check("curl", &[]);
        check("http", &[]);
    }
}
