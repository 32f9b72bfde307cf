//! Signed records: `runs verify --key` detects every file of a run that was changed, removed, cut, swapped or added,
//! and other programs can check the signature.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value as Json, json};

use crate::attack_rows::{AttackRow, held};
use crate::support::{Ran, Who, World, copy, has_program, skip};

/// What a public ed25519 key starts with in DER.
const PUBLIC_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A pair of keys as files of the world: `home/NAME.pem` and `home/NAME.pub`.
fn keys(world: &World, name: &str) {
    let document = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    };
    world.write(&format!("home/{name}.pem"), pem("PRIVATE KEY", document.as_ref()));
    let public = [PUBLIC_PREFIX, pair.public_key().as_ref()].concat();
    world.write(&format!("home/{name}.pub"), pem("PUBLIC KEY", &public));
}

/// An agent that leaves a file, a link and a change, a post-script that prints, and a key.
fn world() -> World {
    let change = "echo more > notes.txt; ln -s notes.txt linked; mkdir empty; echo a > /sandbox/workspace/output/report.txt";
    let scenario = json!({ "turns": [[{ "shell": change }], [{ "finish": { "summary": "done" } }]] });
    let world = World::scripted("post_script: scripts/post.sh\n", scenario);
    world.script("repo/.fullsend/scripts/post.sh", "#!/bin/sh\necho posted\n");
    world.write("repo/notes.txt", "notes\n");
    keys(&world, "key");
    keys(&world, "other");
    world
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn runs(world: &World) -> Vec<PathBuf> {
    let found = fs::read_dir(world.path("state/fullsend/runs/local"));
    let mut all: Vec<PathBuf> = found.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn signed_run(world: &World) -> PathBuf {
    let ran = world.run(&["run", "triage", "--sign", text(&world.path("home/key.pem"))]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    runs(world).pop().unwrap()
}

fn verify(world: &World, run: &Path, key: &str) -> Ran {
    let id = run.file_name().unwrap().to_str().unwrap();
    world.run(&["runs", "verify", id, "--key", text(&world.path(&format!("home/{key}.pub")))])
}

/// Paths of all files below, from the root.
fn files(root: &Path, place: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            files(root, &path, found);
        } else if about.is_file() && !path.ends_with("size") {
            found.push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
}

#[test]
fn every_change_to_a_signed_run_is_detected() {
    let world = world();
    let run = signed_run(&world);
    let whole = verify(&world, &run, "key");
    assert_eq!(whole.code, 0, "{}", whole.err);
    assert!(whole.out.contains("signed by the key "), "{}", whole.out);
    let saved = world.path("saved");
    copy(&run, &saved);
    let mut all = Vec::new();
    files(&run, &run, &mut all);
    for expected in ["events.jsonl", "run.json", "egress.jsonl", "post_script.log", "run.intoto.json"] {
        assert!(all.iter().any(|path| path.ends_with(expected)), "{expected}: {all:?}");
    }
    let refused = |what: &str, path: &Path| {
        let ran = verify(&world, &run, "key");
        assert_eq!(ran.code, 1, "{what} {}: {}{}", path.display(), ran.out, ran.err);
        ran.err
    };
    for path in &all {
        let file = run.join(path);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, [&bytes[..], b"\n"].concat()).unwrap();
        // The envelope ends with a line break; another one changes nothing that it says.
        if !path.ends_with("run.intoto.json") {
            refused("appended to", path);
        }
        if !bytes.is_empty() {
            fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
            refused("cut", path);
        }
        fs::remove_file(&file).unwrap();
        refused("removed", path);
        fs::create_dir(&file).unwrap();
        refused("made a directory of", path);
        fs::remove_dir(&file).unwrap();
        std::os::unix::fs::symlink(saved.join(path), &file).unwrap();
        refused("linked", path);
        fs::remove_file(&file).unwrap();
        fs::write(&file, &bytes).unwrap();
    }
    for added in ["more", "iteration-1/more", "iteration-1/output/more", ".hidden", "size"] {
        let file = run.join(added);
        let before = fs::read(&file).ok();
        fs::write(&file, "more\n").unwrap();
        assert!(refused("added", Path::new(added)).contains(&format!("{added} was added")));
        fs::remove_file(&file).unwrap();
        if let Some(bytes) = before {
            fs::write(&file, bytes).unwrap();
        }
    }
    fs::rename(run.join("run.json"), run.join("x")).unwrap();
    fs::rename(run.join("findings.jsonl"), run.join("run.json")).unwrap();
    fs::rename(run.join("x"), run.join("findings.jsonl")).unwrap();
    refused("swapped", Path::new("run.json"));
    fs::rename(run.join("run.json"), run.join("x")).unwrap();
    fs::rename(run.join("findings.jsonl"), run.join("run.json")).unwrap();
    fs::rename(run.join("x"), run.join("findings.jsonl")).unwrap();
    assert_eq!(verify(&world, &run, "key").code, 0, "everything is as it was");
    held(AttackRow::ForgedRecord, Who::Caller);
}

/// Directories, permissions, links and what is none of these: not every change is one of a file's bytes.
#[test]
fn every_change_beside_the_bytes_of_files_is_detected() {
    let world = world();
    let key = world.path("home/key.pem");
    let ran = world.run(&["run", "triage", "--keep", "always", "--sign", text(&key)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run = runs(&world).pop().unwrap();
    // A run leaves no links today. The statement is ready for them.
    std::os::unix::fs::symlink("run.json", run.join("link")).unwrap();
    let mut said = statement(&fs::read(run.join("run.intoto.json")).unwrap());
    said["predicate"]["links"] = json!({ "link": "run.json" });
    fs::write(run.join("run.intoto.json"), sign(&world, &said)).unwrap();
    let refused = |what: &str, says: &str| {
        let ran = verify(&world, &run, "key");
        assert!(ran.code == 1 && ran.err.contains(says), "{what}: {}{}", ran.out, ran.err);
    };
    let holds = |what: &str| assert_eq!(verify(&world, &run, "key").code, 0, "{what} was undone");
    holds("nothing");
    for added in ["more", "iteration-1/more", "iteration-1/output/more"] {
        fs::create_dir(run.join(added)).unwrap();
        refused("added", &format!("the directory {added} was added"));
        fs::remove_dir(run.join(added)).unwrap();
    }
    let mut found = Vec::new();
    entries(&run, &run, &mut found);
    let mut tried = std::collections::BTreeSet::new();
    for path in found {
        let file = run.join(&path);
        let about = fs::symlink_metadata(&file).unwrap();
        let shown = path.display();
        if about.is_symlink() {
            let target = fs::read_link(&file).unwrap();
            fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
            refused("turned", &format!("the link {shown} was changed"));
            fs::remove_file(&file).unwrap();
            refused("removed", &format!("the link {shown} was removed"));
            std::os::unix::fs::symlink(target, &file).unwrap();
            tried.insert("link");
            continue;
        }
        let mode = about.permissions().mode();
        // An ordinary user cannot look into a directory without the owner's own bit.
        let first = if about.is_dir() { mode ^ 0o010 } else { mode ^ 0o100 };
        for other in [first, mode | 0o022, mode | 0o4000] {
            fs::set_permissions(&file, fs::Permissions::from_mode(other)).unwrap();
            refused("permitted", &format!("the mode of {shown} was changed"));
        }
        fs::set_permissions(&file, about.permissions()).unwrap();
        if about.is_dir() && file.read_dir().unwrap().next().is_none() {
            fs::remove_dir(&file).unwrap();
            refused("removed", &format!("the directory {shown} was removed"));
            fs::create_dir(&file).unwrap();
            fs::set_permissions(&file, about.permissions()).unwrap();
            tried.insert("empty directory");
        }
        tried.insert(if about.is_dir() { "directory" } else { "file" });
    }
    assert_eq!(tried.into_iter().collect::<Vec<_>>(), ["directory", "empty directory", "file", "link"]);
    holds("everything");
}

/// Everything below, from the root, but for the two files that are not in the statement.
fn entries(root: &Path, place: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            entries(root, &path, found);
        }
        let path = path.strip_prefix(root).unwrap().to_owned();
        if path != Path::new("size") && path != Path::new("run.intoto.json") {
            found.push(path);
        }
    }
}

/// A statement of the first version says nothing about directories and permissions.
#[test]
fn a_statement_of_the_first_version_is_verified_as_it_was() {
    let world = world();
    let run = signed_run(&world);
    let path = run.join("run.intoto.json");
    let mut said = statement(&fs::read(&path).unwrap());
    said["predicateType"] = "urn:fullsend:run:1".into();
    let mut modes = said["predicate"].as_object_mut().unwrap().remove("modes").unwrap();
    fs::write(&path, sign(&world, &said)).unwrap();
    fs::create_dir(run.join("more")).unwrap();
    let ran = verify(&world, &run, "key");
    assert_eq!(ran.code, 0, "{}", ran.err);
    fs::write(run.join("more/file"), "").unwrap();
    assert_eq!(verify(&world, &run, "key").code, 1);
    fs::remove_dir_all(run.join("more")).unwrap();
    // Neither version with the fields of the other one.
    said["predicateType"] = "urn:fullsend:run:2".into();
    fs::write(&path, sign(&world, &said)).unwrap();
    assert_eq!(verify(&world, &run, "key").code, 1, "the modes are missing");
    said["predicate"]["modes"] = modes.take();
    fs::write(&path, sign(&world, &said)).unwrap();
    assert_eq!(verify(&world, &run, "key").code, 0);
}

/// The envelope around a statement, made without fullsend.
fn sign(world: &World, statement: &Json) -> String {
    let pem = fs::read_to_string(world.path("home/key.pem")).unwrap();
    let der: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let pair = Ed25519KeyPair::from_pkcs8(&STANDARD.decode(der).unwrap()).unwrap();
    let kind = "application/vnd.in-toto+json";
    let payload = statement.to_string();
    let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
    let signature = STANDARD.encode(pair.sign(message.as_bytes()));
    json!({ "payloadType": kind, "payload": STANDARD.encode(payload), "signatures": [{ "sig": signature }] })
        .to_string()
}

/// A record that is consistent, but that somebody else wrote, or that belongs to another run.
#[test]
fn a_forged_or_exchanged_run_is_detected() {
    let world = world();
    let run = signed_run(&world);
    assert_eq!(verify(&world, &run, "other").code, 1, "another key");
    // Another run of the same key under this one's name.
    let second = signed_run(&world);
    let replace = |from: &Path, to: &Path| {
        fs::remove_dir_all(to).unwrap();
        copy(from, to);
    };
    let saved = world.path("saved");
    copy(&run, &saved);
    replace(&second, &run);
    let exchanged = verify(&world, &run, "key");
    assert_eq!(exchanged.code, 1);
    assert!(exchanged.err.contains("the statement is about the run"), "{}", exchanged.err);
    replace(&saved, &run);
    // A whole run that its forger signed, and one that nobody did.
    let forged = world.run(&["run", "triage", "--sign", text(&world.path("home/other.pem"))]);
    assert_eq!(forged.code, 0, "{}", forged.err);
    let forged = runs(&world).pop().unwrap();
    assert_eq!(verify(&world, &forged, "other").code, 0);
    assert_eq!(verify(&world, &forged, "key").code, 1);
    assert_eq!(world.run(&["run", "triage"]).code, 0);
    let unsigned = runs(&world).pop().unwrap();
    let ran = verify(&world, &unsigned, "key");
    assert!(ran.code == 1 && ran.err.contains("it is not signed"), "{}", ran.err);
    // The signature of the true run over the files of the forged one.
    fs::copy(run.join("run.intoto.json"), forged.join("run.intoto.json")).unwrap();
    assert_eq!(verify(&world, &forged, "key").code, 1);
    // A statement whose signature was taken away.
    let mut envelope: Json = serde_json::from_slice(&fs::read(run.join("run.intoto.json")).unwrap()).unwrap();
    envelope["signatures"] = json!([]);
    fs::write(run.join("run.intoto.json"), envelope.to_string()).unwrap();
    assert_eq!(verify(&world, &run, "key").code, 1);
}

#[test]
fn a_key_that_cannot_be_used_stops_the_run_before_it_starts() {
    let world = world();
    world.write("home/wrong.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    for (key, says) in
        [("nowhere.pem", "cannot be read"), ("wrong.pem", "is not an ed25519 key"), ("key.pub", "has no")]
    {
        let ran = world.run(&["run", "triage", "--sign", text(&world.path(&format!("home/{key}")))]);
        assert!(ran.code == 4 && ran.err.contains(says), "{key}: {}", ran.err);
    }
    assert!(runs(&world).is_empty());
    // A command is asked at the end: the run fails, and is not signed.
    let ran = world.run(&["run", "triage", "--sign", "exec:echo no token >&2; exit 3"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err.contains("the record is not signed: the signing command exited with 3: no token"),
        "{}",
        ran.err
    );
    assert!(!runs(&world).pop().unwrap().join("run.intoto.json").exists());
}

fn signed_by(who: Who) {
    let world = world();
    let key = world.path("home/key.pem");
    let world = world.env("FULLSEND_SIGN_KEY", text(&key));
    let Some(ran) = world.run_as(who, &["run", "triage"]) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
    let public = world.path("home/key.pub");
    let Some(ran) = world.run_as(who, &["runs", "verify", "--key", text(&public)]) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn the_environment_names_the_key() {
    signed_by(Who::Caller);
    signed_by(Who::User);
}

#[test]
fn a_command_signs_and_openssl_makes_the_keys() {
    if !has_program("openssl", "signed-by-a-command") {
        return;
    }
    let world = world();
    let openssl = |arguments: &[&str]| {
        let done = Command::new("openssl").args(arguments).current_dir(world.path("home")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", "made.pem"]);
    openssl(&["pkey", "-in", "made.pem", "-pubout", "-out", "made.pub"]);
    let key = world.path("home/made.pem");
    let command = format!(
        "exec:openssl pkeyutl -sign -rawin -inkey {} -in \"$FULLSEND_SIGN_INPUT\" | base64",
        key.display()
    );
    for signer in [command.as_str(), text(&key)] {
        let ran = world.run(&["run", "triage", "--sign", signer]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let ran = verify(&world, &runs(&world).pop().unwrap(), "made");
        assert_eq!(ran.code, 0, "{signer}: {}", ran.err);
    }
}

/// The statement in an envelope.
fn statement(envelope: &[u8]) -> Json {
    let envelope: Json = serde_json::from_slice(envelope).unwrap();
    serde_json::from_slice(&STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap()).unwrap()
}

#[test]
fn provenance_names_the_accepted_output_and_what_it_was_made_from() {
    let world = world();
    let run = signed_run(&world);
    let key = world.path("home/key.pem");
    let ran = world.run(&["runs", "attest", "--sign", text(&key)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said = statement(ran.out.as_bytes());
    assert_eq!(said["predicateType"], "https://slsa.dev/provenance/v1");
    let record: Json = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let names = |value: &Json, key: &str| -> Vec<String> {
        value.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&said["subject"], "name"), names(&record["artifacts"], "path"));
    assert_eq!(said["subject"][0]["digest"]["sha256"], record["artifacts"][0]["sha256"]);
    let predicate = &said["predicate"];
    assert_eq!(predicate["runDetails"]["metadata"]["invocationId"], record["run_id"]);
    assert_eq!(predicate["buildDefinition"]["externalParameters"]["harness"], "triage");
    let inputs = predicate["buildDefinition"]["resolvedDependencies"].as_array().unwrap().len();
    assert!(inputs >= record["inputs"].as_array().unwrap().len(), "{said:#}");
    // The run itself is as it was.
    assert_eq!(verify(&world, &run, "key").code, 0);
    let without = world.run(&["runs", "attest"]);
    assert!(without.code == 2 && without.err.contains("--sign KEY"), "{}", without.err);
    fs::write(run.join("iteration-1/output/report.txt"), "other").unwrap();
    let changed = world.run(&["runs", "attest", "--sign", text(&key)]);
    assert!(changed.code == 1 && changed.err.contains("it was changed"), "{}", changed.err);
}

/// The program of sigstore, as Debian 13 has it, accepts both statements and refuses a wrong file or key.
#[test]
fn cosign_accepts_the_statements() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(cosign) =
        std::env::split_paths(&path).map(|place| place.join("cosign")).find(|file| file.is_file())
    else {
        return skip("cosign", "cosign is not installed");
    };
    let world = world();
    let run = signed_run(&world);
    let provenance = world.path("home/provenance.json");
    let key = world.path("home/key.pem");
    let ran = world.run(&["runs", "attest", "--sign", text(&key), "--output", text(&provenance)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let accepts = |key: &str, kind: &str, signature: &Path, file: &Path| {
        let mut command = Command::new(&cosign);
        command.args([
            "verify-blob-attestation",
            "--insecure-ignore-tlog",
            "--offline",
            "--type",
            kind,
            "--key",
        ]);
        command.arg(world.path(&format!("home/{key}.pub"))).arg("--signature").arg(signature).arg(file);
        command.env("HOME", world.path("home")).output().unwrap()
    };
    let envelope = run.join("run.intoto.json");
    let result = run.join("iteration-1/output/agent-result.json");
    for (kind, signature, file) in [
        ("urn:fullsend:run:2", &envelope, &run.join("events.jsonl")),
        ("urn:fullsend:run:2", &envelope, &result),
        ("slsaprovenance1", &provenance, &result),
    ] {
        let said = accepts("key", kind, signature, file);
        assert!(said.status.success(), "{kind}: {}", String::from_utf8_lossy(&said.stderr));
        assert!(!accepts("other", kind, signature, file).status.success(), "another key");
        assert!(
            !accepts("key", kind, signature, &world.path("repo/notes.txt")).status.success(),
            "another file"
        );
    }
}
