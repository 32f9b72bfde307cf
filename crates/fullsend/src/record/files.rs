//! The files that a run leaves in its directory beside the log: the accepted patch, output that was not accepted, a saved
//! workspace.

use std::path::{Path, PathBuf};

/// The directories and patches of output that did not become the result.
const KEPT: [&str; 4] = ["rejected", "rejected.patch", "partial", "partial.patch"];

/// The attempts of a run that left a directory, first to last.
pub fn attempts(directory: &Path) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("iteration-")?.parse().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path()))).collect();
    found.sort();
    found
}

/// The patch of the accepted output, below the run's directory.
pub fn accepted_patch(directory: &Path) -> Option<PathBuf> {
    latest(directory, "changes.patch")
}

/// The patch of the last attempt that was rejected or ended early.
pub fn unaccepted_patch(directory: &Path) -> Option<PathBuf> {
    latest(directory, "rejected.patch").or_else(|| latest(directory, "partial.patch"))
}

fn latest(directory: &Path, name: &str) -> Option<PathBuf> {
    attempts(directory).into_iter().rev().map(|(_, path)| path.join(name)).find(|path| path.is_file())
}

/// The rejected or partial files of the last attempt, as paths below the run's directory. Empty directories are left
/// out.
pub fn kept(directory: &Path) -> Vec<String> {
    let Some((number, last)) = attempts(directory).pop() else { return Vec::new() };
    let holds_something =
        |path: &Path| path.is_file() || path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    let there = KEPT.iter().filter(|name| holds_something(&last.join(name)));
    there.map(|name| format!("iteration-{number}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_counts() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        assert_eq!((kept(place.path()), accepted_patch(place.path())), (Vec::new(), None));
        write("iteration-2/rejected/a");
        write("iteration-9/rejected.patch");
        write("iteration-10/partial/a");
        std::fs::create_dir_all(place.path().join("iteration-10/rejected")).unwrap();
        assert_eq!(kept(place.path()), ["iteration-10/partial"]);
        assert_eq!(unaccepted_patch(place.path()), Some(place.path().join("iteration-9/rejected.patch")));
        write("iteration-3/changes.patch");
        assert_eq!(accepted_patch(place.path()), Some(place.path().join("iteration-3/changes.patch")));
    }
}
