//! Runs on an OpenShell gateway: a stateful one in Python, from the definitions in the `openshell` wheels of PyPI, for both
//! lines of the wire format. It also fails and is slow on purpose; then the outcome says so, and no sandbox is left.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use crate::support::{Ran, World, has_programs, program, root, skip, wait_for};

pub(crate) const OLD: &str = "0.0.116";
pub(crate) const NEW: &str = "0.1.5";
/// The versions that the definitions of both lines work with.
const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "protobuf==7.36.2"];
/// No word of it is one of ours: parts of a known value are masked too.
const TOKEN: &str = "6fd1c07ab94e4d0f83b25a7719e6c4d2";

/// The packages, and the definitions of both lines, once for all tests. `None`: they cannot be installed here; the test
/// is skipped with a reason.
fn definitions() -> Option<PathBuf> {
    if !has_programs(&["python3", "unshare", "nsenter", "ip"], "openshell") {
        return None;
    }
    match install() {
        Ok(place) => Some(place),
        Err(why) => {
            skip("openshell", why.lines().last().unwrap_or("pip failed"));
            None
        }
    }
}

fn install() -> Result<PathBuf, String> {
    let place = root().join("target/cache/openshell");
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    probe(Command::new("unshare").args(["--user", "--map-root-user", "--mount", "--net", "true"]))?;
    let python = probe(Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2])"]))?;
    let marker = place.join("installed");
    let wanted = format!("{OLD} {NEW} {} python {}", PACKAGES.join(" "), python.trim());
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    let pip = |words: &[&str], to: &Path| {
        let mut command = Command::new("python3");
        command.args([
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "--timeout",
            "5",
            "--retries",
            "0",
        ]);
        probe(command.args(words).arg(to))
    };
    let packages = place.join("packages");
    let words: Vec<&str> = ["install"].into_iter().chain(PACKAGES).chain(["--upgrade", "--target"]).collect();
    pip(&words, &packages)?;
    probe(Command::new("python3").args(["-c", "import grpc, google.protobuf"]).env("PYTHONPATH", &packages))?;
    for version in [OLD, NEW] {
        let to = place.join(version);
        pip(&["download", "--no-deps", &format!("openshell=={version}"), "--dest"], &to)?;
        let mut files = fs::read_dir(&to).map_err(failed)?.flatten().map(|entry| entry.path());
        let wheel = files.find(|path| path.extension().is_some_and(|end| end == "whl"));
        let wheel = wheel.ok_or_else(|| format!("there is no wheel of {version}"))?;
        probe(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&to))?;
    }
    fs::write(marker, wanted).map_err(failed)?;
    Ok(place)
}

/// What a command prints, or why it fails.
fn probe(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

/// A gateway, until it is dropped.
pub(crate) struct Gateway {
    process: Child,
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Json>>>,
}

impl Gateway {
    /// `options` are its faults.
    pub(crate) fn start(version: &str, options: &Json) -> Option<Self> {
        let place = definitions()?;
        let mut all = json!({ "program": program(), "token": TOKEN });
        let given = options.as_object().cloned().unwrap_or_default();
        all.as_object_mut()?.extend(given);
        let mut process = Command::new("python3")
            .arg(root().join("tests/fakes/openshell.py"))
            .arg(place.join("packages"))
            .arg(place.join(version))
            .args([version, &all.to_string()])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Some(Self { process, port, seen })
    }

    pub(crate) fn calls(&self, path: &str) -> Vec<Json> {
        self.seen.lock().unwrap().iter().filter(|call| call["path"] == path).cloned().collect()
    }

    /// The gateway says what it did after it did it.
    pub(crate) fn wait_for(&self, path: &str) -> Json {
        wait_for(|| self.calls(path).pop())
    }

    /// Whether its sandbox has this file.
    fn has_file(&self, path: &str) -> bool {
        let roots = self.calls("root");
        roots.iter().any(|root| Path::new(root["root"].as_str().unwrap()).join(path).exists())
    }

    pub(crate) fn world(&self, more: &str, scenario: &Json) -> World {
        let harness = format!("image: registry.example/team/agent:1\nsandbox:\n  backend: openshell\n{more}");
        self.reached_by(World::scripted(&harness, scenario))
    }

    pub(crate) fn reached_by(&self, world: World) -> World {
        world
            .env("OPENSHELL_GATEWAY_ENDPOINT", &format!("http://127.0.0.1:{}", self.port))
            .env("OPENSHELL_TOKEN", TOKEN)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        drop(self.process.wait());
    }
}

pub(crate) fn record(world: &World) -> Json {
    let runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().flatten();
    // Names of runs sort by time.
    let latest = runs.map(|run| run.path()).max().unwrap();
    serde_json::from_slice(&fs::read(latest.join("run.json")).unwrap()).unwrap()
}

pub(crate) fn run_triage(world: &World) -> Ran {
    world.run(&["run", "triage", "--quiet"])
}

#[test]
fn a_run_on_a_gateway_of_either_line() {
    for version in [OLD, NEW] {
        let Some(gateway) = Gateway::start(version, &json!({ "ready_after": 0.3 })) else { return };
        let look =
            "cat notes.txt; echo fixed > notes.txt; echo $FULLSEND_OUTPUT_DIR; test ! -e .env && echo hidden";
        let scenario = json!({
            "turns": [[{ "shell": look }], [{ "finish": { "summary": "no file was read" } }]],
            "branches": [{
                "when": { "tool_result_contains": "from the repository\n/sandbox/workspace/output\nhidden" },
                "turns": [[{ "finish": { "summary": "read" } }]],
            }],
        });
        let world = gateway.world("", &scenario);
        world.write("repo/notes.txt", "from the repository\n");
        world.write("repo/.env", "PASSWORD=correct horse battery staple\n");
        let ran = run_triage(&world);
        assert_eq!(ran.code, 0, "{version}: {}\n{:?}", ran.all(), gateway.seen.lock().unwrap());
        let record = record(&world);
        assert_eq!(record["outcome"], "completed", "{record:#}");
        let parts = record["sandbox"].as_array().unwrap();
        let part = |name: &str| parts.iter().find(|part| part["part"] == name).unwrap().clone();
        assert!(part("openshell")["reason"].as_str().unwrap().contains(version), "{record:#}");
        assert_eq!(part("proof")["status"], "absent");
        let asked = &gateway.calls("CreateSandbox")[0]["asked"];
        assert_eq!(asked["spec"]["template"]["image"], "registry.example/team/agent:1");
        assert_eq!(asked["spec"]["policy"]["version"], 1);
        let writable = asked["spec"]["policy"]["filesystem"]["read_write"].as_array().unwrap();
        assert!(writable.contains(&json!("/opt/fullsend")), "{asked:#}");
        assert_eq!(gateway.wait_for("deleted")["left"], 0);
    }
}

#[test]
fn a_run_in_a_directory_with_a_long_path_reaches_its_guard() {
    let Some(gateway) = Gateway::start(NEW, &json!({})) else { return };
    let scenario = json!({ "turns": [[{ "shell": "echo hello" }], [{ "finish": { "summary": "done" } }]] });
    let world = gateway.world("", &scenario);
    // Longer than the path of a socket can be.
    let long = world.path(&"d".repeat(120));
    let ran = world.run(&["run", "triage", "--quiet", "--output-dir", long.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.all());
}

#[test]
fn an_image_without_our_program_gets_it() {
    let Some(gateway) = Gateway::start(NEW, &json!({ "program": "" })) else { return };
    let world = gateway.world("", &json!({ "turns": [[{ "finish": { "summary": "done" } }]] }));
    let ran = run_triage(&world);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let uploads = gateway.calls("ExecSandboxInteractive");
    let is_upload = |call: &Json| call["command"].to_string().contains("fullsend.new");
    assert_eq!(uploads.iter().filter(|call| is_upload(call)).count(), 1);
}

#[test]
fn an_agent_cannot_hold_up_the_end_of_its_commands() {
    let Some(gateway) = Gateway::start(NEW, &json!({})) else { return };
    // A pipe where the id of a process is expected, and a command that never ends.
    let shell = "mkfifo /opt/fullsend/run/9.pid; sleep 7655";
    let world = gateway.world("", &json!({ "turns": [[{ "shell": shell }]] }));
    let mut running = world.spawn(&["run", "triage", "--quiet"]);
    wait_for(|| gateway.calls("ExecSandboxInteractive").iter().any(is_agent).then_some(()));
    wait_for(|| gateway.has_file("opt/fullsend/run/9.pid").then_some(()));
    let asked = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert!(!running.wait().unwrap().success());
    assert_eq!(record(&world)["outcome"], "interrupted");
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}

fn is_agent(call: &Json) -> bool {
    call["command"].to_string().contains("__agent")
}

/// How a run ends on a gateway with these faults: its exit code, and its reason.
fn ended(options: &Json, more: &str) -> Option<(Gateway, i32, String)> {
    let gateway = Gateway::start(NEW, options)?;
    let world = gateway.world(more, &json!({ "turns": [[{ "finish": { "summary": "done" } }]] }));
    let ran = run_triage(&world);
    let record = record(&world);
    assert_eq!(record["exit_code"], ran.code, "{record:#}");
    let reason = record["reason"].as_str().unwrap_or_default().to_owned();
    Some((gateway, ran.code, reason))
}

const UNAVAILABLE: i32 = 8;

#[test]
fn a_sandbox_that_does_not_get_ready_is_deleted() {
    for (options, expected) in [
        (json!({ "create_times_out": true }), "refused CreateSandbox: the driver took too long"),
        (json!({ "phase_error": true }), "is in error: image pull failed"),
    ] {
        let Some((gateway, code, reason)) = ended(&options, "") else { return };
        assert_eq!(code, UNAVAILABLE, "{options}: {reason}");
        assert!(reason.contains(expected), "{options}: {reason}");
        assert_eq!(gateway.wait_for("deleted")["left"], 0);
    }
}

#[test]
fn a_wait_for_a_sandbox_can_be_interrupted() {
    let Some(gateway) = Gateway::start(OLD, &json!({ "never_ready": true })) else { return };
    let world = gateway.world("", &json!({ "turns": [[{ "finish": { "summary": "done" } }]] }));
    let mut running = world.spawn(&["run", "triage", "--quiet"]);
    gateway.wait_for("GetSandbox");
    let asked = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert!(!running.wait().unwrap().success());
    assert_eq!(record(&world)["outcome"], "interrupted");
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}

#[test]
fn a_stream_that_is_cut_is_not_the_agents_failure() {
    for (word, bytes, expected) in [
        ("__agent", 10, "cut `/opt/fullsend/fullsend` before its end"),
        ("get", 700, "cut a download before its end"),
        ("put-tree", 0, "cut an upload before its end"),
        ("__tunnel", 0, "the tunnel failed in the OpenShell sandbox: its stream was cut"),
        ("__tunnel", 60, "the tunnel failed in the OpenShell sandbox: its stream was cut"),
    ] {
        let Some((gateway, code, reason)) = ended(&json!({ "cut": word, "cut_after": bytes }), "") else {
            return;
        };
        assert_eq!(code, UNAVAILABLE, "{word}: {reason}");
        assert!(reason.contains(expected), "{word}: {reason}");
        assert_eq!(gateway.wait_for("deleted")["left"], 0, "{word}");
    }
}

#[test]
fn a_sandbox_that_cannot_be_deleted_is_tried_again_and_then_named() {
    let Some(gateway) = Gateway::start(OLD, &json!({ "delete_fails": 1 })) else { return };
    let world = gateway.world("", &json!({ "turns": [[{ "finish": { "summary": "done" } }]] }));
    assert_eq!(run_triage(&world).code, 0);
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
    drop(gateway);
    let Some((gateway, code, reason)) = ended(&json!({ "delete_fails": 100 }), "") else { return };
    assert_eq!(code, UNAVAILABLE, "{reason}");
    let name = gateway.calls("CreateSandbox")[0]["asked"]["name"].as_str().unwrap().to_owned();
    assert!(reason.contains(&format!("{name} is left on http://127.0.0.1:{}", gateway.port)), "{reason}");
    assert!(reason.contains("driver is busy"), "{reason}");
    wait_for(|| (gateway.calls("DeleteSandbox").len() == 4).then_some(()));
}

#[test]
fn a_gateway_that_is_not_there_or_does_not_know_us() {
    let Some(gateway) = Gateway::start(NEW, &json!({})) else { return };
    let scenario = json!({ "turns": [[{ "finish": { "summary": "done" } }]] });
    let world = gateway.world("", &scenario).env("OPENSHELL_TOKEN", "another-token-0123456789");
    let ran = run_triage(&world);
    assert_eq!(ran.code, UNAVAILABLE, "{}", ran.all());
    let said = record(&world)["reason"].as_str().unwrap().to_owned();
    assert!(said.contains("refused the token (invalid token); set OPENSHELL_TOKEN"), "{said}");
    let doctor = gateway.world("", &scenario).run(&["doctor"]);
    assert!(
        doctor.out.contains(&format!("gateway {NEW} (http://127.0.0.1:{})", gateway.port)),
        "{}",
        doctor.out
    );
    drop(gateway);
    // Nothing listens there.
    let world = world.env("OPENSHELL_GATEWAY_ENDPOINT", "http://127.0.0.1:1");
    let ran = run_triage(&world);
    assert_eq!(ran.code, UNAVAILABLE, "{}", ran.all());
    let said = record(&world)["reason"].as_str().unwrap().to_owned();
    assert!(said.contains("the OpenShell gateway http://127.0.0.1:1 cannot be reached"), "{said}");
    let world = world.without("OPENSHELL_GATEWAY_ENDPOINT");
    let ran = run_triage(&world);
    assert!(
        ran.all().contains("no OpenShell gateway is known: set OPENSHELL_GATEWAY_ENDPOINT"),
        "{}",
        ran.all()
    );
}

#[test]
fn credentials_are_providers_of_the_gateway_and_the_policy_is_its_own() {
    // A sandbox that stays does not keep the credentials there.
    let stays = json!({ "delete_fails": 100 });
    for (version, options, code) in [(OLD, &json!({}), 0), (NEW, &json!({}), 0), (NEW, &stays, UNAVAILABLE)] {
        let Some(gateway) = Gateway::start(version, options) else { return };
        let scenario = json!({
            "turns": [[{ "shell": "echo token=$LAB_TOKEN" }], [{ "finish": { "summary": "no placeholder" } }]],
            "branches": [{
                "when": { "tool_result_contains": "token=openshell:resolve:env:v1_LAB_TOKEN" },
                "turns": [[{ "finish": { "summary": "placeholder" } }]],
            }],
        });
        let more = "policy: policies/lab.yaml\n";
        let world = gateway.world(more, &scenario).env("LAB_VALUE", "lab-secret-0123456789abcdef");
        let harness = world.path("repo/.fullsend/harness/triage.yaml");
        let text = fs::read_to_string(&harness).unwrap();
        fs::write(harness, text.replace("providers: [model]", "providers: [model, lab]")).unwrap();
        world.write(
            "repo/.fullsend/providers/lab.yaml",
            "name: lab\ntype: lab\ncredentials:\n  LAB_TOKEN: ${LAB_VALUE}\n",
        );
        world.write(
            "repo/.fullsend/profiles/lab.yaml",
            "id: lab\ncredentials:\n  - name: token\n    env_vars: [LAB_TOKEN]\n    auth_style: bearer\n\
             endpoints:\n  - host: api.lab.example\n    port: 443\n    protocol: rest\n    access: read-only\n",
        );
        world.write(
            "repo/.fullsend/policies/lab.yaml",
            "version: 1\nfilesystem_policy:\n  include_workdir: true\n  read_only: [/usr, /etc]\n\
             network_policies:\n  lab:\n    endpoints:\n      - host: api.lab.example\n        port: 443\n        \
             protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: { method: GET, path: /v1/** }\n    \
             binaries:\n      - path: /usr/bin/curl\n",
        );
        let ran = run_triage(&world);
        assert_eq!(ran.code, code, "{version}: {}", ran.all());
        let asked = &gateway.calls("CreateSandbox")[0]["asked"]["spec"];
        let rule = &asked["policy"]["network_policies"]["lab"];
        let endpoint = &rule["endpoints"][0];
        assert_eq!(rule["binaries"][0]["path"], "/usr/bin/curl", "{asked:#}");
        assert_eq!(endpoint["host"], "api.lab.example");
        assert_eq!(endpoint["ports"], json!([443]));
        assert_eq!(endpoint["rules"][0]["allow"], json!({ "method": "GET", "path": "/v1/**" }));
        let enforce = if version == OLD { "enforce" } else { "NETWORK_ENFORCEMENT_MODE_ENFORCE" };
        assert_eq!(endpoint["enforcement"], enforce);
        let provider = &gateway.calls("CreateProvider")[0];
        assert_eq!(provider["keys"], json!(["LAB_TOKEN"]));
        assert_eq!(asked["providers"], json!([provider["name"]]));
        assert_eq!(gateway.wait_for("provider deleted")["left"], 0);
        let events = gateway.seen.lock().unwrap().iter().map(Json::to_string).collect::<String>();
        assert!(!events.contains("lab-secret"), "the value is only in the provider");
    }
}
