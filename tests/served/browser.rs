//! The live page in a real Chromium: a run from start to end with its costs, a question that is answered there, and a tool call
//! that is allowed there. `UPDATE_DOCS=1` also takes the screenshots of the docs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Served, TOKEN, with_token};
use crate::page::{browser, web};
use crate::support::{World, root, skip, wait_for};
use crate::wakes::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, when};

/// Runs the checks of `web/test/served.mjs`. `go_on` is called once, when the page shows what it waits for. `false`: this machine
/// has no browser.
fn drive(served: &Served, task: &str, id: &str, go_on: impl FnOnce()) -> bool {
    let (Some(browser), Ok(web)) = (browser(), web()) else {
        let missing = web().err().unwrap_or_else(|| "none of Chromium's programs is installed".to_owned());
        skip("page in a browser", &missing);
        return false;
    };
    let own = tempfile::tempdir_in(&web).unwrap();
    fs::copy(root().join("web/test/served.mjs"), own.path().join("served.mjs")).unwrap();
    let link = format!("http://{}/#token={TOKEN}", served.host);
    let mut command = Command::new("node");
    command.arg("served.mjs").arg(browser).args([&link, task, id]).current_dir(own.path());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        command.arg(root().join("docs/images"));
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut go_on = Some(go_on);
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line == "go on" {
            go_on.take().unwrap()();
        }
        text.push_str(&format!("{line}\n"));
    }
    assert!(child.wait().unwrap().success(), "{text}");
    assert!(go_on.is_none() && text.matches("ok ").count() >= 4, "{text}");
    true
}

#[test]
fn a_live_run_is_drawn_to_its_end() {
    let scenario = json!({ "turns": [[{ "finish": { "summary": "x" } }]] });
    // One with a price.
    let more = "timeout_minutes: 3\npre_script: scripts/wait.sh\nmodel: claude-sonnet-4-5\n";
    let world = with_token(World::scripted(more, scenario));
    let go = world.path("go");
    let wait = format!("#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.1; done\n", go.display());
    world.script("repo/.fullsend/scripts/wait.sh", &wait);
    let served = Served::start(&world);
    let mut running = world.spawn(&["run", "triage"]);
    wait_for(|| served.get("/v1/runs?outcome=running").json()["runs"][0]["id"].as_str().map(str::to_owned));
    if !drive(&served, "run", "", || fs::write(&go, "").unwrap()) {
        fs::write(&go, "").unwrap();
    }
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_run_is_cancelled_in_the_page() {
    let scenario = json!({ "turns": [[{ "finish": { "summary": "x" } }]] });
    let world = with_token(World::scripted("timeout_minutes: 3\npre_script: scripts/wait.sh\n", scenario));
    world.script("repo/.fullsend/scripts/wait.sh", "#!/bin/sh\nsleep 100\n");
    let served = Served::start(&world);
    let mut running = world.spawn(&["run", "triage"]);
    let id = wait_for(|| {
        served.get("/v1/runs?outcome=running").json()["runs"][0]["id"].as_str().map(str::to_owned)
    });
    if !drive(&served, "cancel", "", || ()) {
        assert_eq!(served.post(&format!("/v1/runs/{id}/cancel"), &json!({})).status, 202);
    }
    assert!(!running.wait().unwrap().success());
    let outcome =
        wait_for(|| served.get(&format!("/v1/runs/{id}")).json()["outcome"].as_str().map(str::to_owned));
    assert_eq!(outcome, "interrupted");
}

#[test]
fn a_question_answered_in_the_page_wakes_the_session() {
    let asks = json!({
        "response": "I ask for a ticket.", "summary": "Asked for a ticket.", "outcome": "sleep",
        "custom_tools": [{ "name": "tracker.open", "input": { "title": "Broken" }, "expires_seconds": 172_800 }],
    });
    let mut stage = Stage::new(&[
        when("the tool of request", json!([finish(sleeps("The ticket is 42."))])),
        when("open a ticket", json!([finish(asks)])),
        when("refused", json!([[{ "error": 400, "message": "no such model", "times": 99 }]])),
        when(EVERY_WAKE, json!([finish(sleeps("Nothing to do."))])),
    ]);
    stage.world = with_token(stage.world);
    let dead = stage.told("refused");
    stage.wakes(&dead, 1);
    let id = stage.told("please open a ticket");
    stage.wakes(&id, 10);
    let served = Served::start(&stage.world);
    let work = served.get("/v1/work").json();
    let given_up = json!([{ "session": dead, "agent": "helper", "inputs": 1 }]);
    assert_eq!((&work["dead_letters"], &work["leases"]), (&given_up, &json!([])), "{work:#}");
    assert_eq!(served.get("/v1/caller").json(), json!({ "name": "operator", "role": "operator" }));
    let request = served.get(&format!("/v1/sessions/{id}")).json()["requests"][0].clone();
    assert_eq!(request["tool"], "tracker.open");
    let path = format!("/v1/sessions/{id}/requests/{}", request["id"].as_str().unwrap());
    let other_input = json!({ "input_digest": "0".repeat(64), "output": 1 });
    served.post(&format!("{path}/answer"), &other_input).is_problem(409, "refused");
    let wrong_kind = json!({ "input_digest": request["input_digest"], "decision": "allow" });
    served.post(&format!("{path}/confirm"), &wrong_kind).is_problem(409, "refused");
    // It waits for an agent that has no sessions, and shows itself meanwhile.
    let mut idle = stage.world.spawn(&["worker", "--agent", "nobody", "--label", "gpu"]);
    wait_for(|| served.get("/v1/workers").json()["workers"][0].is_object().then_some(()));
    let drove = drive(&served, "session", &id, || stage.wakes(&id, 0));
    if !drove {
        let answer = json!({ "input_digest": request["input_digest"], "output": { "ticket": 42 } });
        assert_eq!(served.post(&format!("{path}/answer"), &answer).status, 200);
        stage.wakes(&id, 0);
    }
    idle.kill().unwrap();
    idle.wait().unwrap();
    let said = stage.of_type(&id, "agent.message");
    assert_eq!(said.last().unwrap()["message"], "The ticket is 42.");
    if drove {
        assert_eq!(stage.of_type(&dead, "session.dead_retried")[0]["by"], "operator");
    }
    let answered = stage.of_type(&id, "user.custom_tool_result");
    assert_eq!(answered[0]["by"], "operator");
}

const PUSH: &str = "echo pushed >> /sandbox/workspace/session/pushes.md";

#[test]
fn a_call_allowed_in_the_page_runs_once() {
    let mut stage = Stage::new(&[
        when("the user allowed request", json!([shell(PUSH), shell(PUSH), finish(sleeps("Pushed once."))])),
        when(EVERY_WAKE, json!([shell(PUSH), finish(sleeps("I asked."))])),
    ]);
    stage.harness("native", "confirm_tools: [Bash]\n");
    stage.world = with_token(stage.world);
    let id = stage.told("please push");
    stage.wakes(&id, 10);
    assert_eq!(stage.memory(&id, "pushes.md"), None, "nothing ran");
    let served = Served::start(&stage.world);
    if !drive(&served, "confirm", &id, || stage.wakes(&id, 10)) {
        let request = served.get(&format!("/v1/sessions/{id}")).json()["requests"][0].clone();
        let path = format!("/v1/sessions/{id}/requests/{}/confirm", request["id"].as_str().unwrap());
        let allow = json!({ "input_digest": request["input_digest"], "decision": "allow" });
        assert_eq!(served.post(&path, &allow).status, 200);
        stage.wakes(&id, 10);
    }
    assert_eq!(stage.memory(&id, "pushes.md").as_deref(), Some("pushed\n"), "once: {}", stage.log(&id));
    let decided = stage.of_type(&id, "user.tool_confirmation");
    assert_eq!((&decided[0]["by"], &decided[0]["decision"]), (&json!("operator"), &json!("allow")));
}
