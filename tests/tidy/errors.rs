//! Errors keep their cause: a public `…Error` implements `Error`, and a variant that holds another error is named in
//! `source()`.

use std::collections::BTreeMap;

/// Complaints about the error types of one file.
pub fn check(text: &str) -> Vec<String> {
    let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let implementations = implementations(shipped);
    let mut complaints = Vec::new();
    for definition in definitions(shipped) {
        let Some(implementation) = implementations.get(definition.name) else {
            if definition.is_public && definition.name.ends_with("Error") {
                complaints.push(format!("`{}` does not implement `Error`", definition.name));
            }
            continue;
        };
        for holder in definition.holders() {
            if !implementation.contains("fn source(") || !implementation.contains(holder) {
                complaints.push(format!(
                    "`{holder}` of `{}` holds an error that `source()` does not return",
                    definition.name
                ));
            }
        }
    }
    complaints
}

struct Definition<'a> {
    name: &'a str,
    is_enum: bool,
    is_public: bool,
    body: &'a str,
}

impl Definition<'_> {
    /// The variants, or the struct's fields, whose type ends in `Error`.
    fn holders(&self) -> Vec<&str> {
        let mut holders = Vec::new();
        let mut variant = "";
        for line in self.body.lines() {
            let code = line.split("//").next().unwrap_or_default();
            let word = code
                .trim_start()
                .trim_start_matches("pub ")
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            let is_variant = self.is_enum && word.starts_with(|c: char| c.is_ascii_uppercase());
            if is_variant || !self.is_enum {
                variant = word;
            }
            // The part after the variant's own name, which may end in `Error` too.
            let fields =
                if is_variant { code.trim_start().strip_prefix(word).unwrap_or_default() } else { code };
            let types = fields.split(|c: char| !c.is_alphanumeric() && c != '_');
            if types.into_iter().any(|name| name.ends_with("Error") && !name.is_empty()) {
                holders.push(variant);
            }
        }
        holders
    }
}

/// Structs and enums with braces; a tuple struct on one line is its own body.
fn definitions(text: &str) -> Vec<Definition<'_>> {
    let mut found = Vec::new();
    for (at, line) in lines(text) {
        let code = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
        let code = code.strip_prefix("pub(super) ").unwrap_or(code);
        let is_enum = code.starts_with("enum ");
        if let Some(rest) = code.strip_prefix("enum ").or_else(|| code.strip_prefix("struct ")) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            let body = block(&text[at..]).split_once(name).map_or("", |(_, body)| body);
            found.push(Definition { name, is_enum, is_public: line.starts_with("pub "), body });
        }
    }
    found
}

/// The bodies of `impl … Error for NAME`, by name.
fn implementations(text: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for (at, line) in lines(text) {
        let Some((start, rest)) = line.split_once("Error for ") else { continue };
        if start.starts_with("impl") && (start.ends_with("error::") || start.ends_with(' ')) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            found.insert(name, block(&text[at..]));
        }
    }
    found
}

/// rustfmt puts the closing brace of a top-level item in the first column.
fn block(text: &str) -> &str {
    let first = text.lines().next().unwrap_or_default();
    match first.ends_with('{') {
        true => text.find("\n}").map_or(text, |end| &text[..end]),
        false => first,
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line.trim_end()))
    })
}

#[test]
fn a_lost_cause_is_noticed() {
    let type_of = "pub enum ReadError {\n    /// No bytes.\n    Empty,\n    Io(io::Error),\n}\n";
    let with = |source: &str| check(&format!("{type_of}\nimpl std::error::Error for ReadError {source}\n"));
    assert!(with("{\n    fn source(&self) { match self { Self::Io(error) => Some(error) } }\n}").is_empty());
    assert_eq!(with("{}"), ["`Io` of `ReadError` holds an error that `source()` does not return"]);
    assert_eq!(with("{\n    fn source(&self) { None }\n}").len(), 1, "the variant is not named");
    let plain = "pub struct ReadError(io::Error);\nimpl Error for ReadError {}\n";
    assert_eq!(check(plain).len(), 1, "a struct without names");
    assert_eq!(check(type_of), ["`ReadError` does not implement `Error`"]);
    assert!(check("pub enum ReadError {\n    Empty,\n}\nimpl Error for ReadError {}\n").is_empty(), "a leaf");
}
