//! A git configuration reduced to keys that describe the repository: no commands, credentials or includes. Keys that
//! are not known to be harmless are dropped.

/// Keys that stay: section, whether it has a subsection (`*`), names.
type Keys = [(&'static str, &'static str, &'static [&'static str])];

/// Keys that git needs to read the files of a repository.
const FORMAT: &Keys = &[
    ("core", "", &["repositoryformatversion"]),
    ("extensions", "", &["objectformat", "refstorage", "noop"]),
];

/// Keys that describe the repository to a person or an agent.
const KEPT: &Keys = &[
    (
        "core",
        "",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "abbrev",
        ],
    ),
    ("extensions", "", &["objectformat", "refstorage", "worktreeconfig", "partialclone", "noop"]),
    ("user", "", &["name", "email"]),
    ("init", "", &["defaultbranch"]),
    ("remote", "*", &["url", "fetch", "promisor", "partialclonefilter"]),
    ("branch", "*", &["remote", "merge", "rebase"]),
    ("submodule", "*", &["url", "active"]),
];

/// The configuration `text` without keys that could run a program or contain a secret.
pub fn rewrite(text: &[u8]) -> Vec<u8> {
    rewrite_with(text, KEPT)
}

/// Only the format of the repository's files.
pub fn rewrite_for_reading(text: &[u8]) -> Vec<u8> {
    rewrite_with(text, FORMAT)
}

fn rewrite_with(text: &[u8], kept: &Keys) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut output = String::new();
    let mut section: Option<(String, String)> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = parse_header(header);
            continue;
        }
        let mut whole = line.to_owned();
        // A value goes on where its line ends in a backslash.
        while whole.ends_with('\\') && !whole.ends_with("\\\\") {
            whole.pop();
            whole.push_str(lines.next().unwrap_or("").trim());
        }
        let Some((name, subsection)) = &section else { continue };
        let (key, value) =
            whole.split_once('=').map_or((whole.as_str(), "true"), |(key, value)| (key, value));
        let key = key.trim().to_ascii_lowercase();
        if is_kept(kept, name, subsection, &key) {
            output.push_str(&render(name, subsection, &key, &parse_value(value)));
        }
    }
    output.into_bytes()
}

/// The last value of a key without a subsection.
pub(super) fn value_of(text: &[u8], section: &'static str, key: &'static str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let mut here = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            here = parse_header(header).is_some_and(|(name, sub)| name == section && sub.is_empty());
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        if here && name.trim().eq_ignore_ascii_case(key) {
            found = Some(parse_value(value));
        }
    }
    found
}

/// `name "subsection"]`, or the old `name.subsection]`.
fn parse_header(header: &str) -> Option<(String, String)> {
    let end = header.rfind(']')?;
    let inner = &header[..end];
    match inner.split_once(char::is_whitespace) {
        Some((name, rest)) => {
            let quoted = rest.trim().strip_prefix('"')?.strip_suffix('"')?;
            let mut subsection = String::new();
            let mut characters = quoted.chars();
            while let Some(character) = characters.next() {
                subsection.push(if character == '\\' { characters.next()? } else { character });
            }
            Some((name.to_ascii_lowercase(), subsection))
        }
        None => match inner.split_once('.') {
            Some((name, subsection)) => Some((name.to_ascii_lowercase(), subsection.to_ascii_lowercase())),
            None => Some((inner.trim().to_ascii_lowercase(), String::new())),
        },
    }
}

/// Quotes, escapes and comments as git reads them.
fn parse_value(text: &str) -> String {
    let mut value = String::new();
    let mut quoted = false;
    let mut characters = text.trim().chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => match characters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(other) => value.push(other),
                None => {}
            },
            other => value.push(other),
        }
    }
    value.trim().to_owned()
}

fn is_kept(kept: &Keys, name: &str, subsection: &str, key: &str) -> bool {
    kept.iter().any(|(section, wanted, keys)| {
        *section == name && (wanted.is_empty() == subsection.is_empty()) && keys.contains(&key)
    })
}

fn render(name: &str, subsection: &str, key: &str, value: &str) -> String {
    let value = if key == "url" { without_credentials(value) } else { value.to_owned() };
    let header = match subsection {
        "" => format!("[{name}]"),
        other => format!("[{name} \"{}\"]", other.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("{header}\n\t{key} = \"{quoted}\"\n")
}

/// A URL without the user and password in it. `git@host:path` has no password and stays.
fn without_credentials(url: &str) -> String {
    // `ext::` runs a command; such a URL is dropped.
    if url.starts_with("ext::") {
        return String::new();
    }
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = match authority.rsplit_once('@') {
        Some((user, host)) if scheme == "ssh" && !user.contains(':') => {
            return format!("ssh://{user}@{host}{path}");
        }
        Some((_, host)) => host,
        None => authority,
    };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(String::from_utf8(rewrite(input.as_bytes())).unwrap(), expected, "{input}");
    }

    #[test]
    fn what_describes_the_repository_stays() {
        check("[core]\n\trepositoryformatversion = 0\n", "[core]\n\trepositoryformatversion = \"0\"\n");
        check("[core]\n\tbare\n", "[core]\n\tbare = \"true\"\n");
        check(
            "[branch \"a \\\"b\\\\\"]\n\tmerge = refs/heads/x ; why\n",
            "[branch \"a \\\"b\\\\\"]\n\tmerge = \"refs/heads/x\"\n",
        );
        check("[user]\nname = \"A # B\"\n", "[user]\n\tname = \"A # B\"\n");
    }

    #[test]
    fn for_reading_only_the_format_stays() {
        let text = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n\
                    [remote \"o\"]\n\turl = ext::sh\n\tpromisor = true\n[include]\n\tpath = x\n";
        let expected =
            "[core]\n\trepositoryformatversion = \"1\"\n[extensions]\n\tobjectformat = \"sha256\"\n";
        assert_eq!(String::from_utf8(rewrite_for_reading(text.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn git_settings_that_run_programs_are_removed() {
        for key in
            ["hooksPath = /x", "fsmonitor = /x", "sshCommand = x", "pager = x", "editor = x", "worktree = /x"]
        {
            check(&format!("[core]\n\t{key}\n"), "");
        }
        check("[include]\n\tpath = /etc/x\n[includeIf \"gitdir:/\"]\n\tpath = /x\n", "");
        check("[filter \"lfs\"]\n\tclean = x\n[alias]\n\tst = !x\n[credential]\n\thelper = !x\n", "");
        check("[CORE]\n\tHOOKSPATH = /x\n", "");
        check("[core]\n\teditor = a\\\n\n\thooksPath = b\n", "");
        check("[core \"x\"]\n\tbare = true\n", "");
        check("[remote]\n\turl = x\n", "");
    }

    #[test]
    fn credentials_go_from_addresses() {
        let url = |from: &str, to: &str| {
            check(
                &format!("[remote \"o\"]\n\turl = {from}\n"),
                &format!("[remote \"o\"]\n\turl = \"{to}\"\n"),
            );
        };
        url("https://user:token@host/x.git", "https://host/x.git");
        url("https://token@host/x.git", "https://host/x.git");
        url("https://u:p@w@host/x", "https://host/x");
        url("https://host/x@y", "https://host/x@y");
        url("git@host:x.git", "git@host:x.git");
        url("ssh://git@host/x", "ssh://git@host/x");
        url("ssh://git:secret@host/x", "ssh://host/x");
        url("ext::sh -c x", "");
        check("[http \"https://host/\"]\n\textraheader = AUTHORIZATION: basic xx\n", "");
    }
}
