//! What kind of project a repository holds, by the files that its tools need: which packages its tests fetch and how
//! people run them.

use std::path::Path;

use serde_json::Value as Json;

/// A file of this size is not written by a person.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// A language of the project.
#[derive(Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub language: &'static str,
    /// The name of the built-in network its packages come from.
    pub network: &'static str,
    /// How people run the tests, if the files say so.
    pub test: Option<String>,
}

/// The toolchains of a repository, those of its root directory.
pub fn detect(repository: &Path) -> Vec<Toolchain> {
    let make = makefile_test(repository);
    let found = [rust, node, python, go, java].into_iter().filter_map(|toolchain| toolchain(repository));
    // What `make test` does covers every language.
    found
        .map(|found| match &make {
            Some(test) => Toolchain { test: Some(test.clone()), ..found },
            None => found,
        })
        .collect()
}

fn rust(repository: &Path) -> Option<Toolchain> {
    let manifest = read(repository, "Cargo.toml")?;
    let workspace = manifest.lines().any(|line| line.trim() == "[workspace]");
    let test = if workspace { "cargo test --workspace" } else { "cargo test" };
    Some(Toolchain { language: "Rust", network: "cargo", test: Some(test.to_owned()) })
}

fn node(repository: &Path) -> Option<Toolchain> {
    let manifest: Json = serde_json::from_str(&read(repository, "package.json")?).unwrap_or_default();
    let manager = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun")]
        .into_iter()
        .find(|(file, _)| repository.join(file).is_file())
        .map_or("npm", |(_, manager)| manager);
    let has_test = manifest["scripts"]["test"].is_string();
    let test = has_test.then(|| format!("{manager} test"));
    Some(Toolchain { language: "JavaScript", network: "npm", test })
}

fn python(repository: &Path) -> Option<Toolchain> {
    let manifests = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini"];
    let texts: Vec<String> = manifests.iter().filter_map(|name| read(repository, name)).collect();
    if texts.is_empty() {
        return None;
    }
    let runner = if repository.join("uv.lock").is_file() { "uv run " } else { "" };
    let names = |word: &str| texts.iter().any(|text| text.contains(word));
    let test = if names("pytest") || repository.join("conftest.py").is_file() {
        Some(format!("{runner}pytest"))
    } else if repository.join("tox.ini").is_file() {
        Some("tox".to_owned())
    } else {
        repository.join("tests").is_dir().then(|| format!("{runner}python3 -m unittest discover"))
    };
    Some(Toolchain { language: "Python", network: "pip", test })
}

fn go(repository: &Path) -> Option<Toolchain> {
    read(repository, "go.mod")?;
    Some(Toolchain { language: "Go", network: "go", test: Some("go test ./...".to_owned()) })
}

fn java(repository: &Path) -> Option<Toolchain> {
    let has = |name: &str| repository.join(name).is_file();
    let test = if has("pom.xml") {
        if has("mvnw") { "./mvnw test" } else { "mvn test" }
    } else if has("build.gradle") || has("build.gradle.kts") {
        if has("gradlew") { "./gradlew test" } else { "gradle test" }
    } else {
        return None;
    };
    Some(Toolchain { language: "Java", network: "maven", test: Some(test.to_owned()) })
}

fn makefile_test(repository: &Path) -> Option<String> {
    let text = read(repository, "Makefile")?;
    text.lines().any(|line| line.starts_with("test:")).then(|| "make test".to_owned())
}

/// The text of a file, if it is a plain file of ordinary size.
fn read(repository: &Path, name: &str) -> Option<String> {
    let path = repository.join(name);
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_MANIFEST_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(files: &[(&str, &str)]) -> Vec<(&'static str, &'static str, Option<String>)> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        detect(directory.path())
            .into_iter()
            .map(|found| (found.language, found.network, found.test))
            .collect()
    }

    #[test]
    fn each_language_is_known_by_its_files() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(detected(&[]), []);
        assert_eq!(
            detected(&[("Cargo.toml", "[package]\nname = \"a\"\n")]),
            [("Rust", "cargo", text("cargo test"))]
        );
        assert_eq!(
            detected(&[("Cargo.toml", "[workspace]\n")]),
            [("Rust", "cargo", text("cargo test --workspace"))]
        );
        let scripts = r#"{"scripts": {"test": "vitest"}}"#;
        assert_eq!(
            detected(&[("package.json", scripts), ("pnpm-lock.yaml", "")]),
            [("JavaScript", "npm", text("pnpm test"))]
        );
        assert_eq!(detected(&[("package.json", "not JSON")]), [("JavaScript", "npm", None)]);
        assert_eq!(
            detected(&[("pyproject.toml", "[tool.pytest.ini_options]\n")]),
            [("Python", "pip", text("pytest"))]
        );
        assert_eq!(detected(&[("requirements.txt", "flask\n")]), [("Python", "pip", None)]);
        assert_eq!(detected(&[("go.mod", "module a\n")]), [("Go", "go", text("go test ./..."))]);
        assert_eq!(detected(&[("pom.xml", "<project/>")]), [("Java", "maven", text("mvn test"))]);
    }

    #[test]
    fn a_makefile_names_the_tests_of_every_language() {
        let files = [("Makefile", "test:\n\tcargo test\n"), ("Cargo.toml", ""), ("package.json", "{}")];
        let tests: Vec<Option<String>> = detected(&files).into_iter().map(|(_, _, test)| test).collect();
        assert_eq!(tests, [Some("make test".to_owned()), Some("make test".to_owned())]);
    }

    #[test]
    fn a_link_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("Cargo.toml")).unwrap();
        assert_eq!(detect(directory.path()), []);
    }
}
