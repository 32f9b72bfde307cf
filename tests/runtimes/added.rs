//! A new runtime is one folder and one row: nothing else in the program names a runtime. The unit tests of the program
//! have such a runtime, `runtime/tiny`, which only they compile.

use std::fs;
use std::path::Path;

use crate::support::root;

/// What may know a runtime, and why.
const KNOWN: &[(&str, &str)] = &[
    ("cli/hidden.rs", "starts our own agent loop inside the sandbox"),
    ("cli/init/mod.rs", "takes over the files of Claude Code, and starts with our own loop"),
    ("cli/doctor_model.rs", "asks the model as our own loop asks it"),
    ("lib.rs", "shows the streams to the tests"),
    ("runtimes.rs", "is the table"),
];

fn sources(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_runtime_is_named_only_in_its_folder_and_in_the_table() {
    let source = root().join("crates/fullsend/src");
    let folders: Vec<String> = fs::read_dir(source.join("runtime"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(folders.len() >= 4, "{folders:?}");
    let mut files = Vec::new();
    sources(&source, &mut files);
    for path in files {
        let name = path.strip_prefix(&source).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let shipped = text.split("#[cfg(test)]").next().unwrap();
        for folder in &folders {
            let is_own = name.starts_with(&format!("runtime/{folder}/"));
            if is_own || KNOWN.iter().any(|(file, _)| *file == name) {
                continue;
            }
            let variant = format!("RuntimeName::{}{}", folder[..1].to_uppercase(), &folder[1..]);
            let module = format!("runtime::{folder}");
            for line in shipped.lines() {
                let code = line.split("//").next().unwrap();
                let names = code.contains(&variant) || code.contains(&module);
                assert!(!names, "{name} names the runtime `{folder}`: {line}");
            }
        }
    }
}
