//! The rules of the tree: sizes, names, imports between crates, stages and files, where unsafe code and reads of the
//! environment may be. An exception is a line in `EXCEPTIONS` with its reason. An exception that is no longer needed
//! fails the test, so the list can only shrink.

mod circles;
mod dependencies;
mod errors;
mod names;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 90;

/// `(file, rule, reason)`. Remove a line as soon as the file is fixed.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Which of our crates a crate may use. `fullsend` may use all.
const CRATE_ARROWS: &[(&str, &[&str])] = &[
    ("yaml", &[]),
    ("policy", &["yaml"]),
    ("redact", &[]),
    ("scan", &["policy", "redact"]),
    ("shell", &["redact", "scan"]),
    ("sandbox", &[]),
    ("egress", &["policy", "redact"]),
    ("model", &["egress"]),
    ("session", &[]),
    ("classifier", &[]),
    ("trigger", &[]),
];

const FORBIDDEN_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "core", "types", "imp", "misc"];

#[test]
fn the_tree_is_tidy() {
    let mut complaints: Vec<(String, &str, String)> = Vec::new();
    let order = modules_in_order();
    for path in rust_files() {
        let name = relative(&path);
        let text = fs::read_to_string(&path).unwrap();
        let mut complain = |rule, what: String| complaints.push((name.clone(), rule, what));
        size_of_file(&text, &mut complain);
        size_of_functions(&text, &mut complain);
        opening_sentence(&text, &mut complain);
        forbidden_name(&path, &mut complain);
        place_of_unsafe(&name, &text, &mut complain);
        place_of_environment(&name, &text, &mut complain);
        place_of_printing(&name, &text, &mut complain);
        arrows_between_modules(&order, &name, &text, &mut complain);
        orchestration_is_blind(&name, &text, &mut complain);
        packed_bindings(&text, &mut complain);
        causes_of_errors(&name, &text, &mut complain);
        exit_codes(&name, &text, &mut complain);
    }
    import_circles(&mut complaints);
    shared_type_names(&mut complaints);
    arrows_between_crates(&mut complaints);
    report(&complaints);
}

fn report(complaints: &[(String, &str, String)]) {
    let mut unused: BTreeMap<(&str, &str), &str> =
        EXCEPTIONS.iter().map(|(f, r, why)| ((*f, *r), *why)).collect();
    let mut lines = Vec::new();
    for (file, rule, what) in complaints {
        if EXCEPTIONS.iter().any(|(f, r, _)| f == file && r == rule) {
            unused.remove(&(file.as_str(), *rule));
        } else {
            lines.push(format!("{file}: {rule}: {what}"));
        }
    }
    lines.extend(
        unused.keys().map(|(f, r)| format!("{f}: the exception for {r} is no longer needed: remove it")),
    );
    assert!(lines.is_empty(), "the tree is not tidy:\n{}", lines.join("\n"));
}

fn size_of_file(text: &str, complain: &mut impl FnMut(&'static str, String)) {
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        complain("file-size", format!("{lines} lines, over {MAX_FILE_LINES}"));
    }
}

/// rustfmt puts a function's closing brace in the column where the function began.
fn size_of_functions(text: &str, complain: &mut impl FnMut(&'static str, String)) {
    let lines: Vec<&str> = text.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.contains('(')).collect();
        let is_function = words.contains(&"fn") || line.trim_start().starts_with("fn ");
        if !is_function || line.trim_start().starts_with("//") {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let length = lines[start..].iter().position(|l| *l == close).map_or(1, |end| end + 1);
        if length > MAX_FUNCTION_LINES {
            complain(
                "function-size",
                format!("line {}: {length} lines, over {MAX_FUNCTION_LINES}", start + 1),
            );
        }
    }
}

fn opening_sentence(text: &str, complain: &mut impl FnMut(&'static str, String)) {
    if !text.starts_with("//! ") {
        complain("opening", "the module does not open with what it owns".to_owned());
    }
}

fn forbidden_name(path: &Path, complain: &mut impl FnMut(&'static str, String)) {
    for part in path.components() {
        let part = part.as_os_str().to_string_lossy();
        let stem = part.strip_suffix(".rs").unwrap_or(&part);
        if FORBIDDEN_NAMES.contains(&stem) {
            complain("name", format!("`{stem}` says nothing about what is inside"));
        }
    }
}

fn place_of_unsafe(name: &str, text: &str, complain: &mut impl FnMut(&'static str, String)) {
    // The kernel's calls, and vector instructions.
    let places = ["crates/sandbox/src/sys/", "crates/classifier/src/simd.rs", "tests/tidy/mod.rs"];
    let allowed = places.iter().any(|place| name.starts_with(place));
    let found = text.lines().position(|line| {
        let code = line.split("//").next().unwrap_or("");
        code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
    });
    if let (false, Some(line)) = (allowed, found) {
        complain(
            "unsafe",
            format!(
                "line {}: only crates/sandbox/src/sys and crates/classifier/src/simd.rs may be unsafe",
                line + 1
            ),
        );
    }
}

/// Stages take what they need as values; only the edges of the program read the environment.
fn place_of_environment(name: &str, text: &str, complain: &mut impl FnMut(&'static str, String)) {
    let edges = [
        "crates/fullsend/src/cli/",
        "crates/fullsend/src/main.rs",
        "crates/fullsend/build.rs",
        "crates/fullsend/examples/",
        "tests/",
        "bench/",
    ];
    if edges.iter().any(|edge| name.starts_with(edge)) || name.contains("/src/proxy/tests/") {
        return;
    }
    let reads = ["env::var(", "env::var_os(", "env::vars(", "env::vars_os("];
    for (number, line) in text.lines().enumerate() {
        if reads.iter().any(|read| line.contains(read)) {
            complain("environment", format!("line {}: only cli/ reads the environment", number + 1));
        }
    }
}

/// Files outside `cli` whose process speaks through its standard streams: the agent loop, the state command, the command
/// that moves files and the tunnel, which run inside the sandbox.
const PRINTING: &[&str] = &[
    "crates/fullsend/src/archive/inside_files.rs",
    "crates/fullsend/src/backend/openshell/tunnel/inside.rs",
    "crates/fullsend/src/runtime/native/agent.rs",
    "crates/fullsend/src/runtime/state.rs",
];

/// The library returns values and emits events; only `cli` prints.
fn place_of_printing(name: &str, text: &str, complain: &mut impl FnMut(&'static str, String)) {
    if !is_shipped(name) || name.starts_with("crates/fullsend/src/cli/") || PRINTING.contains(&name) {
        return;
    }
    let prints = ["println!(", "print!(", "io::stdout()", "io::stderr()", "dbg!("];
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if prints.iter().any(|print| code.contains(print)) {
            complain("printing", format!("line {}: only cli/ prints", number + 1));
        }
    }
}

fn is_shipped(name: &str) -> bool {
    name.starts_with("crates/") && name.contains("/src/") && !name.contains("/tests")
}

/// The program's modules, lowest first: the table in `ARCHITECTURE.md`. A module may import those before it, never those after it.
fn modules_in_order() -> Vec<String> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = text.split_once("| module | owns | never |\n").expect("the table of modules");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next().map(str::to_owned)).collect()
}

#[test]
fn every_module_is_in_the_table() {
    let mut listed = modules_in_order();
    listed.sort();
    let mut modules: Vec<String> = fs::read_dir(root().join("crates/fullsend/src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().trim_end_matches(".rs").to_owned())
        .filter(|name| name != "lib" && name != "main")
        .collect();
    modules.sort();
    assert_eq!(listed, modules, "the table of modules in ARCHITECTURE.md");
}

fn arrows_between_modules(
    order: &[String],
    name: &str,
    text: &str,
    complain: &mut impl FnMut(&'static str, String),
) {
    let Some(rest) = name.strip_prefix("crates/fullsend/src/") else { return };
    let here = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
    let Some(own) = order.iter().position(|module| module == here) else { return };
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        for (rank, module) in order.iter().enumerate() {
            let imports =
                code.contains(&format!("crate::{module}::")) || code.contains(&format!("crate::{module};"));
            if rank > own && imports {
                complain("arrow", format!("line {}: `{here}` may not import `{module}`", number + 1));
            }
        }
    }
}

/// Which wake runs now is decided without knowing what a wake means: scheduling policy and session semantics change apart.
fn orchestration_is_blind(name: &str, text: &str, complain: &mut impl FnMut(&'static str, String)) {
    if !name.starts_with("crates/fullsend/src/worker/") {
        return;
    }
    let meanings =
        ["directive", "Directive", "crate::wake", "WakeCommit", "SessionEvent", "Payload", "ContextSource"];
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = meanings.iter().find(|word| line.contains(**word)) {
            complain("orchestration", format!("line {}: `worker` knows nothing of `{word}`", number + 1));
        }
    }
}

/// `let (a, b) = (x, y);` saves a line and costs the reader two.
fn packed_bindings(text: &str, complain: &mut impl FnMut(&'static str, String)) {
    for (number, line) in text.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("let (") else { continue };
        let Some((_, value)) = rest.split_once(") = ") else { continue };
        // A tuple literal; a call or a block on the right is a value of its own.
        if value.starts_with('(') && (value.ends_with(");") || value.ends_with('(')) {
            complain("packed", format!("line {}: one binding for each line", number + 1));
        }
    }
}

fn causes_of_errors(name: &str, text: &str, complain: &mut impl FnMut(&'static str, String)) {
    if is_shipped(name) {
        errors::check(text).into_iter().for_each(|what| complain("cause", what));
    }
}

/// The exit codes are a contract: their digits are in one file, and everyone else names them.
fn exit_codes(name: &str, text: &str, complain: &mut impl FnMut(&'static str, String)) {
    if !name.starts_with("crates/fullsend/src/") || name == "crates/fullsend/src/event/exit.rs" {
        return;
    }
    let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    for (number, line) in shipped.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let digits = ["ExitCode::from(", "process::exit(", "exit_code: "].iter().any(|before| {
            code.split(before).skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_digit()))
        });
        if digits || code.contains("ExitCode::SUCCESS") || code.contains("ExitCode::FAILURE") {
            complain("exit", format!("line {}: use `Exit` of event/exit.rs", number + 1));
        }
    }
}

fn shared_type_names(complaints: &mut Vec<(String, &str, String)>) {
    let shipped = rust_files().into_iter().filter(|path| is_shipped(&relative(path)));
    let files: Vec<(String, String)> =
        shipped.map(|path| (relative(&path), fs::read_to_string(&path).unwrap())).collect();
    complaints.extend(names::check(&files).into_iter().map(|(file, what)| (file, "type-name", what)));
}

fn import_circles(complaints: &mut Vec<(String, &str, String)>) {
    for krate in fs::read_dir(root().join("crates")).unwrap() {
        let source = krate.unwrap().path().join("src");
        let files: Vec<(PathBuf, String)> = rust_files()
            .into_iter()
            .filter(|path| path.starts_with(&source))
            .map(|path| {
                let text = fs::read_to_string(&path).unwrap();
                (path, text)
            })
            .collect();
        for circle in circles::circles(&files, &source) {
            let what = format!("{} files import each other: {}", circle.len(), circle.join(", "));
            complaints.push((relative(&source), "circle", what));
        }
    }
}

fn arrows_between_crates(complaints: &mut Vec<(String, &str, String)>) {
    for (krate, allowed) in CRATE_ARROWS {
        let manifest = format!("crates/{krate}/Cargo.toml");
        let text = fs::read_to_string(root().join(&manifest)).unwrap();
        // Tests may read what a user writes with whatever reads it.
        let text = text.split("[dev-dependencies]").next().unwrap_or_default();
        for (other, _) in CRATE_ARROWS {
            let uses = text.contains(&format!("path = \"../{other}\""));
            if uses && !allowed.contains(other) {
                complaints.push((manifest.clone(), "arrow", format!("`{krate}` may not use `{other}`")));
            }
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

fn rust_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join("crates"), root().join("tests"), root().join("bench")];
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 5, "the tree was not found");
    found.sort();
    found
}
