//! Documentation that is generated from the program: `docs/harness.md` from the types (`UPDATE_DOCS=1 cargo test docs`
//! writes it). Also: README has two commands, and every path and link in the documents exists.

use std::fmt::Write;
use std::fs;

use serde_json::Value as Json;

use crate::support::{World, root};

#[test]
fn the_page_of_the_harness_is_made_from_the_types() {
    let schema: Json = serde_json::from_str(&World::new().run(&["schema", "harness"]).out).unwrap();
    let page = page(&schema);
    let path = root().join("docs/harness.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(committed == page, "docs/harness.md is not what the types say: UPDATE_DOCS=1 cargo test docs");
}

fn page(schema: &Json) -> String {
    let mut text = "# The harness file\n\nMade from the types by `UPDATE_DOCS=1 cargo test docs`. Only `agent` is required; unknown keys are\nrefused. Defaults are in `crates/fullsend/src/defaults/defaults.yaml`; how layers combine is in `layers.md`.\n".to_owned();
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, definition) in definitions {
        write!(
            text,
            "\n## {name}\n\n{}\n\n| key | type | meaning |\n|---|---|---|\n",
            definition["description"].as_str().unwrap()
        )
        .unwrap();
        for (key, field) in definition["properties"].as_object().unwrap() {
            let meaning = field["description"].as_str().unwrap_or("").replace('|', "\\|");
            assert!(!meaning.is_empty(), "`{name}.{key}` has no meaning");
            writeln!(text, "| `{key}` | {} | {meaning} |", kind(field)).unwrap();
        }
    }
    text
}

/// A type in words.
fn kind(field: &Json) -> String {
    if let Some(reference) = field["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(words) = field["enum"].as_array() {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" ");
    }
    if let Some(choices) = field["anyOf"].as_array() {
        let kinds: Vec<String> = choices.iter().map(kind).filter(|kind| kind != "null").collect();
        return kinds.join(" or ");
    }
    let names = match &field["type"] {
        Json::Array(names) => names
            .iter()
            .filter_map(Json::as_str)
            .filter(|name| *name != "null")
            .collect::<Vec<_>>()
            .join(" or "),
        name => name.as_str().unwrap_or("1").to_owned(),
    };
    let range = match (field["minimum"].as_u64(), field["maximum"].as_u64()) {
        (Some(least), Some(most)) => format!(" {least}–{most}"),
        _ => String::new(),
    };
    let items =
        if field["items"].is_object() { format!(" of {}", kind(&field["items"])) } else { String::new() };
    format!("{names}{range}{items}")
}

#[test]
fn the_readme_has_two_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<&str> = readme.lines().filter(|line| line.starts_with("    cargo ")).collect();
    assert_eq!(commands, ["    cargo run -- run hello --repo examples/hello", "    cargo test --workspace"]);
    let gate = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(gate.lines().any(|line| line == "cargo test --workspace"));
}

/// Every command in a code block names a command and options that exist.
#[test]
fn every_command_in_the_documents_is_known() {
    let mut pages = vec![root().join("README.md")];
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let world = World::new();
    let mut count = 0;
    for page in pages {
        for line in fs::read_to_string(&page).unwrap().lines().filter_map(|line| line.strip_prefix("    ")) {
            let line = line.split(" #").next().unwrap_or(line);
            if line.contains('…') {
                continue;
            }
            let Some(command) = line.split(" | ").find_map(|part| {
                part.trim().trim_start_matches("$ ").strip_prefix("fullsend ").map(str::to_owned)
            }) else {
                continue;
            };
            let command = command
                .split([';', '>', '<'])
                .next()
                .unwrap_or_default()
                .split(" -- ")
                .next()
                .unwrap_or_default();
            let mut words = words(command);
            words.push("--help".to_owned());
            let ran = world.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, 0, "{}: fullsend {command}: {}", page.display(), ran.err);
            count += 1;
        }
    }
    assert!(count > 20, "{count} commands");
}

/// The words of a command line, with `"…"` as one word.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    // A placeholder that is checked when it is parsed.
    let known = |word: String| match word.as_str() {
        "ID" => "01990000-0000-7000-8000-000000000000".to_owned(),
        _ => word,
    };
    words.map(known).collect()
}

/// A path, or a test in a file: `tests/kept.rs::NAME`.
fn exists(name: &str) -> bool {
    match name.split_once("::") {
        None => root().join(name).exists(),
        Some((file, test)) => {
            fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains(&format!("fn {test}(")))
        }
    }
}

#[test]
fn every_path_and_link_in_the_documents_exists() {
    let mut pages =
        vec![root().join("README.md"), root().join("ARCHITECTURE.md"), root().join("CONTRIBUTING.md")];
    for directory in ["docs", "docs/decisions", "docs/rules"] {
        let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut dead = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let paths = text.split('`').skip(1).step_by(2).filter(|name| {
            let is_path = ["docs/", "crates/", "tests/", "examples/", "schemas/", "bench/"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
            is_path && !name.contains(['<', '*', '{', ' '])
        });
        dead.extend(paths.filter(|name| !exists(name)).map(|name| format!("{}: `{name}`", page.display())));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let local = links
            .map(|link| link.split('#').next().unwrap_or_default())
            .filter(|link| !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:"));
        let directory = page.parent().unwrap();
        dead.extend(
            local
                .filter(|link| !directory.join(link).exists())
                .map(|link| format!("{}: ({link})", page.display())),
        );
    }
    assert!(dead.is_empty(), "these do not exist:\n{}", dead.join("\n"));
}

#[test]
fn decisions_are_numbered_without_gaps() {
    let mut pages: Vec<_> =
        fs::read_dir(root().join("docs/decisions")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    for (number, page) in (1..).zip(pages) {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let title = fs::read_to_string(&page).unwrap();
        assert!(name.starts_with(&format!("{number:04}-")), "{name} should be number {number}");
        assert!(title.starts_with(&format!("# {number}. ")), "{name}: {}", title.lines().next().unwrap());
    }
}
