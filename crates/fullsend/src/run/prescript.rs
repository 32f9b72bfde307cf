//! The output of a pre-script: whether to skip the run, and values for the CI. It is a file of `key=value` lines; the exit
//! code 78 skips too.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use super::Stop;

/// The exit code that skips the run, whatever the file says.
const SKIP: i32 = 78;

const MAX_BYTES: u64 = 1 << 20;
const MAX_REASON: usize = 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct PreScriptOutput {
    pub values: BTreeMap<String, String>,
    pub skipped: bool,
    pub reason: String,
}

impl PreScriptOutput {
    pub fn skip_or_continue(&self) -> Result<(), Stop> {
        if self.skipped { Err(Stop::skipped(&self.reason)) } else { Ok(()) }
    }
}

pub fn read(file: &Path, code: i32, output: &str) -> Result<PreScriptOutput, Stop> {
    if code != 0 && code != SKIP {
        return Err(Stop::script("pre_script", code, output));
    }
    let wrong = |why: String| Stop::script("pre_script", 1, &format!("its FULLSEND_PRESCRIPT_OUTPUT {why}"));
    let size = std::fs::metadata(file).map_err(|error| wrong(format!("is gone: {error}")))?.len();
    if size > MAX_BYTES {
        return Err(wrong(format!("has {size} bytes; at most {MAX_BYTES} are read")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut result = parse(&text).map_err(wrong)?;
    if code == SKIP {
        result.skipped = true;
        if result.reason.is_empty() {
            let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
            result.reason = last.trim().chars().take(MAX_REASON).collect();
        }
    }
    Ok(result)
}

/// A reserved key in the wrong case is an error: it would have no effect.
fn parse(text: &str) -> Result<PreScriptOutput, String> {
    let mut result = PreScriptOutput::default();
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (number, line) in lines {
        let number = number + 1;
        let (key, value) = line.split_once('=').ok_or_else(|| format!("has no `=` in line {number}"))?;
        let named = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        if !named || value.chars().any(char::is_control) {
            return Err(format!("has an unusable key or value in line {number}"));
        }
        match key {
            "skipped" if value == "true" || value == "false" => result.skipped = value == "true",
            "skipped" => return Err(format!("must say `skipped=true` or `skipped=false` in line {number}")),
            "reason" => result.reason = value.chars().take(MAX_REASON).collect(),
            other if ["skipped", "reason"].contains(&other.to_ascii_lowercase().as_str()) => {
                return Err(format!("writes the reserved key `{other}` in the wrong case in line {number}"));
            }
            other => {
                result.values.insert(other.to_owned(), value.to_owned());
            }
        }
    }
    Ok(result)
}

/// Gives the values to the CI's next steps, where the CI has a file for them.
pub fn write_to_ci(output: &PreScriptOutput, environment: &BTreeMap<String, String>) -> Result<(), Stop> {
    let Some(path) = environment.get("GITHUB_OUTPUT").filter(|path| !path.is_empty()) else { return Ok(()) };
    let mut text = format!("skipped={}\nreason={}\n", output.skipped, output.reason);
    output.values.iter().for_each(|(key, value)| text.push_str(&format!("{key}={value}\n")));
    let written = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Stop::missing(format!("GITHUB_OUTPUT ({path}) cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{PreScriptOutput, parse, read};
    use crate::event::outcome::EndCause;

    #[test]
    fn lines_are_read_strictly() {
        let check = |text: &str, expected: Result<PreScriptOutput, &str>| match (parse(text), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        };
        let values =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        check("", Ok(PreScriptOutput::default()));
        check(
            "# note\na=1\na=2\n\nb=x=y\n",
            Ok(PreScriptOutput { values: values(&[("a", "2"), ("b", "x=y")]), ..PreScriptOutput::default() }),
        );
        check(
            "skipped=true\nreason=nothing to do\n",
            Ok(PreScriptOutput {
                skipped: true,
                reason: "nothing to do".to_owned(),
                ..PreScriptOutput::default()
            }),
        );
        check("skipped=\n", Err("skipped=true"));
        check("Skipped=true\n", Err("wrong case"));
        check("no equals\n", Err("line 1"));
        check("1a=b\n", Err("unusable"));
        check("a=b\u{1b}[31m\n", Err("unusable"));
    }

    #[test]
    fn a_file_is_bounded_and_must_be_there() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("said");
        let why = |code| read(&file, code, "").unwrap_err().outcome(None);
        assert!(why(0).reason.contains("is gone"));
        std::fs::write(&file, format!("a={}\n", "x".repeat(1 << 20))).unwrap();
        let outcome = why(0);
        assert!(outcome.reason.contains("at most 1048576 are read"), "{}", outcome.reason);
        assert_eq!(outcome.cause, EndCause::ScriptFailed);
        std::fs::write(&file, format!("a={}\n", "x".repeat((1 << 20) - 3))).unwrap();
        assert_eq!(read(&file, 0, "").unwrap().values["a"].len(), (1 << 20) - 3);
    }
}
