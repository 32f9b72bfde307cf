//! What an agent changes in the repository is output: a patch that applies, a checkout in which git is safe to run, and
//! nothing on the host's own tree. A fresh attempt finds the repository as it was, an appended one as it was left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::{World, copy};

/// A git repository with two files and one commit, whose agent runs `commands` and then finishes.
fn world(commands: &str, more: &str) -> World {
    let scenario = json!({ "turns": [
        [{ "shell": commands }],
        [{ "finish": { "summary": "done" } }],
    ] });
    let world = World::scripted(more, scenario);
    world.write("repo/one.txt", "one\n");
    world.write("repo/src/two.txt", "two\n");
    world.write("repo/.gitignore", "build/\n");
    git(&world.path("repo"), &["init", "--quiet", "--initial-branch=main"]);
    git(&world.path("repo"), &["add", "-A"]);
    git(&world.path("repo"), &["commit", "--quiet", "-m", "first"]);
    world
}

fn git(directory: &Path, words: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args(words)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn iteration(world: &World, number: u32) -> PathBuf {
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    run.join(format!("iteration-{number}"))
}

#[test]
fn changes_are_a_patch_that_applies_and_a_checkout() {
    let commands = "echo more >> one.txt; rm src/two.txt; mkdir new; printf 'x\\0y' > new/bytes; chmod +x one.txt; \
                    mkdir build; echo product > build/product";
    let world = world(commands, "post_script: scripts/post.sh\n");
    world.script(
        "repo/.fullsend/scripts/post.sh",
        "#!/bin/sh\nset -eu\ncd \"$REPO_DIR\"\ngit status --short\ntest -s \"$FULLSEND_CHANGES\"\n",
    );
    let clean = world.path("clean");
    copy(&world.path("repo"), &clean);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(git(&world.path("repo"), &["status", "--short"]).trim(), "?? .fullsend/scripts/");
    let place = iteration(&world, 1);
    let patch = place.join("changes.patch");
    git(&clean, &["apply", patch.to_str().unwrap()]);
    for changed in [&clean, &place.join("repository")] {
        assert_eq!(fs::read_to_string(changed.join("one.txt")).unwrap(), "one\nmore\n");
        assert!(!changed.join("src/two.txt").exists() && !changed.join("build").exists());
        assert_eq!(fs::read(changed.join("new/bytes")).unwrap(), b"x\0y");
    }
    let said = fs::read_to_string(place.with_file_name("post_script.log")).unwrap();
    assert_eq!(said, " M one.txt\n D src/two.txt\n?? new/\n");
    let record: Json = serde_json::from_slice(&fs::read(place.with_file_name("run.json")).unwrap()).unwrap();
    let listed = record["artifacts"].as_array().unwrap().iter();
    assert_eq!(listed.filter(|one| one["path"] == "iteration-1/changes.patch").count(), 1);
    assert!(!place.join("changed").exists());
    assert_eq!(world.run(&["runs", "verify"]).code, 0);
}

#[test]
fn nothing_that_an_agent_plants_runs_in_the_checkout() {
    let plant = "for hook in post-checkout pre-commit post-index-change reference-transaction; do \
        printf '#!/bin/sh\\ntouch /tmp/PLANTED' > .git/hooks/$hook; chmod +x .git/hooks/$hook; done; \
        git config core.fsmonitor 'touch /tmp/PLANTED'; git config core.hooksPath .git/hooks; \
        git config filter.evil.smudge 'touch /tmp/PLANTED'; git config filter.evil.clean 'touch /tmp/PLANTED'; \
        git config alias.status '!touch /tmp/PLANTED'; git config include.path /nonexistent/config; \
        git config core.sshCommand 'touch /tmp/PLANTED'; git config diff.external 'touch /tmp/PLANTED'; \
        echo '* filter=evil' > .gitattributes; ln -s /etc/passwd passwd; ln -s ../../.. up; \
        mkdir nested; echo 'gitdir: /etc' > nested/.git; echo x > nested/file; \
        printf '[submodule \"x\"]\\n\\tpath = ../../x\\n\\turl = ext::touch\\n' > .gitmodules; echo more >> one.txt; \
        git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c user.name=a -c user.email=a@b add one.txt; \
        git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c user.name=a -c user.email=a@b commit -qm 'by the agent'";
    let world = world("sh plant.sh", "");
    world.write("repo/plant.sh", plant);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let checkout = iteration(&world, 1).join("repository");
    let marker = Path::new("/tmp/PLANTED");
    assert!(!marker.exists());
    let log = git(&checkout, &["log", "--format=%s"]);
    assert_eq!(log, "by the agent\nfirst\n", "its commits come along");
    for words in
        [&["status"][..], &["diff"], &["add", "-A"], &["commit", "-qm", "x"], &["checkout", "-q", "-b", "b"]]
    {
        git(&checkout, words);
    }
    assert!(!marker.exists(), "something that the agent planted was run");
    for link in ["passwd", "up"] {
        assert!(fs::symlink_metadata(checkout.join(link)).unwrap().is_file(), "{link} is no link any more");
    }
    assert!(!checkout.join("nested/.git").exists() && checkout.join("nested/file").exists());
    let config = fs::read_to_string(checkout.join(".git/config")).unwrap();
    assert!(!config.contains("PLANTED") && !config.contains("include"), "{config}");
}

#[test]
fn a_commit_without_its_objects_is_not_published() {
    let commands = "echo more >> one.txt; git -c user.name=a -c user.email=a@b commit -qam x; \
                    rm -f .git/objects/$(git rev-parse HEAD^{tree} | cut -c1-2)/$(git rev-parse HEAD^{tree} | cut -c3-)";
    let world = world(commands, "post_script: scripts/post.sh\n");
    world.script("repo/.fullsend/scripts/post.sh", "#!/bin/sh\ntouch \"$TARGET_REPO_DIR/posted\"\n");
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.err.contains("has a commit whose objects are not all there"), "{}", ran.err);
    assert!(!world.path("repo/posted").exists() && !iteration(&world, 1).join("output").exists());
}

#[test]
fn a_directory_that_is_made_anew_hides_the_old_one() {
    let commands = "rm -r src; mkdir src; echo three > src/three.txt; mkdir deep; mv one.txt deep/one.txt";
    let world = world(commands, "");
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let place = iteration(&world, 1);
    let checkout = place.join("repository");
    assert_eq!(
        git(&checkout, &["status", "--short", "-uall"]),
        " D one.txt\n D src/two.txt\n?? deep/one.txt\n?? src/three.txt\n"
    );
    git(&world.path("repo"), &["apply", place.join("changes.patch").to_str().unwrap()]);
    assert!(!world.path("repo/src/two.txt").exists() && world.path("repo/deep/one.txt").exists());
}

/// Work that would grow with the repository is skipped in a large one.
#[test]
fn of_a_large_repository_what_lies_beside_the_changes_is_laid_out() {
    let world = world(
        "echo more >> 'tree/7*/700.txt'; mkdir new; echo x > new/file",
        "post_script: scripts/post.sh\n",
    );
    world.script(
        "repo/.fullsend/scripts/post.sh",
        "#!/bin/sh\nset -eu\ncd \"$REPO_DIR\"\ngit add -A\ngit -c user.name=t -c user.email=t@t commit -qm 'by the script'\n\
         git diff --stat=40 HEAD~\n",
    );
    for number in 0..5_100 {
        world.write(&format!("repo/tree/{}*/{number}.txt", number / 100), "x\n");
    }
    git(&world.path("repo"), &["add", "-A"]);
    git(&world.path("repo"), &["commit", "--quiet", "-m", "many"]);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let checkout = iteration(&world, 1).join("repository");
    assert!(checkout.join("one.txt").exists() && checkout.join("tree/7*/701.txt").exists());
    assert!(!checkout.join("tree/8*").exists(), "nothing was changed there");
    let said = fs::read_to_string(iteration(&world, 1).with_file_name("post_script.log")).unwrap();
    assert!(said.contains("2 files changed, 2 insertions(+)"), "{said}");
    git(&checkout, &["sparse-checkout", "disable"]);
    assert!(checkout.join("tree/8*/800.txt").exists(), "git knows all of them");
    assert_eq!(git(&checkout, &["status", "--short"]), "");
}

/// Two attempts: the first output is wrong, and each says what it found in the repository.
fn retried(mode: &str) -> (String, u32) {
    let world = world("true", &format!("validation_loop:\n  max_iterations: 2\n  feedback_mode: {mode}\n"));
    let look = "cat one.txt > /sandbox/workspace/output/seen; echo touched >> one.txt";
    let scenario = json!({
        "turns": [[{ "shell": look }], [{ "finish": { "wrong": true } }]],
        "branches": [{
            "when": { "user_contains": "was rejected" },
            "turns": [[{ "shell": look }], [{ "finish": { "summary": "second" } }]],
        }],
    });
    world.write("repo/.fullsend/scenarios/s.json", scenario.to_string());
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let place = iteration(&world, 2);
    assert!(place.with_file_name("iteration-1").join("rejected.patch").is_file());
    let patch = fs::read_to_string(place.join("changes.patch")).unwrap();
    let added = patch.matches("\n+touched").count();
    (fs::read_to_string(place.join("output/seen")).unwrap(), u32::try_from(added).unwrap())
}

#[test]
fn a_fresh_attempt_finds_the_repository_as_it_was() {
    assert_eq!(retried("fresh"), ("one\n".to_owned(), 1));
}

#[test]
fn an_appended_attempt_finds_the_repository_as_it_was_left() {
    assert_eq!(retried("append"), ("one\ntouched\n".to_owned(), 2));
}

#[test]
fn a_repository_that_the_agent_nests_in_the_repository_does_not_get_out() {
    for (name, commands) in [
        ("bare", "git init -q --bare sub/x.git"),
        (
            "by hand",
            "mkdir -p sub/objects sub/refs && echo 'ref: refs/heads/x' > sub/HEAD && touch sub/objects/x sub/refs/x",
        ),
        ("a worktree's", "mkdir sub && echo 'ref: refs/heads/x' > sub/HEAD && echo ../../x > sub/commondir"),
        ("by a link", "mkdir -p sub/refs && touch sub/refs/x && ln -s 'ref: refs/heads/x' sub/HEAD"),
    ] {
        let world = world(commands, "");
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 5, "{name}: {}", ran.err);
        assert!(ran.err.contains("looks like a git repository"), "{name}: {}", ran.err);
        let place = iteration(&world, 1);
        assert!(!place.join("repository").exists() && !place.join("changes.patch").exists(), "{name}");
    }
    let world = world(
        "mkdir -p sub/.GIT && echo x > sub/.GIT/config && echo x > 'sub/git~1' && echo x > sub/kept",
        "",
    );
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let patch = fs::read_to_string(iteration(&world, 1).join("changes.patch")).unwrap();
    assert!(patch.contains("sub/kept") && !patch.contains(".GIT") && !patch.contains("git~1"), "{patch}");
}
