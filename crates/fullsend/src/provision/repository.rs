//! The agent's view of the repository: a copy-on-write view of the working tree as it is. The host's files are never
//! written to, hooks are gone, git's configuration is our own, and files that look like secrets are not there.

use std::path::{Path, PathBuf};

use sandbox::{CopyOnWrite, Edit, Mount, MountKind};

use crate::harness::Harness;

/// Configuration without hooks, filters, aliases or addresses.
const GIT_CONFIG: &[u8] =
    b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\thooksPath = /dev/null\n";

/// The name of the repository's directory inside.
pub fn name(repository: &Path) -> String {
    let name = repository.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    let taken = ["", ".", "..", "output", "agent-input", ".env", ".env.d", ".claude", "bin"];
    if taken.contains(&clean.as_str()) { "repository".to_owned() } else { clean }
}

pub fn view(harness: &Harness, repository: &Path, name: &str) -> Mount {
    let target = PathBuf::from("/sandbox/workspace").join(name);
    if harness.readonly_repo.value {
        return Mount { target, kind: MountKind::ReadOnly { source: repository.to_owned() } };
    }
    let memory_bytes = harness.sandbox.limits.disk_mb.get() << 20;
    Mount {
        target,
        kind: MountKind::CopyOnWrite(CopyOnWrite {
            source: repository.to_owned(),
            edits: edits(repository),
            memory_bytes,
        }),
    }
}

fn edits(repository: &Path) -> Vec<Edit> {
    let mut edits = Vec::new();
    if repository.join(".git").is_dir() {
        edits.push(Edit::EmptyDirectory { path: ".git/hooks".into() });
        edits.push(Edit::Write { path: ".git/config".into(), contents: GIT_CONFIG.to_vec(), mode: 0o644 });
    }
    edits.extend(secret_files(repository).into_iter().map(|path| Edit::Remove { path }));
    edits
}

/// Files at the root whose names say that they hold secrets.
fn secret_files(repository: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository).into_iter().flatten().flatten();
    entries
        .map(|entry| PathBuf::from(entry.file_name()))
        .filter(|name| looks_secret(&name.to_string_lossy()))
        .collect()
}

fn looks_secret(name: &str) -> bool {
    let public = name.ends_with(".example") || name.ends_with(".sample") || name.ends_with(".pub");
    let known = [".netrc", ".npmrc", ".pypirc"].contains(&name);
    !public && (known || name.starts_with(".env") || name.ends_with(".pem") || name.starts_with("id_"))
}
