//! A repository in a sandbox: usable there, rewritten, without secrets and hooks; on the host byte for byte as before.

use crate::runner::{Case, skip};
use crate::world::{World, shell};
use sandbox::repository::Repository;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_run_that_destroys_everything_leaves_the_host_identical", run: destroyed },
    Case { name: "secrets_hooks_and_commands_of_a_repository_are_gone", run: cleaned },
    Case { name: "a_linked_worktree_works", run: linked_worktree },
    Case { name: "borrowed_objects_are_found", run: alternates },
];

fn git(directory: &Path, arguments: &[&str]) -> Option<()> {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", directory)
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// A repository with a tracked and an untracked secret, a hook, and a configuration that runs things.
fn make(world: &World, name: &str) -> Option<PathBuf> {
    let root = world.make_directory(name);
    let Some(()) = git(&root, &["init", "-q"]) else {
        skip("repositories: no git on this machine");
        return None;
    };
    std::fs::create_dir(root.join("src")).unwrap();
    for (path, text) in
        [("src/main.rs", "fn main() {}\n"), (".env.test", "KEY=\n"), ("README.md", "read me\n")]
    {
        std::fs::write(root.join(path), text).unwrap();
    }
    git(&root, &["add", "."]).unwrap();
    git(&root, &["commit", "-qm", "first"]).unwrap();
    for (path, text) in [(".env", "KEY=secret\n"), ("src/key.pem", "secret\n"), ("untracked", "kept\n")] {
        std::fs::write(root.join(path), text).unwrap();
    }
    std::fs::write(root.join(".git/hooks/post-commit"), "#!/bin/sh\ntouch /tmp/hook-ran\n").unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(root.join(".git/hooks/post-commit"), executable).unwrap();
    git(&root, &["config", "core.fsmonitor", "/tmp/evil"]).unwrap();
    git(&root, &["config", "http.https://host/.extraheader", "AUTHORIZATION: basic c2VjcmV0"]).unwrap();
    git(&root, &["remote", "add", "origin", "https://user:secret@host/x.git"]).unwrap();
    Some(root)
}

fn show(world: &World, root: &Path, keep: &[PathBuf]) -> sandbox::Sandbox {
    let view = Repository::read(root).unwrap().view(Path::new("/work/repo"), keep, 64 << 20);
    let mut spec = world.spec();
    spec.mounts.extend(view.mounts);
    spec.environment.push(("HOME".into(), "/tmp".into()));
    world.start(spec)
}

/// Everything that can be seen of a tree: kinds, modes, owners, times, contents.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let contents = match metadata.file_type() {
            kind if kind.is_dir() => {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            kind if kind.is_symlink() => {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => std::fs::read(&path).unwrap(),
        };
        let facts = (metadata.mode(), metadata.uid(), metadata.mtime(), metadata.mtime_nsec(), contents);
        all.insert(path, facts);
    }
    all
}

fn destroyed(world: &World) {
    let Some(root) = make(world, "repo") else { return };
    let before = snapshot(&root);
    let sandbox = show(world, &root, &[]);
    let script = "cd /work/repo && for f in $(find . -type f); do echo broken >$f; chmod 777 $f; done; \
                  rm -rf .git src README.md && mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit && \
                  ln -s /etc .claude && mkfifo pipe && ls -A";
    let output = shell(&sandbox, script);
    assert_eq!(output.stdout, ".claude\n.env.test\n.git\npipe\nuntracked\n", "{output:?}");
    sandbox.close().unwrap();
    assert!(snapshot(&root) == before, "the host's repository changed");
}

fn cleaned(world: &World) {
    let Some(root) = make(world, "repo") else { return };
    let repository = Repository::read(&root).unwrap();
    assert_eq!(repository.secrets, [PathBuf::from(".env"), PathBuf::from("src/key.pem")]);
    let sandbox = show(world, &root, &["src/key.pem".into()]);
    let script = "cd /work/repo && find . -path ./.git -prune -o -type f -print | sort && ls -A .git/hooks && \
                  git status --short && git -c user.name=A -c user.email=a@b commit -q --allow-empty -m second && git log --format=%s && git remote -v \
                  && ! test -e /tmp/hook-ran && ! grep -rq -e secret -e evil -e c2VjcmV0 .git/config .git/hooks";
    let output = shell(&sandbox, script);
    let expected = "./.env.test\n./README.md\n./src/key.pem\n./src/main.rs\n./untracked\n\
                    ?? src/key.pem\n?? untracked\nsecond\nfirst\n\
                    origin\thttps://host/x.git (fetch)\norigin\thttps://host/x.git (push)\n";
    assert_eq!((output.stdout.as_str(), output.exit.success()), (expected, true), "{output:?}");
    sandbox.close().unwrap();
}

fn linked_worktree(world: &World) {
    let Some(root) = make(world, "repo") else { return };
    let linked = world.directory.join("linked");
    git(&root, &["-c", "core.fsmonitor=false", "worktree", "add", "-q", linked.to_str().unwrap()]).unwrap();
    let before = snapshot(&root);
    let sandbox = show(world, &linked, &[]);
    let script = "cd /work/repo && git -c user.name=A -c user.email=a@b commit -q --allow-empty -m second && \
                  git log --format=%s && git branch --show-current";
    let output = shell(&sandbox, script);
    assert_eq!(output.stdout, "second\nfirst\nlinked\n", "{output:?}");
    sandbox.close().unwrap();
    assert!(snapshot(&root) == before, "the main repository changed");
}

fn alternates(world: &World) {
    let Some(root) = make(world, "repo") else { return };
    let borrowed = world.directory.join("borrowed");
    let arguments = ["clone", "-q", "--shared", root.to_str().unwrap(), borrowed.to_str().unwrap()];
    git(&world.directory, &arguments).unwrap();
    let sandbox = show(world, &borrowed, &[]);
    let output = shell(&sandbox, "cd /work/repo && git log --format=%s && git fsck 2>&1");
    assert_eq!(output.stdout, "first\n", "{output:?}");
    sandbox.close().unwrap();
}
