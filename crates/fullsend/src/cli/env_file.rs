//! `--env-file`: variables for a run, one `NAME=VALUE` a line, as the original's runner reads them. Nothing is expanded.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::exit::{Exit, Failure};
use crate::harness::template::is_variable_name;

const MAX_BYTES: u64 = 1 << 20;

/// All variables of the files; a later file wins.
pub fn read_all(paths: &[PathBuf]) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for path in paths {
        let wrong =
            |why: String| Failure::new(Exit::Missing, format!("cannot use {}: {why}", path.display()));
        let text = read(path).map_err(|error| wrong(error.to_string()))?;
        all.extend(parse(&text).map_err(wrong)?);
    }
    Ok(all)
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// Comments and lines without `=` are passed over.
fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.starts_with('#'));
    let mut all = Vec::new();
    for (number, line) in lines {
        let Some((name, raw)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else {
            continue;
        };
        let name = name.trim();
        if !is_variable_name(name) {
            return Err(format!("line {} has no valid variable name", number + 1));
        }
        let value = value(raw.trim()).ok_or_else(|| format!("line {} has an open quote", number + 1))?;
        all.push((name.to_owned(), value));
    }
    Ok(all)
}

/// A quoted value as it is; an unquoted one up to a comment.
fn value(raw: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(inner) = raw.strip_prefix(quote) {
            return inner.split_once(quote).map(|(inner, _)| inner.to_owned());
        }
    }
    let plain = if raw.starts_with('#') { "" } else { raw.split(" #").next().unwrap_or(raw) };
    Some(plain.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn values_are_read_as_they_are_written() {
        let check = |line: &str, expected: &str| {
            assert_eq!(parse(line), Ok(vec![("A".to_owned(), expected.to_owned())]), "{line}");
        };
        check("A=b", "b");
        check("export A=b # why", "b");
        check("A='b # c' # d", "b # c");
        check("A=\"${B} c\"", "${B} c");
        check("A=b=c", "b=c");
        check("A=", "");
        check("A=# nothing", "");
        assert_eq!(parse("# A=b\n\nno assignment\n"), Ok(Vec::new()));
        assert!(parse("A B=c").unwrap_err().contains("line 1"));
        assert!(parse("\nA=\"b").unwrap_err().contains("line 2"));
    }
}
