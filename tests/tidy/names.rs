//! One word, one concept: no two public types of the workspace share a name.

use std::collections::BTreeMap;

/// `(name, reason)`. A name that is no longer shared fails the test, so the list only shrinks.
const SHARED: &[(&str, &str)] = &[("Arguments", "each command reads its own")];

/// Complaints about `(file, text)` pairs.
pub fn check(files: &[(String, String)]) -> Vec<(String, String)> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in files {
        let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for name in shipped.lines().filter_map(declared) {
            places.entry(name).or_default().push(file);
        }
    }
    let is_shared = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let mut complaints = Vec::new();
    for (name, files) in &places {
        match (files.as_slice(), is_shared(name)) {
            ([_], true) => complaints.push((files[0].to_owned(), format!("`{name}` is no longer shared"))),
            ([first, rest @ ..], false) if !rest.is_empty() => {
                complaints
                    .push(((*first).to_owned(), format!("`{name}` is also a type of {}", rest.join(", "))));
            }
            _ => {}
        }
    }
    complaints
}

/// The name of the public type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("layered ").unwrap_or(line).strip_prefix("pub ")?;
    let rest =
        ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| line.strip_prefix(kind))?;
    // A macro's `$name` has none.
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[test]
fn a_shared_name_is_noticed() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let one = file("one.rs", "pub struct Lease {\n}\npub struct Arguments;\n");
    let other = file("two.rs", "    layered pub struct Lease {\npub enum Arguments {}\n");
    let private = file("three.rs", "struct Lease;\n#[cfg(test)]\nmod tests {\n    pub struct Lease;\n}\n");
    let said = vec![file("one.rs", "`Lease` is also a type of two.rs")];
    assert_eq!(check(&[one.clone(), other, private.clone()]), said);
    assert_eq!(check(&[one, private]), [file("one.rs", "`Arguments` is no longer shared")]);
}
