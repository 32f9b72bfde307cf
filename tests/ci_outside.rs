//! Pipelines as outside programs see them: zizmor looks for weaknesses of workflows, gitlab-ci-local runs the jobs of GitLab. They
//! come from PyPI and npm into `target/cache`, once, under a lock, where `FULLSEND_TEST_OUTSIDE` is set.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use crate::ci_render::rendered;
use crate::support::{World, example, has_programs, root, skip};

const ZIZMOR: &str = "zizmor==1.32.0";
const GITLAB_CI_LOCAL: &str = "gitlab-ci-local@4.75.1";

/// What it needs of Node 22, for older ones.
const NODE_22: &str = "Set.prototype.union ??= function (other) { return new Set([...this, ...other]); };\n";

/// The directory of an installed package.
fn install(
    name: &str,
    package: &str,
    commands: impl Fn(&PathBuf) -> Vec<Command>,
) -> Result<PathBuf, String> {
    if std::env::var_os("FULLSEND_TEST_OUTSIDE").is_none() {
        return Err(format!("set FULLSEND_TEST_OUTSIDE=1 to install {package}"));
    }
    let place = root().join("target/cache").join(name);
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let marker = place.join("installed");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == package) {
        return Ok(place);
    }
    for mut command in commands(&place) {
        let output = command.output().map_err(failed)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    fs::write(marker, package).map_err(failed)?;
    Ok(place)
}

#[test]
fn zizmor_finds_nothing() {
    let installed = install("zizmor", ZIZMOR, |place| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(place);
        let mut pip = Command::new(place.join("bin/pip"));
        pip.args(["install", "--quiet", "--timeout", "5", "--retries", "0", ZIZMOR]);
        vec![venv, pip]
    });
    let place = match installed {
        Ok(place) => place,
        Err(why) => return skip("zizmor", why.lines().last().unwrap_or("pip failed")),
    };
    let world = World::new();
    let mut files: Vec<PathBuf> = ["action.yml", ".github/workflows/fullsend.yml", "examples/ci/github"]
        .map(|path| root().join(path))
        .to_vec();
    for (number, workflow) in rendered("github").into_iter().enumerate() {
        files.push(world.write(&format!("workflow-{number}.yml"), workflow));
    }
    let init = example("hello");
    assert_eq!(init.run(&["init", "--ci", "github"]).code, 0);
    files.push(init.path("repo/.github/workflows/fullsend.yml"));
    let ran =
        Command::new(place.join("bin/zizmor")).args(["--offline", "--quiet"]).args(&files).output().unwrap();
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success() && said.contains("No findings"), "{said}");
}

#[test]
fn gitlab_ci_local_runs_the_jobs() {
    if !has_programs(&["node", "npm", "git", "rsync"], "gitlab-ci-local") {
        return;
    }
    let installed = install("gitlab-ci-local", GITLAB_CI_LOCAL, |place| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(place)
            .arg(GITLAB_CI_LOCAL);
        vec![npm]
    });
    let place = match installed {
        Ok(place) => place,
        Err(why) => return skip("gitlab-ci-local", why.lines().last().unwrap_or("npm failed")),
    };
    let world = example("hello");
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    let trigger =
        "trigger: event.transition.kind == 'label_changed' && event.transition.label.name == 'ready'\n";
    world.write("repo/.fullsend/harness/hello.yaml", harness + trigger);
    assert_eq!(world.run(&["ci", "render", "gitlab", "--write"]).code, 0);
    world.write("repo/.gitlab-ci.yml", "include:\n  - local: .gitlab/fullsend.yml\n");
    let payload = |label: &str| {
        let labels = format!("[{{\"title\":\"{label}\"}}]");
        format!(
            "{{\"object_kind\":\"issue\",\"object_attributes\":{{\"action\":\"update\",\"iid\":5}},\"user\":{{\"username\":\"ann\"}},\"project\":{{\"path_with_namespace\":\"acme/widgets\"}},\"labels\":{labels},\"changes\":{{\"labels\":{{\"previous\":[],\"current\":{labels}}}}}}}"
        )
    };
    let ready = world.write("ready.json", payload("ready"));
    let other = world.write("other.json", payload("other"));
    let programs =
        std::path::Path::new(env!("CARGO_BIN_EXE_fullsend")).parent().unwrap().display().to_string();
    let program = place.join("node_modules/.bin/gitlab-ci-local").display().to_string();
    let preload = world.write("node-22.cjs", NODE_22).display().to_string();
    let script = world.write(
        "run.sh",
        format!(
            "export PATH='{programs}':\"$PATH\" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n\
             [ -d .git ] || {{ git init -q -b main . && git remote add origin git@gitlab.example.com:acme/widgets.git && git add -A && git commit -q -m x; }}\n\
             node -r '{preload}' '{program}' --force-shell-executor --ignore-predefined-vars CI_PIPELINE_SOURCE,CI_DEFAULT_BRANCH --variable CI_PIPELINE_SOURCE=trigger --variable CI_DEFAULT_BRANCH=main --variable TRIGGER_PAYLOAD=\"$1\"\n"
        ),
    );
    let run = |payload: &PathBuf| {
        world.run_program("/bin/bash".as_ref(), &[script.as_os_str(), payload.as_os_str()])
    };
    let refused = run(&other);
    assert!(
        refused.code == 0 && refused.all().contains("the event does not start hello"),
        "{}",
        refused.all()
    );
    let ran = run(&ready);
    assert!(ran.code == 0 && ran.all().contains("completed: "), "{}", ran.all());
}
