//! The repository that a session belongs to, as one canonical name: host and path of its remote, or a local id, and the
//! directory below the repository's root.

use std::path::{Path, PathBuf};

use session::Sha256Digest;

/// The name of the repository around a directory.
pub fn repository_id(directory: &Path) -> String {
    let root = directory.ancestors().find(|path| path.join(".git").exists()).unwrap_or(directory);
    let remote = git_config(root).and_then(|config| origin_url(&config)).and_then(|url| canonical(&url));
    let name = remote.unwrap_or_else(|| {
        let digest = Sha256Digest::of(root.as_os_str().as_encoded_bytes()).to_string();
        format!("local:{}", &digest[..16])
    });
    match directory.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => format!("{name}//{}", below.display()),
        _ => name,
    }
}

/// The text of git's configuration. In a worktree `.git` is a file that names the real directory.
fn git_config(root: &Path) -> Option<String> {
    let git = root.join(".git");
    let directory = match std::fs::read_to_string(&git) {
        Ok(text) => {
            let worktree = root.join(text.trim().strip_prefix("gitdir:")?.trim());
            let common = std::fs::read_to_string(worktree.join("commondir")).unwrap_or_default();
            if common.is_empty() { worktree } else { worktree.join(PathBuf::from(common.trim())) }
        }
        Err(_) => git,
    };
    std::fs::read_to_string(directory.join("config")).ok()
}

fn origin_url(config: &str) -> Option<String> {
    let section = config.split("[remote \"origin\"]").nth(1)?;
    let lines = section.lines().take_while(|line| !line.trim_start().starts_with('['));
    let mut urls = lines.filter_map(|line| line.trim().strip_prefix("url")?.trim_start().strip_prefix('='));
    urls.next().map(|url| url.trim().to_owned())
}

/// `host/path` of a remote, without scheme, user, port, `.git` and slashes at the end. All spellings of one remote agree.
fn canonical(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = host.rsplit('@').next().unwrap_or(host);
    let host = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
    let path = path.trim_matches('/').trim_end_matches(".git").trim_end_matches('/');
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_remote_agree() {
        for url in [
            "https://Example.com/acme/widgets.git",
            "https://user:secret@example.com/acme/widgets/",
            "git@example.com:acme/widgets.git",
            "ssh://git@example.com:22/acme/widgets",
        ] {
            assert_eq!(canonical(url).as_deref(), Some("example.com/acme/widgets"), "{url}");
        }
        for url in ["/srv/git/widgets", "file:///srv/git/widgets", ""] {
            assert_eq!(canonical(url), None, "{url}");
        }
    }

    #[test]
    fn a_repository_without_a_remote_has_a_local_id() {
        let one = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        assert!(repository_id(one.path()).starts_with("local:"));
        assert_ne!(repository_id(one.path()), repository_id(other.path()));
    }

    #[test]
    fn the_remote_and_the_subdirectory_name_a_repository() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(".git")).unwrap();
        let config =
            "[remote \"origin\"]\n\tfetch = x\n\turl = git@example.com:acme/widgets.git\n[core]\n\turl = y\n";
        std::fs::write(root.path().join(".git/config"), config).unwrap();
        std::fs::create_dir(root.path().join("api")).unwrap();
        assert_eq!(repository_id(root.path()), "example.com/acme/widgets");
        assert_eq!(repository_id(&root.path().join("api")), "example.com/acme/widgets//api");
    }
}
