//! The branch and commit of a repository, read from git's own files without running git. An agent may have written the
//! files: everything in them is checked, and no link is followed.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::directory::{common, directory};
use sandbox::open_beneath;

const MAX_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Without `refs/heads/`; `None` if no branch is checked out.
    pub branch: Option<String>,
    /// `None` where the branch has no commit yet.
    pub commit: Option<String>,
}

/// `git` is a git directory, `common` the directory that its worktrees share. `None` if there is no valid head.
pub fn head(git: BorrowedFd<'_>, common: BorrowedFd<'_>) -> Option<Head> {
    let text = text(git, "HEAD")?;
    let text = text.trim();
    if is_commit(text) {
        return Some(Head { branch: None, commit: Some(text.to_owned()) });
    }
    let branch = text.strip_prefix("ref: refs/heads/").filter(|name| is_branch(name))?;
    let commit = commit_of(common, &format!("refs/heads/{branch}"));
    Some(Head { branch: Some(branch.to_owned()), commit })
}

/// The head of a repository on the host; `None` if it is not one.
pub fn of_host(repository: &Path) -> Option<Head> {
    let directory = directory(repository)?;
    let open = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    head(open(&directory)?.as_fd(), open(&common(&directory))?.as_fd())
}

fn commit_of(common: BorrowedFd<'_>, reference: &str) -> Option<String> {
    let loose = text(common, reference).map(|text| text.trim().to_owned()).filter(|text| is_commit(text));
    loose.or_else(|| {
        let packed = text(common, "packed-refs")?;
        packed.lines().find_map(|line| {
            let (commit, name) = line.split_once(' ')?;
            (name == reference && is_commit(commit)).then(|| commit.to_owned())
        })
    })
}

fn text(from: BorrowedFd<'_>, path: &str) -> Option<String> {
    let mut text = String::new();
    let file = open_beneath(from, path, OFlags::RDONLY).ok()?;
    std::fs::File::from(file).take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

pub(super) fn is_commit(text: &str) -> bool {
    (text.len() == 40 || text.len() == 64)
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Stricter than git: letters, digits and a few signs, no part that begins or ends with a dot or a dash.
fn is_branch(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.len() <= 200
        && name.split('/').all(|part| {
            !part.is_empty()
                && part.chars().all(plain)
                && !part.starts_with(['.', '-'])
                && !part.ends_with('.')
                && !part.contains("..")
                && !part.ends_with(".lock")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_and_nothing_strange_is_believed() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let one = "a".repeat(40);
        let two = "b".repeat(40);
        let read = || {
            let git = rustix::fs::open(place.path(), OFlags::PATH, Mode::empty()).unwrap();
            head(git.as_fd(), git.as_fd())
        };
        let at = |branch: Option<&str>, commit: Option<&str>| {
            Some(Head { branch: branch.map(str::to_owned), commit: commit.map(str::to_owned) })
        };
        assert_eq!(read(), None);
        write("HEAD", &format!("{one}\n"));
        assert_eq!(read(), at(None, Some(&one)));
        write("HEAD", "ref: refs/heads/fix/one\n");
        assert_eq!(read(), at(Some("fix/one"), None));
        write("packed-refs", &format!("# pack-refs\n{two} refs/heads/fix/one\n^{one}\n"));
        assert_eq!(read(), at(Some("fix/one"), Some(&two)));
        write("refs/heads/fix/one", &one);
        assert_eq!(read(), at(Some("fix/one"), Some(&one)));
        for strange in ["../x", "-x", "x..y", "x.lock", "a b", "x\u{7}", "/x", "x/", ".x", "--upload-pack=x"]
        {
            write("HEAD", &format!("ref: refs/heads/{strange}\n"));
            assert_eq!(read(), None, "{strange}");
        }
        std::fs::remove_file(place.path().join("HEAD")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", place.path().join("HEAD")).unwrap();
        assert_eq!(read(), None);
    }
}
