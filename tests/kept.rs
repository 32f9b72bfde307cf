//! The runs that are kept: listed, shown, verified, removed. One changed byte anywhere is detected.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::attack_rows::{AttackRow, held};
use crate::image_builder::{Layer, Packing, layout};
use crate::sandboxes::busybox;
use crate::support::{Who, World, example};

/// A world with one finished run of the bundled example.
fn with_run() -> (World, PathBuf) {
    let world = example("hello");
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    let directory = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap();
    (world, directory.unwrap().path())
}

fn id(directory: &Path) -> String {
    directory.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_run_is_listed_told_and_removed() {
    let (world, directory) = with_run();
    let id = id(&directory);
    let listed = world.run(&["runs", "list"]).out;
    assert!(
        listed.starts_with(&id[..8]) && listed.contains("completed") && listed.contains("hello"),
        "{listed}"
    );
    let line: Json = serde_json::from_str(&world.run(&["runs", "list", "--json"]).out).unwrap();
    assert_eq!((line["run_id"].as_str(), line["outcome"].as_str()), (Some(id.as_str()), Some("completed")));

    let told = world.run(&["runs", "show", &id[..13]]).out;
    for part in
        ["timeline", "attempts", "tools", "models", "output", "rejected", "accepted", "agent-result.json"]
    {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    let record: Json = serde_json::from_str(&world.run(&["runs", "show", "latest", "--json"]).out).unwrap();
    assert_eq!(
        record,
        serde_json::from_slice::<Json>(&fs::read(directory.join("run.json")).unwrap()).unwrap()
    );
    assert!(world.run(&["runs", "logs", "latest"]).out.contains("accepted"));
    let events = world.run(&["runs", "logs", "latest", "--json"]).out;
    assert_eq!(events, fs::read_to_string(directory.join("events.jsonl")).unwrap());
    assert!(world.run(&["runs", "logs", "latest", "post_script.log"]).out.contains("misspelt"));
    let outside = world.run(&["runs", "logs", "latest", "../../../../../repo/greet.sh"]);
    assert_eq!((outside.code, outside.out.as_str()), (4, ""), "{}", outside.err);

    let unknown = world.run(&["runs", "show", "nonsense"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("fullsend runs list"), "{}", unknown.err);
    assert_eq!(world.run(&["runs", "rm", &id]).code, 0);
    assert!(!directory.exists());
    assert_eq!(world.run(&["runs", "list"]).out, "");
}

#[test]
fn runs_are_kept_where_somebody_says_however_it_is_said() {
    let world = example("hello");
    fs::create_dir(world.path("real")).unwrap();
    std::os::unix::fs::symlink("real", world.path("link")).unwrap();
    for place in ["../real", "../link"] {
        let ran = world.run(&["run", "hello", "--quiet", "--output-dir", place]);
        assert_eq!(ran.code, 0, "{place}: {}", ran.err);
    }
    assert_eq!(fs::read_dir(world.path("real/local")).unwrap().count(), 2);
    let nowhere = world.run(&["run", "hello", "--output-dir", "greet.sh/x"]);
    assert_eq!(nowhere.code, 4, "{}", nowhere.err);
    assert!(nowhere.err.contains("cannot create a directory for the run in greet.sh/x"), "{}", nowhere.err);
    assert!(!nowhere.err.contains("record:"), "there is no record: {}", nowhere.err);
}

#[test]
fn every_changed_byte_is_seen() {
    let (world, directory) = with_run();
    let holds = world.run(&["runs", "verify"]);
    assert_eq!(holds.code, 0, "{}", holds.err);
    let spoil = |file: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let path = directory.join(file);
        let before = fs::read(&path).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let ran = world.run(&["runs", "verify", "latest", "--json"]);
        fs::write(&path, before).unwrap();
        let said: Json = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, said["holds"].as_bool()), (1, Some(false)), "{file}: {}", ran.err);
    };
    let flip = |at: usize| move |bytes: &mut Vec<u8>| bytes[at] ^= 1;
    let length = fs::read(directory.join("events.jsonl")).unwrap().len();
    for at in (40..length - 1).step_by(length / 23) {
        spoil("events.jsonl", &flip(at));
    }
    spoil("events.jsonl", &|bytes| {
        let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        bytes.truncate(last + 1);
    });
    spoil("run.json", &|bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap().replace("\"exit_code\": 0", "\"exit_code\": 1");
        *bytes = text.into_bytes();
    });
    spoil("iteration-2/output/agent-result.json", &flip(5));
    let added = directory.join("iteration-2/output/more.json");
    fs::write(&added, "{}").unwrap();
    assert!(world.run(&["runs", "verify"]).err.contains("more.json was added"));
    fs::remove_file(&added).unwrap();
    assert_eq!(world.run(&["runs", "verify"]).code, 0);
}

#[test]
fn the_oldest_runs_go_when_there_are_too_many() {
    let (world, first) = with_run();
    let world = world.env("FULLSEND_KEEP_RUNS", "1");
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    assert!(!first.exists());
    assert_eq!(world.run(&["runs", "list"]).out.lines().count(), 1);
    let wrong = world.env("FULLSEND_KEEP_RUNS", "many").run(&["run", "hello"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("FULLSEND_KEEP_RUNS"), "{}", wrong.err);
}

#[test]
fn the_workspace_that_a_run_kept_can_be_entered_and_nothing_is_changed_there() {
    let world = example("hello");
    world.write("repo/.fullsend/scenarios/hello.json", r#"{"turns":[[{"shell":"echo here > left; ln -s /etc/passwd link"}],[{"text":"No."}],[{"text":"No."}]]}"#);
    assert_eq!(world.run(&["run", "hello", "--quiet", "--keep", "on-failure"]).code, 5);
    let command = "cat repo/left; ls -d repo/link .env; echo changed > repo/left; cat /etc/shadow; echo end";
    let entered = world.run(&["enter", "latest", "--", "sh", "-c", command]);
    assert_eq!(entered.code, 0, "{}", entered.err);
    assert_eq!(entered.out, "here\nend\n", "{}", entered.err);
    let again = world.run(&["enter", "latest", "--", "cat", "repo/left"]);
    assert_eq!(again.out, "here\n");
    assert_eq!(world.run(&["runs", "verify"]).code, 0);
    assert_eq!(world.run(&["runs", "rm", "latest"]).code, 0);
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 5);
    let nothing = world.run(&["enter", "latest"]);
    assert_eq!(nothing.code, 4);
    assert!(nothing.err.contains("--keep"), "{}", nothing.err);
}

/// Every directory in a saved workspace, asked by git itself whether it is a repository.
#[test]
fn nothing_in_a_saved_workspace_is_a_repository_to_git() {
    for who in [Who::Caller, Who::User] {
        let world = example("hello");
        let script = "git init -q . && git init -q --bare a/b.git; \
                      mkdir -p c/.GIT d/objects d/refs e 'f/.git ' && cp .git/config c/.GIT/ && cp .git/HEAD d/ && \
                      echo 'gitdir: ../.git' > e/.git; cp .git/HEAD e/; cp .git/config 'f/.git /'; echo text > left; \
                      mkdir -p g G/objects G./refs && cp .git/HEAD g/ && cp .git/HEAD 'h\\HEAD' && mkdir -p H/refs";
        let turns =
            serde_json::json!({ "turns": [[{ "shell": script }], [{ "text": "No." }], [{ "text": "No." }]] });
        world.write("repo/.fullsend/scenarios/hello.json", turns.to_string());
        let Some(ran) = world.run_as(who, &["run", "hello", "--quiet", "--keep", "on-failure"]) else {
            continue;
        };
        assert_eq!(ran.code, 5, "{}", ran.err);
        let run =
            fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
        let mut directories = vec![run.join("kept")];
        let mut found = Vec::new();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
                found.push(entry.path());
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                }
            }
            let git = std::process::Command::new("git")
                .args(["-c", "safe.directory=*", "rev-parse", "--git-dir"])
                .current_dir(&directory)
                .env("GIT_CEILING_DIRECTORIES", world.path(""))
                .output()
                .unwrap();
            assert!(
                !git.status.success(),
                "{}: {}",
                directory.display(),
                String::from_utf8_lossy(&git.stdout)
            );
        }
        assert!(found.iter().any(|path| path.ends_with("repo/left")), "{found:?}");
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().to_lowercase();
        assert!(!found.iter().any(|path| name(path).trim_end() == ".git"), "{found:?}");
        // Their other parts are in directories with names that some file systems merge.
        for head in ["repo/g/HEAD", "repo/h\\HEAD"] {
            let renamed = format!("{head}.not-a-repository");
            assert!(found.iter().any(|path| path.ends_with(&renamed)), "{renamed}: {found:?}");
        }
        held(AttackRow::RepositoryInResults, who);
    }
}

#[test]
fn a_workspace_with_an_image_is_entered_in_that_image() {
    let Some(base) = busybox() else { return };
    let world = example("hello");
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    world.write("repo/.fullsend/harness/hello.yaml", format!("{harness}image: images/tools\n"));
    let layer = Layer::default().file("usr/share/mark", "from the image\n");
    layout(&world.path("repo/.fullsend/images/tools"), &[base, layer], Packing::Gzip, &["PATH=/bin"]);
    world.write(
        "repo/.fullsend/scenarios/hello.json",
        r#"{"turns":[[{"shell":"echo here > left"}],[{"text":"No."}],[{"text":"No."}]]}"#,
    );
    assert_eq!(world.run(&["run", "hello", "--quiet", "--keep", "on-failure"]).code, 5);
    let look = "cat repo/left /usr/share/mark; ls /usr/bin/python3";
    let entered = world.run(&["enter", "latest", "--", "sh", "-c", look]);
    assert_eq!(entered.out, "here\nfrom the image\n", "{}", entered.err);
    assert!(entered.err.contains("python3: No such file"), "the root is the image's: {}", entered.err);
    fs::remove_dir_all(world.path("repo/.fullsend/images")).unwrap();
    let gone = world.run(&["enter", "latest", "--", "true"]);
    assert_eq!(gone.code, 3, "as for check: {}", gone.err);
    assert!(gone.err.contains("missing-file"), "{}", gone.err);
    assert!(gone.err.contains("the files are in"), "{}", gone.err);
}
