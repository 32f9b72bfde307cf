//! Every dependency has a licence that `deny.toml` allows, comes from the registry, and is not banned.

use std::fs;
use std::process::Command;

use serde_json::Value as Json;

use crate::support::root;

/// The texts of a list in `deny.toml`.
fn list(key: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    let start = text.find(&format!("\n{key} = [")).unwrap();
    let inner = text[start..].split_once('[').unwrap().1.split_once(']').unwrap().0;
    let words: Vec<String> = inner.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(!words.is_empty(), "{key}");
    words
}

/// Whether a licence expression can be met: one of the choices of an `OR`, all parts of an `AND`.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|licence| allowed.iter().any(|known| known == licence.trim())))
}

#[test]
fn every_dependency_is_allowed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).unwrap();
    let allowed = list("allow");
    let banned = list("deny");
    let registries = list("allow-registry");
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_met(licence, &allowed), "{name} has the licence `{licence}`");
        assert!(!banned.iter().any(|one| one == name), "{name} is banned");
        let source = package["source"].as_str().unwrap_or_default();
        let is_known =
            source.strip_prefix("registry+").is_some_and(|url| registries.iter().any(|one| one == url));
        assert!(source.is_empty() || is_known, "{name} comes from {source}");
    }
}

#[test]
fn a_licence_expression_is_read() {
    let allowed = ["MIT".to_owned(), "ISC".to_owned()];
    for (expression, met) in [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("MIT AND GPL-3.0", false),
        ("", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}
