//! `fullsend dispatch` through the real program: local jobs, jobs that are started again, Slurm with a cluster of the test's own where
//! it is installed, and the documents for Kubernetes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::cluster::free_port;
use crate::support::{World, skip};

/// A harness that finishes, and one whose output never passes.
fn world() -> World {
    let world = World::scripted("", json!({ "turns": [[{ "finish": { "summary": "done" } }]] }));
    world.write(
        "repo/.fullsend/harness/failing.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [bad]\n",
    );
    world.write(
        "repo/.fullsend/providers/bad.yaml",
        "name: bad\ntype: anthropic\nconfig:\n  scenario: scenarios/bad.json\n",
    );
    world.write(
        "repo/.fullsend/scenarios/bad.json",
        json!({ "turns": vec![json!([{ "finish": { "other": 1 } }]); 5] }).to_string(),
    );
    world
}

fn results(world: &World, folder: &str) -> Vec<Json> {
    let ran = world.run(&["dispatch", "collect", folder]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn local_jobs_run_at_once_and_are_collected_with_their_exit_codes() {
    let world = world();
    world.write(
        "repo/requests.jsonl",
        "{\"harness\":\"triage\"}\n{\"harness\":\"failing\"}\n{\"harness\":\"triage\"}\n",
    );
    let sent = world.run(&["dispatch", "send", "--folder", "../many", "--parallel", "2", "requests.jsonl"]);
    assert_eq!((sent.code, sent.out.as_str()), (5, "3 runs: 2 done, 1 failed, 0 open\n"), "{}", sent.err);
    let all = results(&world, "../many");
    let exits: Vec<&Json> = all.iter().map(|one| &one["exit"]).collect();
    assert_eq!(exits, [&json!(0), &json!(5), &json!(0)]);
    assert_eq!((&all[0]["output"], &all[0]["attempt"]), (&json!({ "summary": "done" }), &json!(1)));
    let run =
        PathBuf::from(all[1]["run"].as_str().unwrap().replace("$ROOT", world.path("").to_str().unwrap()));
    assert!(run.join("run.json").is_file(), "the record of a run that failed is there too");
    // A job that is started again gives its code and runs nothing.
    let again = world.run(&["dispatch", "job", "../many", "1"]);
    assert_eq!(again.code, 5, "{}", again.err);
    assert!(!world.path("many/jobs/1/attempt-2").exists());
    // A job that was cut off has no result: it gets another attempt.
    fs::remove_file(world.path("many/jobs/0/result.json")).unwrap();
    assert!(world.run(&["dispatch", "status", "../many"]).out.ends_with("1 done, 1 failed, 1 open\n"));
    assert_eq!(world.run(&["dispatch", "job", "../many", "0"]).code, 0);
    assert_eq!(results(&world, "../many")[0]["attempt"], json!(2));
    for (arguments, code, part) in [
        (&["send", "--folder", "../many", "requests.jsonl"][..], 4, "many cannot be used: "),
        (&["status", "nowhere"], 4, "nowhere cannot be used: "),
        (&["job", "../many", "9"], 4, "there is no request 9"),
        (&["cancel", "../many"], 2, "only jobs of Slurm can be cancelled from here"),
        (&["logs", "../many", "0"], 4, "log.txt: "),
        (&["send", "--folder", "new", "absent.jsonl"], 3, "cannot read absent.jsonl"),
    ] {
        let ran = world.run(&[&["dispatch"], arguments].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_job_for_kubernetes_has_limits_secrets_by_reference_and_our_security_context() {
    let world = world();
    world.write("repo/requests.jsonl", "{\"harness\":\"triage\"}\n{\"harness\":\"triage\"}\n");
    let arguments = [
        "--engine",
        "kubernetes",
        "--image",
        "registry/fullsend:1",
        "--secret",
        "model-key",
        "--claim",
        "runs",
    ];
    let ran = world.run(&[&["dispatch", "send", "requests.jsonl"], &arguments[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let documents: Vec<Json> =
        ran.out.split("---\n").skip(1).map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(documents[0]["data"]["requests.jsonl"].as_str().unwrap().lines().count(), 2);
    let job = &documents[1]["spec"];
    assert_eq!((&job["completions"], &job["completionMode"]), (&json!(2), &json!("Indexed")));
    let container = &job["template"]["spec"]["containers"][0];
    assert_eq!(container["envFrom"], json!([{ "secretRef": { "name": "model-key" } }]));
    assert_eq!(container["securityContext"]["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(container["resources"]["limits"], json!({ "cpu": "1", "memory": "4Gi" }));
    let without = world.run(&["dispatch", "send", "requests.jsonl", "--engine", "kubernetes"]);
    assert_eq!(without.code, 2, "{}", without.err);
}

/// A cluster of one node, of this test's own. It ends with the value.
struct Cluster {
    daemons: Vec<Child>,
    place: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }
}

fn is_installed(name: &str) -> bool {
    ["/usr/sbin", "/usr/bin"].iter().any(|directory| Path::new(directory).join(name).exists())
}

impl Cluster {
    fn start() -> Option<Self> {
        let missing =
            ["munged", "slurmctld", "slurmd", "sbatch"].into_iter().find(|name| !is_installed(name));
        if let Some(name) = missing {
            skip("slurm", &format!("{name} is not installed: apt-get install slurmctld slurmd munge"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("slurm", "slurmd needs root");
            return None;
        }
        let place = tempfile::Builder::new().prefix("fullsend-slurm-").tempdir().unwrap();
        let mut cluster = Self { daemons: Vec::new(), place };
        cluster.configure();
        let socket = cluster.path("munge.socket");
        cluster.daemon(
            "munged",
            &[
                "--foreground",
                "--force",
                &format!("--key-file={}", cluster.path("munge.key")),
                &format!("--socket={socket}"),
                &format!("--pid-file={}", cluster.path("munge.pid")),
                &format!("--log-file={}", cluster.path("munge.log")),
                &format!("--seed-file={}", cluster.path("munge.seed")),
            ],
        );
        wait_for("munged", || Path::new(&socket).exists());
        cluster.daemon("slurmctld", &["-D", "-i"]);
        cluster.daemon("slurmd", &["-D", "-N", "one"]);
        wait_for("the node", || cluster.ask("sinfo", &["-h", "-o", "%T"]).trim() == "idle");
        Some(cluster)
    }

    fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    fn configure(&self) {
        fs::write(self.path("munge.key"), [7; 1024]).unwrap();
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(self.path("munge.key"), private).unwrap();
        for directory in ["state", "spool"] {
            fs::create_dir(self.path(directory)).unwrap();
        }
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let controller = free_port();
        let node = free_port();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={0}(127.0.0.1)\nSlurmctldPort={controller}\nAuthType=auth/munge\nAuthInfo=socket={1}\nCredType=cred/munge\n\
             SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={2}\nSlurmdSpoolDir={3}\nSlurmctldPidFile={4}\nSlurmdPidFile={5}\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             SlurmdParameters=config_overrides\nMailProg=/bin/true\nSwitchType=switch/none\nJobRequeue=1\nKillWait=30\nSchedulerParameters=sched_interval=1,batch_sched_delay=0\n\
             NodeName=one NodeHostname={0} NodeAddr=127.0.0.1 Port={node} CPUs=8 State=UNKNOWN\n\
             PartitionName=all Nodes=one Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8\n",
            hostname.trim(),
            self.path("munge.socket"),
            self.path("state"),
            self.path("spool"),
            self.path("slurmctld.pid"),
            self.path("slurmd.pid"),
        );
        fs::write(self.path("slurm.conf"), text).unwrap();
    }

    fn daemon(&mut self, name: &str, arguments: &[&str]) {
        let log = fs::File::create(self.path(&format!("{name}.out"))).unwrap();
        let path = ["/usr/sbin", "/usr/bin"].map(|directory| Path::new(directory).join(name));
        let path = path.into_iter().find(|path| path.exists()).unwrap();
        let mut command = Command::new(path);
        command.args(arguments).env("SLURM_CONF", self.path("slurm.conf"));
        let streams = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(streams.spawn().unwrap());
    }

    fn ask(&self, name: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(name);
        let ran = command.args(arguments).env("SLURM_CONF", self.path("slurm.conf")).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn slurm_runs_an_array_requeues_one_and_keeps_the_exit_code_of_another() {
    let Some(cluster) = Cluster::start() else { return };
    let world = world().env("SLURM_CONF", &cluster.path("slurm.conf"));
    // The third waits until it is told to go on, so that it can be killed while it runs.
    let go = world.path("go");
    world.write(
        "repo/.fullsend/harness/waiting.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\npre_script: scripts/wait.sh\n",
    );
    world.script(
        "repo/.fullsend/scripts/wait.sh",
        &format!("#!/bin/sh\necho up >> {0}.up\nwhile [ ! -e {0} ]; do sleep 0.1; done\n", go.display()),
    );
    let names = ["triage", "failing", "waiting", "triage", "triage", "triage", "triage", "triage"];
    let lines: String = names.iter().map(|name| format!("{{\"harness\":\"{name}\"}}\n")).collect();
    world.write("repo/requests.jsonl", lines);
    let sent = world.run(&[
        "dispatch",
        "send",
        "--engine",
        "slurm",
        "--folder",
        "many",
        "--parallel",
        "8",
        "requests.jsonl",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let job = sent.out.trim().to_owned();
    let up = format!("{}.up", go.display());
    wait_for("the third starts", || fs::read_to_string(&up).is_ok_and(|text| text.lines().count() == 1));
    let task = format!("{job}_2");
    cluster.ask("scontrol", &["requeue", &task]);
    wait_for("it is queued again", || {
        cluster.ask("squeue", &["-h", "-j", &task, "-o", "%T"]).trim() == "PENDING"
    });
    fs::write(&go, "").unwrap();
    // Slurm waits for two minutes before it starts a job again; the test does not.
    cluster.ask("scontrol", &["update", &format!("JobId={task}"), "StartTime=now"]);
    wait_for("all end", || world.run(&["dispatch", "status", "many"]).out.contains(" 0 open"));
    let all = results(&world, "many");
    let exits: Vec<i64> = all.iter().map(|one| one["exit"].as_i64().unwrap()).collect();
    assert_eq!(exits, [0, 5, 0, 0, 0, 0, 0, 0]);
    let attempts: Vec<i64> = all.iter().map(|one| one["attempt"].as_i64().unwrap()).collect();
    assert_eq!(attempts, [1, 1, 2, 1, 1, 1, 1, 1], "only the one that was requeued ran twice");
}
