//! A repository in a sandbox: usable there, rewritten, without secrets and hooks; on the host byte for byte as before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::attack_rows::{AttackRow, held};
use crate::sandboxes::{BOTH, picture, sandbox};
use crate::support::{Who, World, skip};

fn git(directory: &Path, arguments: &[&str]) -> Option<()> {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=main"])
        .args(["-c", "safe.directory=*", "-c", "core.fsmonitor=false"])
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
fn make(world: &World, name: &str) -> Option<()> {
    let root = world.path(name);
    fs::create_dir_all(root.join("src")).unwrap();
    if git(&root, &["init", "-q"]).is_none() {
        skip("repositories", "no git on this machine");
        return None;
    }
    for (path, text) in
        [("src/main.rs", "fn main() {}\n"), (".env.test", "KEY=\n"), ("README.md", "read me\n")]
    {
        fs::write(root.join(path), text).unwrap();
    }
    git(&root, &["add", "."]).unwrap();
    git(&root, &["commit", "-qm", "first"]).unwrap();
    for (path, text) in [(".env", "KEY=secret\n"), ("src/key.pem", "secret\n"), ("untracked", "kept\n")] {
        fs::write(root.join(path), text).unwrap();
    }
    fs::hard_link(root.join("src/key.pem"), root.join("src/notes.txt")).unwrap();
    let hook = root.join(".git/hooks/post-commit");
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::write(&hook, "#!/bin/sh\ntouch /tmp/hook-ran\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    git(&root, &["config", "core.fsmonitor", "/tmp/evil"]).unwrap();
    git(&root, &["config", "http.https://host/.extraheader", "AUTHORIZATION: basic c2VjcmV0"]).unwrap();
    git(&root, &["remote", "add", "origin", "https://user:secret@host/x.git"]).unwrap();
    Some(())
}

/// Runs a script in the repository's view. The first run gives the world's files to the user.
fn shown(world: &World, who: Who, script: &str) -> Option<crate::support::Ran> {
    sandbox(world, who, &[], &["sh", "-c", script])
}

#[test]
fn a_run_that_destroys_everything_leaves_the_host_identical() {
    for who in BOTH {
        let world = World::new();
        let Some(()) = make(&world, "repo") else { return };
        if shown(&world, who, "true").is_none() {
            continue;
        }
        let before = picture(&world.path("repo"));
        let script = "for f in $(find . -type f); do echo broken >$f; chmod 777 $f; done; \
                      rm -rf .git src README.md && mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit && \
                      ln -s /etc .claude && mkfifo pipe && ls -A";
        let ran = shown(&world, who, script).unwrap();
        assert_eq!(ran.out, ".claude\n.env.test\n.git\npipe\nuntracked\n", "{}", ran.err);
        assert_eq!(picture(&world.path("repo")), before, "the host's repository changed");
    }
}

#[test]
fn secrets_hooks_and_commands_of_a_repository_are_gone() {
    for who in BOTH {
        let world = World::new();
        let Some(()) = make(&world, "repo") else { return };
        let script = "find . -path ./.git -prune -o -type f -print | sort && ls -A .git/hooks && \
                      git status --short && git -c user.name=A -c user.email=a@b commit -q --allow-empty -m second && \
                      git log --format=%s && git remote -v && ! test -e /tmp/hook-ran && \
                      ! grep -rq -e secret -e evil -e c2VjcmV0 .git/config .git/hooks";
        let Some(ran) = shown(&world, who, script) else { continue };
        let expected = "./.env.test\n./README.md\n./src/main.rs\n./untracked\n?? untracked\nsecond\nfirst\n\
                        origin\thttps://host/x.git (fetch)\norigin\thttps://host/x.git (push)\n";
        assert_eq!((ran.out.as_str(), ran.code), (expected, 0), "{}", ran.err);
    }
}

#[test]
fn a_linked_worktree_works() {
    for who in BOTH {
        let world = World::new();
        let Some(()) = make(&world, "main") else { return };
        fs::remove_dir(world.path("repo")).unwrap();
        let linked = world.path("repo");
        git(&world.path("main"), &["worktree", "add", "-q", linked.to_str().unwrap()]).unwrap();
        if shown(&world, who, "true").is_none() {
            continue;
        }
        let before = picture(&world.path("main"));
        let script = "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m second && \
                      git log --format=%s && git branch --show-current";
        let ran = shown(&world, who, script).unwrap();
        assert_eq!(ran.out, "second\nfirst\nrepo\n", "{}", ran.err);
        assert_eq!(picture(&world.path("main")), before, "the main repository changed");
    }
}

#[test]
fn borrowed_objects_are_found() {
    for who in BOTH {
        let world = World::new();
        let Some(()) = make(&world, "lender") else { return };
        let lender = world.path("lender");
        let borrower = world.path("repo");
        open_to_everyone(&world.path(""));
        let arguments = ["clone", "-q", "--shared", lender.to_str().unwrap(), borrower.to_str().unwrap()];
        git(&world.path("home"), &arguments).unwrap();
        let Some(ran) = shown(&world, who, "git log --format=%s && git fsck 2>&1") else { continue };
        assert_eq!(ran.out, "first\n", "{}", ran.err);
    }
}

fn open_to_everyone(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whoever writes the alternates may also change the modes of the repository's own directories.
#[test]
fn objects_of_a_private_repository_are_not_borrowed() {
    for who in BOTH {
        for private in ["vault", "vault/hidden", "vault/hidden/.git", "vault/hidden/.git/objects"] {
            let world = World::new();
            let Some(()) = make(&world, "repo") else { return };
            let Some(()) = make(&world, "vault/hidden") else { return };
            open_to_everyone(&world.path(""));
            let store = world.path("vault/hidden/.git/objects").display().to_string();
            world.write("repo/.git/objects/info/alternates", format!("{store}\n"));
            let script = format!("test -e {store}/info && echo visible; true");
            let Some(ran) = shown(&world, who, &script) else { continue };
            assert_eq!(ran.out, "visible\n", "an open store is borrowed: {}", ran.err);
            let only_owner = || fs::Permissions::from_mode(0o700);
            fs::set_permissions(world.path(private), only_owner()).unwrap();
            fs::set_permissions(world.path("repo/.git/objects"), only_owner()).unwrap();
            let ran = shown(&world, who, &script).unwrap();
            assert_eq!(ran.out, "", "{private}: {}", ran.err);
        }
    }
}

/// A directory of the host that the sandbox must not see, with a file in it.
fn private(world: &World, path: &str) -> String {
    world.write(&format!("{path}/secret"), "private words\n");
    fs::set_permissions(world.path(path), fs::Permissions::from_mode(0o700)).unwrap();
    world.path(path).display().to_string()
}

#[test]
fn a_repository_does_not_choose_directories_of_the_host_by_its_alternates() {
    for who in BOTH {
        let world = World::new();
        let Some(()) = make(&world, "repo") else { return };
        let Some(()) = make(&world, "lender") else { return };
        open_to_everyone(&world.path(""));
        let plain = private(&world, "private");
        let shaped = private(&world, "shaped/objects");
        world.write("shaped/HEAD", "ref: refs/heads/main\n");
        fs::create_dir_all(world.path("shaped/refs")).unwrap();
        // A store that is open, with a file in it that is not an object.
        world.write("lender/.git/objects/secret", "private words\n");
        world.write("lender/.git/objects/pack/notes.txt", "private words\n");
        let open = world.path("lender/.git/objects").display().to_string();
        let parent = world.path("").display().to_string();
        world.write(
            "repo/.git/objects/info/alternates",
            format!("{plain}\n{shaped}\n{open}\n{parent}\n/\n/etc\n"),
        );
        let script = format!(
            "grep -r 'private words' {} 2>/dev/null; cat {plain}/secret {shaped}/secret {open}/secret; \
             git log --format=%s; git fsck 2>&1",
            world.path("").display()
        );
        let Some(ran) = shown(&world, who, &script) else { continue };
        assert!(!ran.out.contains("private words"), "{}", ran.out);
        assert!(ran.out.contains("first\n"), "{} {}", ran.out, ran.err);
        held(AttackRow::RepositoryChoosesDirectories, who);
    }
}

#[test]
fn a_git_file_leads_only_to_a_directory_that_names_the_repository() {
    for who in BOTH {
        for (name, pointer) in [("a private directory", "private"), ("another repository", "other/.git")] {
            let world = World::new();
            let Some(()) = make(&world, "other") else { return };
            private(&world, "private");
            world.write("other/.git/secret", "private words\n");
            world.write("repo/.git", format!("gitdir: {}\n", world.path(pointer).display()));
            let script = format!("grep -r 'private words' {} 2>/dev/null", world.path("").display());
            let Some(ran) = shown(&world, who, &script) else { continue };
            assert_eq!(ran.code, 8, "{name}: {} {}", ran.out, ran.err);
            assert!(ran.err.contains("does not name this working tree"), "{name}: {}", ran.err);
        }
        // A stranger's own worktree directory leads to another repository's common one.
        let world = World::new();
        let Some(()) = make(&world, "other") else { return };
        world.write("repo/.git", "gitdir: evil\n");
        world.write("repo/evil/HEAD", "ref: refs/heads/main\n");
        world.write("repo/evil/gitdir", world.path("repo/.git").display().to_string());
        world.write("repo/evil/commondir", world.path("other/.git").display().to_string());
        let Some(ran) = shown(&world, who, "true") else { continue };
        assert_eq!(ran.code, 8, "{} {}", ran.out, ran.err);
    }
}

#[test]
fn a_submodule_works_by_itself() {
    for who in BOTH {
        let world = World::new();
        let Some(()) = make(&world, "library") else { return };
        let Some(()) = make(&world, "outer") else { return };
        let library = world.path("library").display().to_string();
        let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", &library, "repo"];
        git(&world.path("outer"), &add).unwrap();
        fs::remove_dir(world.path("repo")).unwrap();
        std::os::unix::fs::symlink("outer/repo", world.path("repo")).unwrap();
        let Some(ran) = shown(&world, who, "git log --format=%s") else { continue };
        assert_eq!(ran.out, "first\n", "{}", ran.err);
    }
}
