//! What a patch changes: its files, and the lines added and removed in each.

use super::figures::count;

/// The most files that are named.
const MAX_FILES: usize = 20;

/// One file of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchedFile {
    pub path: String,
    pub added: u64,
    pub removed: u64,
}

/// The files of a patch as git writes it.
pub fn changed_files(patch: &str) -> Vec<PatchedFile> {
    let mut files: Vec<PatchedFile> = Vec::new();
    // Lines left in the hunk, old and new: a line of text that looks like a header is text.
    let mut left = (0_u64, 0_u64);
    for line in patch.lines() {
        if left != (0, 0) {
            let Some(file) = files.last_mut() else { continue };
            match line.as_bytes().first() {
                Some(b'+') => {
                    file.added += 1;
                    left.1 = left.1.saturating_sub(1);
                }
                Some(b'-') => {
                    file.removed += 1;
                    left.0 = left.0.saturating_sub(1);
                }
                Some(b'\\') => {}
                _ => left = (left.0.saturating_sub(1), left.1.saturating_sub(1)),
            }
        } else if let Some(names) = line.strip_prefix("diff --git ") {
            files.push(PatchedFile { path: path_of(names), ..PatchedFile::default() });
        } else if line.starts_with("@@ ") {
            left = hunk(line).unwrap_or_default();
        }
    }
    files
}

/// `a/src/x.rs b/src/x.rs`: the new name.
fn path_of(names: &str) -> String {
    let new = names.rsplit_once(" b/").or_else(|| names.rsplit_once(" \"b/")).map_or(names, |(_, new)| new);
    new.trim_end_matches('"').to_owned()
}

/// `@@ -1,3 +1,4 @@`: how many old and new lines follow.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let mut ranges = line.trim_start_matches("@@ ").split(' ');
    let mut length = |sign: char| -> Option<u64> {
        let range = ranges.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok())
    };
    Some((length('-')?, length('+')?))
}

/// `2 files changed, 10 lines added, 3 removed`.
pub fn total(files: &[PatchedFile]) -> String {
    let added = files.iter().map(|file| file.added).sum();
    let removed: u64 = files.iter().map(|file| file.removed).sum();
    format!(
        "{} changed, {} added, {removed} removed",
        count(files.len() as u64, "file"),
        count(added, "line")
    )
}

/// One line for each file, then the total.
pub fn table(files: &[PatchedFile]) -> Vec<String> {
    let width = files.iter().take(MAX_FILES).map(|file| file.path.chars().count()).max().unwrap_or(0).min(60);
    let row = |file: &PatchedFile| format!("{:width$}  +{} -{}", file.path, file.added, file.removed);
    let mut rows: Vec<String> = files.iter().take(MAX_FILES).map(row).collect();
    if files.len() > MAX_FILES {
        rows.push(format!("and {} more", files.len() - MAX_FILES));
    }
    rows.push(total(files));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_text_that_look_like_headers_are_counted_as_text() {
        let patch = "diff --git a/one.md b/one.md\nindex 1..2 100644\n--- a/one.md\n+++ b/one.md\n\
            @@ -1,3 +1,3 @@\n same\n--- old\n+++ new\n+diff --git a/x b/x\n-@@ -1 +1 @@\n\\ No newline at end of file\n\
            diff --git \"a/\\303\\266.txt\" \"b/\\303\\266.txt\"\nnew file mode 100644\n@@ -0,0 +1 @@\n+x\n\
            diff --git a/picture.png b/picture.png\nBinary files differ\n";
        let file = |path: &str, added, removed| PatchedFile { path: path.to_owned(), added, removed };
        let files = changed_files(patch);
        assert_eq!(files, [file("one.md", 2, 2), file("\\303\\266.txt", 1, 0), file("picture.png", 0, 0)]);
        assert_eq!(total(&files), "3 files changed, 3 lines added, 2 removed");
        assert_eq!(table(&files)[0], "one.md        +2 -2");
        assert_eq!(total(&changed_files("")), "0 files changed, 0 lines added, 0 removed");
    }
}
