//! Whether the scripts of a run can be started: the kernel needs the interpreter that their first line names.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use yaml::{Diagnostic, Span};

use crate::check::Checked;
use crate::resolve::library::Library;
use crate::resolve::variables::VariableLookup;
use crate::runtime::programs::on_path;

/// The kernel reads no more of a first line.
const FIRST_LINE: u64 = 256;

/// One error for each script of the run that cannot start.
pub fn missing(checked: &Checked, library: &Library, value: VariableLookup<'_>) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let named = [
        ("pre_script", harness.pre_script.as_ref()),
        ("post_script", harness.post_script.as_ref()),
        ("validation_loop.script", harness.validation_loop.script.as_ref()),
    ];
    let scripts = named.into_iter().filter_map(|(field, script)| Some((field, script?)));
    let servers = harness.api_servers.iter().map(|server| ("script of an api server", &server.script));
    let path = script_path(checked, value);
    let mut found = Vec::new();
    for (field, script) in scripts.chain(servers) {
        let program = library.find(&script.value, script.at, field).ok();
        let program = program.and_then(|file| library.layers.host_path(&file));
        let problem = match &program {
            None => Some("is not on disk".to_owned()),
            Some(program) => problem(program, &path),
        };
        found.extend(problem.map(|why| error(field, script.as_str(), script.at, &why)));
    }
    found
}

fn error(field: &str, script: &str, at: Span, why: &str) -> Diagnostic {
    Diagnostic::error("interpreter", at, format!("`{field}` names `{script}`, which {why}"))
}

/// The PATH that the scripts get: `env.runner` sets it, else the host.
fn script_path(checked: &Checked, value: VariableLookup<'_>) -> String {
    let harness = &checked.resolved.harness;
    let maps = [&harness.env.runner, &harness.runner_env];
    let set = maps.into_iter().find_map(|map| map.0.iter().find(|(name, _)| name.value == "PATH"));
    let set = set.and_then(|(_, text)| text.expand(value).ok());
    set.or_else(|| value("PATH")).unwrap_or_default()
}

/// Why the kernel could not start this program, if it could not.
fn problem(program: &Path, path: &str) -> Option<String> {
    let mut start = Vec::new();
    let opened = File::open(program).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut start));
    if let Err(error) = opened {
        return Some(format!("cannot be read: {error}"));
    }
    let Some(line) = start.strip_prefix(b"#!") else {
        let is_elf = start.starts_with(b"\x7fELF");
        return (!is_elf).then(|| "has no `#!` line to say which program runs it".to_owned());
    };
    let line =
        String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else {
        return Some("has an empty `#!` line".to_owned());
    };
    if !Path::new(interpreter).is_file() {
        return Some(format!("needs the interpreter `{interpreter}`, which this host does not have"));
    }
    let by_env = interpreter.ends_with("/env");
    let wanted = words.find(|word| by_env && !word.starts_with('-') && !word.contains('='))?;
    let there =
        if wanted.starts_with('/') { Path::new(wanted).is_file() } else { on_path(wanted, path).is_some() };
    (!there).then(|| format!("needs the interpreter `{wanted}`, which is not on the PATH"))
}

#[cfg(test)]
mod tests {
    use super::problem;

    fn check(text: &str, expected: Option<&str>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        std::fs::write(&file, text).unwrap();
        let found = problem(&file, "/usr/bin:/bin");
        match expected {
            None => assert_eq!(found, None, "{text:?}"),
            Some(words) => {
                assert!(found.as_deref().is_some_and(|why| why.contains(words)), "{text:?}: {found:?}");
            }
        }
    }

    #[test]
    fn the_first_line_says_what_is_needed() {
        check("#!/bin/sh\nexit 0\n", None);
        check("#! /bin/sh -e\n", None);
        check("#!/usr/bin/env sh\n", None);
        check("#!/usr/bin/env -S LC_ALL=C sh -e\n", None);
        check("\x7fELF", None);
        check("#!/opt/none/python9\n", Some("/opt/none/python9"));
        check("#!/usr/bin/env python9\n", Some("`python9`, which is not on the PATH"));
        check("#!\n", Some("empty"));
        check("exit 0\n", Some("no `#!` line"));
    }
}
