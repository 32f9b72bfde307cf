//! The harnesses of the original project's shapes, in a reconstruction of our own: seven harnesses, fifteen variants. `check`
//! accepts each as it is; a run of each starts its scripts and writes to a fake of its forge, which records every call.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use crate::support::{Ran, World, copy, has_program, program, root};

const BOTH: &[&str] = &["github", "gitlab"];

/// Every harness with its forges.
const VARIANTS: &[(&str, &[&str])] = &[
    ("triage", &["github", "gitlab", "jira"]),
    ("code", BOTH),
    ("fix", BOTH),
    ("review", BOTH),
    ("retro", BOTH),
    ("prioritize", BOTH),
    ("scribe", BOTH),
];

const TOKEN: &str = "forge-token-of-the-test-3391";

/// The reconstruction as the directory of configuration beside a repository, and what its CI sets.
fn world() -> World {
    let world = World::new();
    copy(&root().join("tests/data/dropin"), &world.path("agents"));
    world.write("repo/README.md", "A repository.\n");
    world.write("repo/.git/HEAD", "ref: refs/heads/main\n");
    world.write("gcp.json", "{\"type\": \"service_account\", \"project_id\": \"acme\"}");
    world.write("review-body.md", "Rename it.\n");
    world.write("bin/x", "");
    std::os::unix::fs::symlink(program(), world.path("bin/fullsend")).unwrap();
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    let variables = [
        ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", at("bin"))),
        ("FULLSEND_SANDBOX_IMAGE", "none".to_owned()),
        ("GOOGLE_APPLICATION_CREDENTIALS", at("gcp.json")),
        ("GCP_PROJECT", "acme".to_owned()),
        ("GCP_REGION", "europe-west1".to_owned()),
        ("RUNNER_TEMP", at("tmp")),
        ("REVIEW_BODY_FILE", at("review-body.md")),
        ("GH_TOKEN", TOKEN.to_owned()),
        ("GITLAB_TOKEN", TOKEN.to_owned()),
        ("PUSH_TOKEN", format!("push-{TOKEN}")),
        ("JIRA_API_TOKEN", TOKEN.to_owned()),
        ("JIRA_EMAIL", "bot@example.com".to_owned()),
        ("JIRA_PROJECT", "ACME".to_owned()),
        ("REPO_FULL_NAME", "acme/widgets".to_owned()),
        ("ISSUE_NUMBER", "7".to_owned()),
        ("ISSUE_URL", "https://example.com/issues/7".to_owned()),
        ("COMMENT_BODY", "/triage".to_owned()),
        ("BOT_NAME", "Bot".to_owned()),
        ("BOT_EMAIL", "bot@example.com".to_owned()),
    ];
    variables.into_iter().fold(world, |world, (name, value)| world.env(name, &value))
}

fn fullsend(world: &World, command: &str, harness: &str, forge: &str, more: &[&str]) -> Ran {
    let agents = world.path("agents").to_string_lossy().into_owned();
    let repository = world.path("repo").to_string_lossy().into_owned();
    let place = ["--fullsend-dir", &agents, "--target-repo", &repository, "--forge", forge];
    world.run(&[&[command, harness][..], &place, more].concat())
}

#[test]
fn check_accepts_every_variant() {
    let world = world()
        .with_runtime_programs()
        .env("JIRA_URL", "http://127.0.0.1:1")
        .env("GITHUB_API_URL", "http://127.0.0.1:1")
        .env("GITLAB_URL", "http://127.0.0.1:1");
    let mut checked = 0;
    for (harness, forges) in VARIANTS {
        for forge in *forges {
            let ran = fullsend(&world, "check", harness, forge, &["--env"]);
            assert_eq!(ran.code, 0, "{harness} on {forge}: {}", ran.all());
            checked += 1;
        }
    }
    assert_eq!(checked, 15);
    // Every key without an effect is reported.
    let said = fullsend(&world, "check", "triage", "github", &["--env"]).err;
    for key in ["roles", "create_issues", "defaults", "repos"] {
        assert!(said.contains(&format!("`{key}` has no effect here")), "{key}: {said}");
    }
    assert!(!said.contains("`agents`"), "the registry says what holds anyway: {said}");
}

/// What `migrate` says about the reconstruction, and that its patch leaves nothing to do.
#[test]
fn migrate_leaves_no_manual_edit() {
    if !has_program("patch", "drop-in") {
        return;
    }
    let world = world().with_runtime_programs();
    let agents = world.path("agents").to_string_lossy().into_owned();
    let patch = world.path("migrate.patch").to_string_lossy().into_owned();
    let ran = world.run(&["migrate", "--fullsend-dir", &agents, "--patch", &patch]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.out.contains("config.yaml: note: `roles` has no effect here (line 12)\n"), "{}", ran.out);
    assert!(!ran.out.contains("refused: "), "{}", ran.out);
    let mut command = std::process::Command::new("patch");
    let applied = command.args(["-p1", "-i", &patch]).current_dir(&agents).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stdout));
    let again = world.run(&["migrate", "--fullsend-dir", &agents, "--patch", &patch]);
    assert!(again.err.contains("no file needs an edit"), "{}", again.all());
    assert!(!again.out.contains("has no effect here"), "{}", again.out);
}

/// The image comes from a registry, unless the caller names another.
#[test]
fn an_image_can_be_named_for_one_run() {
    let world = world().without("FULLSEND_SANDBOX_IMAGE");
    let accepted = fullsend(&world, "check", "triage", "jira", &[]);
    assert_eq!(accepted.code, 0, "{}", accepted.err);
    let refused = fullsend(&world, "check", "triage", "jira", &["--offline"]);
    assert!(refused.err.contains("error[image-not-cached]"), "{}", refused.err);
    assert_eq!(refused.code, 4);
    let shown = fullsend(&world, "run", "triage", "jira", &["--image", "none", "--dry-run"]);
    assert!(!shown.err.contains("registry.example.com"), "{}", shown.all());
}

/// Plays GitHub, GitLab and Jira: keeps comments and reviews, and every call.
struct Forge {
    url: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

#[derive(Clone, Debug)]
struct Call {
    method: String,
    path: String,
    login: String,
    body: Json,
}

#[derive(Default)]
struct Kept {
    comments: Vec<(u64, Json)>,
    next: u64,
}

impl Forge {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let kept = Arc::new(Mutex::new(Kept { next: 100, ..Kept::default() }));
        let recorded = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let recorded = Arc::clone(&recorded);
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, &recorded, &kept));
            }
        });
        Self { url, calls }
    }

    fn calls(&self, method: &str, path: &str) -> Vec<Call> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.method == method && call.path.contains(path)).cloned().collect()
    }
}

fn serve(mut stream: TcpStream, calls: &Mutex<Vec<Call>>, kept: &Mutex<Kept>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next()?;
    let path = words.next()?;
    let mut login = String::new();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let (name, value) = header.trim_end().split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "" => break,
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" | "private-token" => login = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok()?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Json::Null);
    let answer = answer(&method, &path, &body, &mut kept.lock().unwrap());
    calls.lock().unwrap().push(Call { method, path, login, body });
    let text = answer.to_string();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
        .ok()
}

/// Issues 1 to 9 exist; everything below `comments`, `comment`, `notes` and `reviews` is a list of texts.
fn answer(method: &str, path: &str, body: &Json, kept: &mut Kept) -> Json {
    let plain = path.split('?').next().unwrap_or(path);
    let last = plain.rsplit('/').next().unwrap_or_default();
    let is_list = ["comments", "comment", "notes", "reviews"].contains(&last);
    match method {
        "GET" if is_list => {
            let all: Vec<Json> = kept
                .comments
                .iter()
                .map(|(id, body)| {
                    let mut one = body.clone();
                    one["id"] = json!(id);
                    one
                })
                .collect();
            if last == "comment" { json!({ "total": all.len(), "comments": all }) } else { json!(all) }
        }
        "GET" => json!({
            "number": 7, "iid": 7, "key": "ACME-7", "title": "A title", "state": "open", "sha": "c0ffee",
            "head": { "sha": "c0ffee" }, "fields": { "summary": "A title" },
        }),
        "POST" if is_list => {
            kept.next += 1;
            let mut one = body.clone();
            one["commit_id"] = json!("c0ffee");
            one["state"] = json!("COMMENTED");
            kept.comments.push((kept.next, one));
            json!({ "id": kept.next })
        }
        "PATCH" | "PUT" => {
            let id: u64 = last.parse().unwrap_or_default();
            for (_, old) in kept.comments.iter_mut().filter(|(known, _)| *known == id) {
                old["body"] = body["body"].clone();
            }
            json!({})
        }
        "DELETE" => {
            let id: u64 = last.parse().unwrap_or_default();
            kept.comments.retain(|(known, _)| *known != id);
            Json::Null
        }
        _ => json!({}),
    }
}

/// The model's provider with a script in place of the service; nothing else is changed.
fn scripted(world: &World, summary: &str) {
    world.write(
        "agents/customized/providers/vertex.yaml",
        "name: vertex\ntype: acme-vertex-ai\ncredentials: {_NOOP_VERTEX: \"\"}\nconfig: {scenario: scenarios/s.json}\n",
    );
    let look = "env > /sandbox/workspace/output/seen.txt; true";
    let scenario = json!({ "turns": [
        [{ "shell": look }], [{ "finish": { "summary": summary, "labels": ["kind/bug"] } }],
    ] });
    world.write("agents/scenarios/s.json", scenario.to_string());
}

/// Runs one variant to its end. A second run, where there is one, changes what the first one wrote.
fn runs_to_the_end(harness: &str, forge: &str) {
    if !has_program("jq", "drop-in") || !has_program("curl", "drop-in") {
        return;
    }
    let service = Forge::start();
    let world = world()
        .env("GITHUB_API_URL", &service.url)
        .env("GITLAB_URL", &service.url)
        .env("JIRA_URL", &service.url)
        .env("CI", "true");
    let summaries = ["The first summary.", "The second summary."];
    let runs = if harness == "triage" || harness == "review" { 2 } else { 1 };
    for summary in &summaries[..runs] {
        scripted(&world, summary);
        let output = world.path("out").to_string_lossy().into_owned();
        let more = ["--runtime", "native", "--output-dir", &output, "--status-repo", "acme/widgets"];
        let ran = fullsend(&world, "run", harness, forge, &more);
        assert_eq!(ran.code, 0, "{harness} on {forge}: {}", ran.all());
        assert!(ran.err.contains("--status-repo has no effect"), "{}", ran.err);
        assert!(ran.err.contains(&format!("Publishing {harness}")), "the CI's log has it: {}", ran.err);
        assert!(!ran.all().contains(TOKEN), "no token is shown: {}", ran.all());
    }
    let list = match (forge, harness) {
        ("github", "review") => "/repos/acme/widgets/pulls/7/reviews",
        ("github", _) => "/repos/acme/widgets/issues/7/comments",
        ("gitlab", _) => "/api/v4/projects/acme%2Fwidgets/issues/7/notes",
        _ => "/rest/api/2/issue/ACME-7/comment",
    };
    let created = service.calls("POST", list);
    assert_eq!(created.len(), 1, "one comment: {created:?}");
    assert!(created[0].body["body"].as_str().unwrap().contains("The first summary."), "{created:?}");
    assert!(!created[0].login.is_empty());
    let changed: Vec<Call> = ["PATCH", "PUT"].iter().flat_map(|method| service.calls(method, "/")).collect();
    assert_eq!(changed.len(), runs - 1, "changed in place: {changed:?}");
    for call in &changed {
        assert!(call.body["body"].as_str().unwrap().contains("The second summary."), "{changed:?}");
    }
    if forge == "github" {
        let labels = service.calls("POST", "/issues/7/labels");
        assert_eq!(labels[0].body["labels"], json!(["kind/bug"]));
    }
    looked(&world, forge);
}

/// What the agent had inside.
fn looked(world: &World, forge: &str) {
    let mut runs = vec![world.path("out")];
    let mut seen = None;
    while let Some(directory) = runs.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() {
                runs.push(entry.path());
            } else if entry.file_name() == "seen.txt" {
                seen = Some(fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    let seen = seen.unwrap();
    assert!(seen.contains(&format!("FULLSEND_FORGE={forge}\n")), "{seen}");
    assert!(seen.contains("GIT_SSL_CAINFO=/etc/openshell-tls/ca-bundle.pem\n"), "{seen}");
    assert!(seen.contains("CA_FROM=sandbox\n"), "{seen}");
    assert!(!seen.contains(TOKEN) && !seen.contains("_NOOP"), "{seen}");
}

macro_rules! variants {
    ($($name:ident: $harness:literal on $forge:literal,)+) => { $(
        #[test]
        fn $name() {
            runs_to_the_end($harness, $forge);
        }
    )+ };
}

variants! {
    triage_on_github: "triage" on "github",
    triage_on_gitlab: "triage" on "gitlab",
    triage_on_jira: "triage" on "jira",
    code_on_github: "code" on "github",
    code_on_gitlab: "code" on "gitlab",
    fix_on_github: "fix" on "github",
    fix_on_gitlab: "fix" on "gitlab",
    review_on_github: "review" on "github",
    review_on_gitlab: "review" on "gitlab",
    retro_on_github: "retro" on "github",
    retro_on_gitlab: "retro" on "gitlab",
    prioritize_on_github: "prioritize" on "github",
    prioritize_on_gitlab: "prioritize" on "gitlab",
    scribe_on_github: "scribe" on "github",
    scribe_on_gitlab: "scribe" on "gitlab",
}
