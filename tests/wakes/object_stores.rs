//! Objects of sessions in an S3-compatible store. A fake in Python that shares no code with us checks every signature and fails
//! on request; moto from PyPI is an independent server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::machines::{goes_on_elsewhere, move_to_another_machine};
use super::stage::{EVERY_WAKE, Stage, finish, sleeps, wait_for, when};
use crate::cluster::{Cluster, Durability, free_port};
use crate::python_packages::install;
use crate::services::Fake;
use crate::support::{World, has_program, skip};

/// As the fake knows them.
const ID: &str = "AKIAFAKEFAKEFAKE0002";
const SECRET: &str = "secret/of+the-fake-key-for-the-tests-0002";
const TOKEN: &str = "session-token-of-the-fake-s3";

/// The variables that lead to a server on this machine.
fn variables(endpoint: &str) -> Vec<(&'static str, String)> {
    vec![
        ("FULLSEND_SESSION_OBJECTS", "s3://acme-agents/fleet/objects".to_owned()),
        ("AWS_ENDPOINT_URL_S3", endpoint.to_owned()),
        ("AWS_REGION", "eu-west-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", ID.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_SESSION_TOKEN", TOKEN.to_owned()),
    ]
}

fn with(stage: &mut Stage, variables: &[(&str, String)]) {
    for (name, value) in variables {
        let world = std::mem::replace(&mut stage.world, World::new());
        stage.world = world.env(name, value);
    }
}

/// A fake that fails as this file says.
struct Faulty {
    fake: Fake,
    faults: tempfile::NamedTempFile,
}

impl Faulty {
    fn start() -> Self {
        let faults = tempfile::NamedTempFile::new().unwrap();
        let fake = Fake::start("s3.py", &[faults.path().to_str().unwrap()]);
        Self { fake, faults }
    }

    fn fail(&self, words: &str) {
        fs::write(self.faults.path(), words).unwrap();
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        variables(&format!("http://127.0.0.1:{}", self.fake.port))
    }

    /// How many requests of this method were made, and that every signature was right.
    fn count(&self, method: &str) -> usize {
        let requests = self.fake.requests("/acme-agents/fleet/objects/");
        for request in &requests {
            assert_eq!(request["problem"], json!(null), "{request}");
        }
        requests.iter().filter(|request| request["method"] == method).count()
    }
}

fn contains(directory: &Path, text: &str) -> Option<PathBuf> {
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() && !path.is_symlink() {
            open.extend(fs::read_dir(&path).into_iter().flatten().map(|entry| entry.unwrap().path()));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
        {
            return Some(path);
        }
    }
    None
}

#[test]
fn a_session_goes_on_elsewhere_with_its_objects_in_s3() {
    if !has_program("python3", "s3") {
        return;
    }
    let faulty = Faulty::start();
    let all = faulty.variables();
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (stage, id) = goes_on_elsewhere(&all);
    assert_eq!(faulty.count("PUT"), 4, "two bundles, two conversations");
    let environment = stage.memory(&id, "environment.md").unwrap();
    assert!(environment.contains("PATH=") && !environment.contains("AWS_"), "{environment}");
    for secret in [ID, SECRET, TOKEN] {
        assert_eq!(contains(&stage.world.path("."), secret), None, "{secret}");
    }
    let removed = stage.world.run(&["session", "rm", "--force", &id]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert_eq!(faulty.count("DELETE"), 4, "every object that was written");
}

/// Faults of the server cost time, and never a message, a conversation or a bundle.
#[test]
fn faults_of_an_object_store_lose_nothing() {
    if !has_program("python3", "s3") {
        return;
    }
    let faulty = Faulty::start();
    let mut stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    with(&mut stage, &faulty.variables());
    let wake = |stage: &Stage, id: &str| stage.world.run(&["session", "run", id, "--lease-seconds", "6"]);

    // Busy servers and broken answers are asked again.
    faulty.fail("busy busy ok busy");
    let id = stage.told("the first message");
    let ran = wake(&stage, &id);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    faulty.fail("cut busy");
    stage.send(&id, "the second message");
    assert_eq!(wake(&stage, &id).code, 0);
    assert!(stage.last_transcript().contains("the first message"), "resumed");

    // While it is away, nothing is read and no message is consumed; then the wake runs as if nothing had happened.
    faulty.fail("busy always");
    stage.send(&id, "the third message");
    let start = Instant::now();
    let ran = wake(&stage, &id);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert_eq!(stage.show(&id)["pending"], 1, "{}", stage.log(&id));
    faulty.fail("");
    wait_for(|| (wake(&stage, &id).code == 0).then_some(()));
    assert!(stage.last_transcript().contains("the second message"), "resumed");

    // What it does not take is in the session store, also for another machine.
    faulty.fail("ok slow always");
    stage.send(&id, "the fourth message");
    let ran = wake(&stage, &id);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("is in the session store instead: s3://acme-agents/fleet/objects: PUT fleet"),
        "{}",
        ran.err
    );
    faulty.fail("");
    let fetched = stage.world.run(&["session", "fetch", &id]);
    assert!(fetched.code == 0 && fetched.out.lines().count() >= 4, "{}{}", fetched.out, fetched.err);

    // Other bytes are not taken for the object.
    faulty.fail("changed");
    let run = stage.of_type(&id, "run.attached")[0]["run_id"].as_str().unwrap().to_owned();
    let changed = stage.world.run(&["session", "fetch", &id, &run]);
    assert!(changed.code == 4 && changed.err.contains("does not match its digest"), "{}", changed.err);
}

/// What is wrong is said before a session needs it: by `store check`, by `doctor`, and by a worker that does not start.
#[test]
fn a_wrong_object_store_is_explained() {
    if !has_program("python3", "s3") {
        return;
    }
    let fake = Faulty::start();
    let nobody = free_port();
    for (name, value, said) in [
        (
            "FULLSEND_SESSION_OBJECTS",
            "s3://no-such-bucket/a",
            "404 NoSuchBucket NoSuchBucket: The specified bucket does not exist; create the bucket",
        ),
        ("FULLSEND_SESSION_OBJECTS", "s3://Bucket", "a bucket has 3 to 63 lower-case letters"),
        (
            "AWS_ACCESS_KEY_ID",
            "AKIAFAKEFAKEFAKE0009",
            "403 InvalidAccessKeyId InvalidAccessKeyId; check AWS_ACCESS_KEY_ID",
        ),
        (
            "AWS_SECRET_ACCESS_KEY",
            "not the secret",
            "403 SignatureDoesNotMatch SignatureDoesNotMatch; check AWS_ACCESS_KEY_ID",
        ),
        ("AWS_REGION", "eu-west-2", "set AWS_REGION to the region of the bucket"),
        ("AWS_ENDPOINT_URL_S3", "http://s3.example", "not allowed over plain http"),
        ("AWS_ENDPOINT_URL_S3", &format!("http://127.0.0.1:{nobody}"), "refused"),
    ] {
        let mut stage = Stage::new(&[]);
        with(&mut stage, &fake.variables());
        with(&mut stage, &[(name, value.to_owned())]);
        for command in [&["store", "check"][..], &["worker", "--drain"]] {
            let ran = stage.world.run(command);
            assert_eq!(ran.code, 4, "{name}={value}: {}{}", ran.out, ran.err);
            assert!(ran.err.contains(said), "{name}={value}: {}", ran.err);
            assert!(!ran.err.contains("not the secret") && !ran.err.contains(SECRET), "{}", ran.err);
        }
    }
    let mut stage = Stage::new(&[]);
    with(&mut stage, &fake.variables());
    let ran = stage.world.run(&["store", "check"]);
    assert!(
        ran.code == 0 && ran.out.contains("objects: s3://acme-agents/fleet/objects works"),
        "{}",
        ran.all()
    );
    let doctor = stage.world.run(&["doctor"]).out;
    assert!(
        doctor.contains("good    objects: s3://acme-agents/fleet/objects: written, read and removed"),
        "{doctor}"
    );
    with(&mut stage, &[("FULLSEND_SESSION_OBJECTS", "s3://no-such-bucket".to_owned())]);
    let doctor = stage.world.run(&["doctor"]).out;
    assert!(doctor.contains("weaker  objects: ") && doctor.contains("NoSuchBucket"), "{doctor}");
    // The key can be in a file, too.
    let keys = format!(
        "[fleet]\naws_access_key_id={ID}\naws_secret_access_key={SECRET}\naws_session_token={TOKEN}\n"
    );
    let file = stage.world.write("keys", keys).display().to_string();
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    stage.world = names
        .iter()
        .fold(std::mem::replace(&mut stage.world, World::new()), |world, name| world.without(name));
    with(&mut stage, &[("AWS_SHARED_CREDENTIALS_FILE", file), ("AWS_PROFILE", "fleet".to_owned())]);
    with(&mut stage, &[("FULLSEND_SESSION_OBJECTS", "s3://acme-agents".to_owned())]);
    assert_eq!(stage.world.run(&["store", "check"]).code, 0);
}

/// Keys that nobody sets: a program prints them, or the machine has a role.
#[test]
fn a_credential_process_and_the_role_of_the_machine_sign_requests() {
    if !has_program("python3", "s3") {
        return;
    }
    let faulty = Faulty::start();
    let no_key = |variables: &[(&str, String)]| {
        let mut stage = Stage::new(&[]);
        let all = faulty.variables();
        let without_key: Vec<_> = all.into_iter().filter(|(name, _)| !name.ends_with("KEY_ID")).collect();
        with(&mut stage, &without_key);
        with(&mut stage, variables);
        stage
    };
    let endpoint = format!("http://127.0.0.1:{}", faulty.fake.port);
    let stage = no_key(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint.clone())]);
    let ran = stage.world.run(&["store", "check"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(faulty.fake.requests("/latest/").len(), 3, "a token, the role's name, its key");

    let disabled = ("AWS_EC2_METADATA_DISABLED", "true".to_owned());
    let stage = no_key(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint), disabled.clone()]);
    let ran = stage.world.run(&["store", "check"]);
    assert!(ran.code == 4 && ran.err.contains("needs a key"), "{}", ran.all());

    let printed =
        json!({ "Version": 1, "AccessKeyId": ID, "SecretAccessKey": SECRET, "SessionToken": TOKEN });
    let stage = no_key(&[("AWS_PROFILE", "fleet".to_owned()), disabled]);
    let config = format!("[profile fleet]\ncredential_process = printf '%s' '{printed}'\n");
    let file = stage.world.write("aws-config", config).display().to_string();
    let mut stage = stage;
    with(&mut stage, &[("AWS_CONFIG_FILE", file)]);
    let ran = stage.world.run(&["store", "check"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
}

/// Workers of two machines, one database server, one object store. Each takes what the other left.
#[test]
fn workers_of_two_machines_share_a_server_and_an_object_store() {
    if !has_program("python3", "s3") {
        return;
    }
    let cluster = match Cluster::start(Durability::Memory) {
        Ok(cluster) => cluster,
        Err(reason) => return skip("s3 with PostgreSQL", &reason),
    };
    let faulty = Faulty::start();
    let mut stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    with(&mut stage, &faulty.variables());
    with(&mut stage, &[("FULLSEND_SESSION_STORE", cluster.database())]);
    let id = stage.told("message 1");
    for number in 2..=4 {
        let worked = stage.world.run(&["worker", "--drain", "--json"]);
        assert_eq!((worked.code, worked.out.lines().count()), (0, 1), "{}", worked.err);
        let transcript = stage.last_transcript();
        for earlier in 1..number {
            assert!(transcript.contains(&format!("message {earlier}")), "{number}: {transcript}");
        }
        assert!(!transcript.contains("The conversation so far"), "resumed: {transcript}");
        move_to_another_machine(&mut stage, &number.to_string());
        stage.send(&id, &format!("message {number}"));
    }
    let fetched = stage.world.run(&["session", "fetch", &id]);
    assert_eq!((fetched.code, fetched.out.lines().count()), (0, 3), "{}", fetched.err);
    assert_eq!(faulty.count("PUT"), 3 + 2 * 3, "a probe, a conversation and a bundle each");
}

const PACKAGE: &str = "moto[s3,server]==5.2.5";

/// Ends with this value.
struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn an_independent_server_keeps_objects() {
    let program = match install("moto", "s3 by moto", &[PACKAGE]) {
        Ok(place) => place.join("bin/moto_server"),
        Err(why) => return skip("s3 by moto", why.lines().last().unwrap_or("pip failed")),
    };
    let port = free_port();
    let python = program.with_file_name("python3");
    let server = Command::new(&program)
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Moto(server.unwrap());
    let endpoint = format!("http://127.0.0.1:{port}");
    wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    // The bucket is made, and looked at, by boto3.
    let boto = |code: &str| {
        let script = format!(
            "import boto3\ns3 = boto3.client('s3', endpoint_url='{endpoint}', region_name='eu-west-1', \
             aws_access_key_id='{ID}', aws_secret_access_key='{SECRET}')\n{code}"
        );
        let ran = Command::new(&python).args(["-c", &script]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let mut stage = Stage::new(&[]);
    with(&mut stage, &variables(&endpoint));
    let missing = stage.world.run(&["store", "check"]);
    assert!(missing.code == 4 && missing.err.contains("404 NoSuchBucket"), "{}", missing.err);
    boto(
        "s3.create_bucket(Bucket='acme-agents', CreateBucketConfiguration={'LocationConstraint': 'eu-west-1'})",
    );
    let all = variables(&endpoint);
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (stage, id) = goes_on_elsewhere(&all);
    let list = "print([o['Key'] for o in s3.list_objects_v2(Bucket='acme-agents').get('Contents', [])])";
    let kept = boto(list);
    assert_eq!(
        kept.matches(&format!("fleet/objects/{id}/")).count(),
        3,
        "two bundles and a conversation: {kept}"
    );
    assert_eq!(stage.world.run(&["session", "rm", "--force", &id]).code, 0);
    assert_eq!(boto(list).trim(), "[]");
}
