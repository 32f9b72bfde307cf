//! Import circles between the files of one crate: a file must not import itself through others. Reads `use` paths and
//! qualified paths as text. Test modules may look at what they test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module path such as `["proxy", "http2"]`; the crate root is empty.
type Module = Vec<String>;

/// Every group of files of this crate that import each other in a circle, as module paths.
pub(super) fn circles(files: &[(PathBuf, String)], source: &Path) -> Vec<Vec<String>> {
    let modules: BTreeMap<Module, &str> = files
        .iter()
        .filter_map(|(path, text)| Some((module_of(path.strip_prefix(source).ok()?), text.as_str())))
        .filter(|(module, _)| !module.iter().any(|part| part == "tests"))
        .collect();
    let imports: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.iter().map(|(module, text)| (module, imported(module, text, &modules))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut grouped: BTreeSet<&Module> = BTreeSet::new();
    for module in modules.keys() {
        if grouped.contains(module) {
            continue;
        }
        let reached = reachable(module, &imports);
        let circle: Vec<&Module> = reached
            .iter()
            .copied()
            .filter(|other| *other == module || reachable(other, &imports).contains(module))
            .collect();
        if circle.len() > 1 {
            grouped.extend(circle.iter().copied());
            found.push(circle.iter().map(|module| module.join("::")).collect());
        }
    }
    found
}

fn module_of(relative: &Path) -> Module {
    let text = relative.with_extension("").to_string_lossy().into_owned();
    let mut parts: Module = text.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

fn reachable<'m>(
    from: &'m Module,
    imports: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = imports[from].iter().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(imports[next].iter().copied());
        }
    }
    reached
}

/// The files that this text imports from, without itself.
fn imported<'m>(own: &Module, text: &str, modules: &'m BTreeMap<Module, &str>) -> BTreeSet<&'m Module> {
    let code = without_tests_and_comments(text);
    let mut found = BTreeSet::new();
    for path in paths(&code) {
        let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
        let mut absolute: Module = match parts.first() {
            Some(&"crate") => Vec::new(),
            Some(&"self") => own.clone(),
            _ => own[..own.len().saturating_sub(1)].to_vec(),
        };
        let mut rest = &parts[1..];
        while rest.first() == Some(&"super") {
            absolute.pop();
            rest = &rest[1..];
        }
        absolute.extend(rest.iter().filter(|part| **part != "self").map(|part| (*part).to_owned()));
        // The longest prefix that is a file; the crate root is not an import.
        while !absolute.is_empty() && !modules.contains_key(&absolute) {
            absolute.pop();
        }
        if let Some((module, _)) = modules.get_key_value(&absolute).filter(|(module, _)| !module.is_empty())
            && module != own
        {
            found.insert(module);
        }
    }
    found
}

fn without_tests_and_comments(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join(" ")
}

/// Every path that starts at the crate, this module or its parent, with `{a, b::c}` written out.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let starts =
                !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_:".contains(before));
            if starts {
                expand(&code[at..], "", &mut found);
            }
        }
    }
    found
}

/// Reads one path, and behind `{` each of its branches. Returns the bytes read.
fn expand(text: &str, prefix: &str, found: &mut Vec<String>) -> usize {
    let name = text.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..name]);
    if !text[name..].starts_with('{') {
        found.push(path);
        return name;
    }
    let mut at = name + 1;
    while at < text.len() && !text[at..].starts_with('}') {
        let skipped = text[at..].find(|c: char| c.is_alphanumeric() || "_}".contains(c));
        at += skipped.unwrap_or(text.len() - at);
        if text[at..].starts_with('}') || at >= text.len() {
            break;
        }
        at += expand(&text[at..], &path, found);
        // `as name` renames; it is not an import.
        let rest = text[at..].trim_start();
        if let Some(renamed) = rest.strip_prefix("as ") {
            let end = renamed.find([',', '}']).unwrap_or(renamed.len());
            at = text.len() - renamed.len() + end;
        }
    }
    at + 1
}

#[test]
fn a_circle_is_found_and_a_chain_is_not() {
    let check = |files: &[(&str, &str)]| {
        let files: Vec<(PathBuf, String)> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        circles(&files, Path::new("src")).len()
    };
    assert_eq!(
        check(&[("src/a.rs", "use crate::b::B;"), ("src/b.rs", "use super::c;"), ("src/c.rs", "")]),
        0
    );
    assert_eq!(
        check(&[
            ("src/a.rs", "use crate::{b::B, c};"),
            ("src/b.rs", "fn f() { super::a::g() }"),
            ("src/c.rs", "")
        ]),
        1
    );
    assert_eq!(check(&[("src/a/mod.rs", "use self::b::B;"), ("src/a/b.rs", "use super::A;")]), 1);
    let test_only = "x();\n#[cfg(test)]\nmod tests { use crate::b; }";
    assert_eq!(check(&[("src/a.rs", test_only), ("src/b.rs", "use crate::a;")]), 0);
}
