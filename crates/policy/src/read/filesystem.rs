//! The paths of a policy: absolute, plain, each once.

use yaml::{Diagnostic, Spanned};

use super::Reader;
use crate::file::FilesystemFile;
use crate::model::Filesystem;

const MAX_PATHS: usize = 256;
const MAX_PATH_BYTES: usize = 4096;

impl Reader {
    pub(super) fn filesystem(&mut self, file: &FilesystemFile) -> Filesystem {
        let FilesystemFile { include_workdir, read_only, read_write } = file;
        let read_only = self.paths("read_only", read_only);
        let read_write = self.paths("read_write", read_write);
        for path in read_write.iter().filter(|path| path.value == "/") {
            self.error("path", path.at, "`filesystem_policy.read_write` cannot hold `/`");
        }
        let count = read_only.len() + read_write.len();
        if let (true, Some(last)) = (count > MAX_PATHS, read_write.last().or(read_only.last())) {
            self.error(
                "too-many",
                last.at,
                format!("`filesystem_policy` lists {count} paths; at most {MAX_PATHS} are allowed"),
            );
        }
        self.duplicates(&read_only);
        self.duplicates(&read_write);
        self.writable_after_all(&read_only, &read_write);
        Filesystem { include_workdir: include_workdir.clone(), read_only, read_write }
    }

    fn paths(&mut self, list: &str, paths: &[Spanned<String>]) -> Vec<Spanned<String>> {
        paths.iter().filter_map(|path| self.path(list, path)).collect()
    }

    fn path(&mut self, list: &str, path: &Spanned<String>) -> Option<Spanned<String>> {
        let problem = if !path.starts_with('/') {
            "must be absolute"
        } else if path.split('/').any(|component| component == "..") {
            "must not contain `..`"
        } else if path.len() > MAX_PATH_BYTES {
            "must not be longer than 4096 bytes"
        } else if path.contains('\0') {
            "must not contain a NUL"
        } else {
            let components: Vec<&str> =
                path.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
            return Some(Spanned { value: format!("/{}", components.join("/")), at: path.at });
        };
        self.error("path", path.at, format!("a path of `filesystem_policy.{list}` {problem}"));
        None
    }

    fn duplicates(&mut self, paths: &[Spanned<String>]) {
        for (index, path) in paths.iter().enumerate() {
            if let Some(first) = paths[..index].iter().find(|first| first.value == path.value) {
                let problem = Diagnostic::warning(
                    "duplicate",
                    path.at,
                    format!("`{path}` is listed twice", path = path.value),
                );
                self.report(problem.related(first.at, "first listed here"));
            }
        }
    }

    /// Rights add up: what may be written through one entry is not made read-only by another.
    fn writable_after_all(&mut self, read_only: &[Spanned<String>], read_write: &[Spanned<String>]) {
        for path in read_only {
            if let Some(writable) = read_write.iter().find(|writable| beneath(path, writable)) {
                let message = format!("`{}` stays writable, because `{}` is", path.value, writable.value);
                self.report(
                    Diagnostic::warning("still-writable", path.at, message)
                        .related(writable.at, "writable from here down"),
                );
            }
        }
    }
}

/// Whether `path` is `directory` or lies below it. Both are as this module writes them.
pub(crate) fn beneath(path: &str, directory: &str) -> bool {
    match path.strip_prefix(directory) {
        Some(rest) => rest.is_empty() || directory == "/" || rest.starts_with('/'),
        None => false,
    }
}
