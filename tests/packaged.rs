//! The packages of `packaging/build`, made around the binary of the tests, installed from local files and started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::support::{World, has_program, program, root};

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A small program in the place of the binary: what is tested is the packages. It answers as the binary does.
fn payload(world: &World) -> PathBuf {
    world.script("payload", &format!("#!/bin/sh\nexec {} \"$@\"\n", program().display()))
}

fn version_of(binary: &Path) -> String {
    String::from_utf8(done(Command::new(binary).arg("-V")).stdout).unwrap()
}

/// The installed program finds the weights of its learned scanner. The small program in its place cannot tell: the real one
/// takes its place, and starts where it was installed.
fn finds_weights(world: &World, binary: &Path) {
    let binary = fs::canonicalize(binary).unwrap();
    fs::remove_file(&binary).unwrap();
    if fs::hard_link(program(), &binary).is_err() {
        fs::copy(program(), &binary).unwrap();
    }
    let mut doctor = Command::new(&binary);
    doctor
        .args(["doctor", "--json"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", world.path("tmp"));
    let told: Json = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
    let checks = told["checks"].as_array().unwrap();
    let scanner = checks.iter().find(|check| check["name"] == "learned scanner").unwrap();
    let place = binary.parent().unwrap().parent().unwrap().to_string_lossy().into_owned();
    let found = scanner["found"].as_str().unwrap();
    assert!(scanner["state"] == "good" && found.starts_with(&place), "{scanner} {place}");
}

#[test]
fn every_package_installs_and_starts() {
    if !has_program("dpkg-deb", "packages") || !has_program("python3", "packages") {
        return;
    }
    let world = World::new();
    let out = world.path("packages");
    let key = world.path("key.pem");
    let public = world.path("public.pem");
    done(Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&key));
    done(Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(&key).arg("-out").arg(&public));
    let build = root().join("packaging/build");
    let mut building = Command::new(&build);
    building
        .arg("--fast")
        .arg("--binary")
        .arg(payload(&world))
        .arg("--out")
        .arg(&out)
        .arg("--sign")
        .arg(&key);
    done(&mut building);
    let file = |end: &str| {
        let names = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        names
            .into_iter()
            .find(|path| path.to_string_lossy().ends_with(end))
            .unwrap_or_else(|| panic!("no {end}"))
    };
    let expected = version_of(&program());
    assert!(expected.starts_with(&format!("fullsend {} (", env!("CARGO_PKG_VERSION"))), "{expected}");

    let install = |from: &Path, more: &[&str]| {
        let mut command = Command::new("sh");
        command
            .arg(out.join("install.sh"))
            .arg("--from")
            .arg(from)
            .args(more)
            .env("HOME", world.path("home"));
        command.output().unwrap()
    };
    let signed = ["--public-key", public.to_str().unwrap()];
    let installed = install(&out, &signed);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    assert_eq!(version_of(&world.path("home/.local/bin/fullsend")), expected, "install.sh");
    finds_weights(&world, &world.path("home/.local/bin/fullsend"));
    refuses_damage(&world, &out, &install, &signed);
    let removed = done(
        Command::new("sh").arg(out.join("install.sh")).arg("--uninstall").env("HOME", world.path("home")),
    );
    assert!(!world.path("home/.local/bin/fullsend").exists(), "{removed:?}");
    assert!(!world.path("home/.local/share/fullsend").exists(), "{removed:?}");

    let deb = world.path("deb");
    done(Command::new("dpkg-deb").arg("-x").arg(file(".deb")).arg(&deb));
    assert_eq!(version_of(&deb.join("usr/bin/fullsend")), expected, ".deb");
    finds_weights(&world, &deb.join("usr/bin/fullsend"));
    let script = fs::read_to_string(deb.join("usr/share/bash-completion/completions/fullsend")).unwrap();
    assert!(script.contains("FULLSEND_COMPLETE"), "{script}");
    assert!(deb.join("usr/share/man/man1/fullsend-run.1.gz").metadata().unwrap().len() > 500);

    if has_program("npm", "npm-package") {
        let mut npm = Command::new("npm");
        npm.args(["install", "--offline", "--no-audit", "--no-fund", "--prefix"])
            .arg(world.path("npm"))
            .arg(file(".tgz"));
        done(npm.env("HOME", world.path("home")));
        assert_eq!(version_of(&world.path("npm/node_modules/.bin/fullsend")), expected, "npm");
        finds_weights(&world, &world.path("npm/node_modules/.bin/fullsend"));
    }
    unpacks_as_a_wheel(&world, &file(".whl"), &expected);

    let parts: Json = serde_json::from_slice(&fs::read(file(".cdx.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        parts["components"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"tokio") && !names.contains(&"proptest"), "the parts of the binary: {names:?}");
    let statement: Json = serde_json::from_slice(&fs::read(file("provenance.json")).unwrap()).unwrap();
    assert!(statement["subject"].as_array().unwrap().len() >= 5, "{statement}");
}

/// With pip where it works offline, and by the rules of the format elsewhere.
fn unpacks_as_a_wheel(world: &World, wheel: &Path, expected: &str) {
    let target = world.path("wheel");
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--quiet",
        "--disable-pip-version-check",
        "--prefix",
    ]);
    let installed = pip.arg(&target).arg(wheel).env("HOME", world.path("home")).output().unwrap();
    let binary = if installed.status.success() {
        // Debian's own pip installs below `local`.
        let places = [target.join("bin/fullsend"), target.join("local/bin/fullsend")];
        places.into_iter().find(|place| place.exists()).unwrap()
    } else {
        done(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&target));
        let scripts = target.join(format!("fullsend-{}.data/scripts/fullsend", env!("CARGO_PKG_VERSION")));
        done(Command::new("chmod").arg("+x").arg(&scripts));
        scripts
    };
    assert_eq!(version_of(&binary), *expected, "wheel");
    if installed.status.success() {
        finds_weights(world, &binary);
    }
}

/// One changed byte, or a signature of somebody else, installs nothing.
fn refuses_damage(world: &World, out: &Path, install: &dyn Fn(&Path, &[&str]) -> Output, signed: &[&str]) {
    let copy = world.path("damaged");
    crate::support::copy(out, &copy);
    let archive = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path());
    let archive = archive.into_iter().find(|path| path.to_string_lossy().ends_with(".tar.gz")).unwrap();
    let mut bytes = fs::read(&archive).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&archive, bytes).unwrap();
    let refused = install(&copy, &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("the checksum of"), "{said}");
    fs::write(copy.join("SHA256SUMS.sig"), [0; 64]).unwrap();
    let refused = install(&copy, signed);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("the signature of SHA256SUMS does not fit"), "{said}");
}

#[test]
fn a_self_test_reports_what_works() {
    let world = World::new();
    let ran = world.run(&["self-test"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in [
        "good    sandbox: ",
        "good    agent: ",
        "good    changes: 1 file changed",
        "good    output: ",
        "good    record: verified",
        "A whole run works here",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    assert!(fs::read_dir(world.path("tmp")).unwrap().next().is_none(), "nothing is left");
    let told: Json = serde_json::from_str(&world.run(&["self-test", "--json"]).out).unwrap();
    assert_eq!(told["works"], true, "{told}");
}
