//! `fullsend.lock`: for each harness the digests of its remote resources and images, as they were reviewed. With `--locked` a
//! command uses nothing else.

use yaml::{Spanned, record};

use crate::harness::names::{FormatVersion, Identifier};

/// Its name in the repository's layer.
pub const FILE_NAME: &str = "fullsend.lock";

record! {
    /// The lock file.
    pub struct LockFile {
        /// Version of this format.
        version: Option<FormatVersion>,
        /// What each harness uses.
        harnesses: Vec<LockedHarness>,
    }
}

record! {
    /// What one harness uses.
    pub struct LockedHarness {
        /// Its name.
        name: Spanned<Identifier>,
        /// Files from elsewhere.
        resources: Vec<LockedResource>,
        /// Images in registries.
        images: Vec<LockedImage>,
        /// Tools of MCP servers.
        tools: Vec<LockedTool>,
    }
}

record! {
    /// A file, an archive or the files of a commit.
    pub struct LockedResource {
        /// As the harness writes it.
        url: Spanned<String>,
        /// How it is used: as a file, a directory or a base.
        needed: Spanned<String>,
        /// The digest of its names, modes and contents.
        sha256: Spanned<String>,
    }
}

record! {
    /// An image in a registry.
    pub struct LockedImage {
        /// As the harness writes it.
        name: Spanned<String>,
        /// The digest that the registry has under this name.
        sha256: Spanned<String>,
    }
}

record! {
    /// A tool of an MCP server.
    pub struct LockedTool {
        /// As the model sees it: `mcp__SERVER__TOOL`.
        name: Spanned<String>,
        /// The digest of its description and of the schema of its arguments.
        sha256: Spanned<String>,
    }
}

/// A resource that a harness uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceLock {
    /// With its digest or commit.
    pub url: String,
    pub needed: String,
    pub sha256: String,
}

/// What one harness uses, apart from the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarnessLock {
    pub name: String,
    pub resources: Vec<ResourceLock>,
    /// Names and digests.
    pub images: Vec<(String, String)>,
    /// Names and digests.
    pub tools: Vec<(String, String)>,
}

impl LockFile {
    pub fn harnesses(&self) -> impl Iterator<Item = HarnessLock> {
        self.harnesses.iter().map(|LockedHarness { name, resources, images, tools }| HarnessLock {
            name: name.as_str().to_owned(),
            resources: resources.iter().map(LockedResource::plain).collect(),
            images: images
                .iter()
                .map(|image| (image.name.value.clone(), image.sha256.value.clone()))
                .collect(),
            tools: tools.iter().map(|tool| (tool.name.value.clone(), tool.sha256.value.clone())).collect(),
        })
    }
}

impl LockedResource {
    fn plain(&self) -> ResourceLock {
        let Self { url, needed, sha256 } = self;
        ResourceLock { url: url.value.clone(), needed: needed.value.clone(), sha256: sha256.value.clone() }
    }
}

impl HarnessLock {
    /// Why a resource differs from the locked one, if it does.
    pub fn refuse(&self, found: &ResourceLock) -> Option<String> {
        let same = |entry: &&ResourceLock| entry.url == found.url && entry.needed == found.needed;
        match self.resources.iter().find(same) {
            None => Some(format!("is not in {FILE_NAME}")),
            Some(entry) if entry.sha256 != found.sha256 => {
                Some(format!("has the digest {}, and {FILE_NAME} has {}", found.sha256, entry.sha256))
            }
            Some(_) => None,
        }
    }

    /// The locked digest of an image.
    pub fn image(&self, name: &str) -> Option<&str> {
        self.images.iter().find(|(image, _)| image == name).map(|(_, digest)| digest.as_str())
    }
}

/// The text of the file.
pub fn text(harnesses: &[HarnessLock]) -> String {
    let mut text =
        "# Written by `fullsend lock`. Review a change of this file like a change of code.\nversion: 1\nharnesses:".to_owned();
    if harnesses.is_empty() {
        text.push_str(" []\n");
        return text;
    }
    text.push('\n');
    // URLs and image names contain no characters that JSON strings and YAML strings treat differently.
    let quoted = |value: &str| serde_json::Value::from(value).to_string();
    for HarnessLock { name, resources, images, tools } in harnesses {
        text.push_str(&format!("- name: {}\n", quoted(name)));
        text.push_str(if resources.is_empty() { "  resources: []\n" } else { "  resources:\n" });
        for ResourceLock { url, needed, sha256 } in resources {
            let url = quoted(url);
            text.push_str(&format!("  - url: {url}\n    needed: {needed}\n    sha256: '{sha256}'\n"));
        }
        text.push_str(if images.is_empty() { "  images: []\n" } else { "  images:\n" });
        for (name, sha256) in images {
            text.push_str(&format!("  - name: {}\n    sha256: '{sha256}'\n", quoted(name)));
        }
        // Left out where there are none: older versions do not know the field.
        if !tools.is_empty() {
            text.push_str("  tools:\n");
        }
        for (name, sha256) in tools {
            text.push_str(&format!("  - name: {}\n    sha256: '{sha256}'\n", quoted(name)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use yaml::{Decoder, ParseLimits, Shape, Sources};

    #[test]
    fn what_is_written_is_read_again() {
        let resource = |url: &str| ResourceLock {
            url: url.to_owned(),
            needed: "base".to_owned(),
            sha256: "a".repeat(64),
        };
        let all = [
            HarnessLock { name: "a".to_owned(), ..HarnessLock::default() },
            HarnessLock {
                name: "triage".to_owned(),
                resources: vec![
                    resource("https://example.com/x#sha256=00"),
                    resource("git+https://h/r@0//p: q"),
                ],
                images: vec![("quay.io/acme/x:1".to_owned(), "b".repeat(64))],
                tools: vec![("mcp__calc__add".to_owned(), "c".repeat(64))],
            },
        ];
        for part in [&all[..0], &all[..]] {
            let mut sources = Sources::default();
            let id = sources.add("fullsend.lock", text(part));
            let tree = yaml::parse(&sources, id, ParseLimits::default()).unwrap();
            let file = LockFile::decode(&tree, &mut Decoder::whole()).unwrap();
            assert_eq!(file.harnesses().collect::<Vec<_>>(), part);
        }
        assert_eq!(all[1].refuse(&resource("https://example.com/x#sha256=00")), None);
        assert_eq!(
            all[1].refuse(&resource("https://example.com/y#sha256=00")).unwrap(),
            "is not in fullsend.lock"
        );
        let changed = ResourceLock { sha256: "c".repeat(64), ..resource("https://example.com/x#sha256=00") };
        assert!(all[1].refuse(&changed).unwrap().starts_with("has the digest cccc"));
    }
}
