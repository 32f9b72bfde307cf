//! What a run refuses before its agent starts, `check` refuses with the same words, and nothing of the run was started:
//! no pre-script, no `preflight_check`, no directory of a run.

use crate::support::World;

/// One way to be refused: lines of the harness, other files, and what both commands say.
struct Refusal {
    harness: &'static str,
    files: &'static [(&'static str, &'static str)],
    environment: &'static [(&'static str, &'static str)],
    says: &'static str,
    code: i32,
}

const NATIVE: &str = "runtime: native\nproviders: [model]\n";

fn refusal(harness: &'static str, says: &'static str, code: i32) -> Refusal {
    Refusal { harness, files: &[], environment: &[], says, code }
}

impl Refusal {
    fn with(self, files: &'static [(&'static str, &'static str)]) -> Self {
        Self { files, ..self }
    }

    fn set(self, environment: &'static [(&'static str, &'static str)]) -> Self {
        Self { environment, ..self }
    }
}

fn refusals() -> Vec<Refusal> {
    vec![
        refusal("runtime: native\n", "no provider of the harness can serve the model", 4),
        refusal(NATIVE, "its vendor `acme` is unknown; known vendors are anthropic, openai", 3).with(&[
            ("providers/model.yaml", "name: model\ntype: acme\n"),
            ("profiles/acme.yaml", "id: acme\ninference_capable: true\n"),
        ]),
        refusal(NATIVE, "the provider `model` cannot serve the model", 3)
            .with(&[("providers/model.yaml", "name: model\ntype: anthropic\nconfig: {base_url: 'ftp://x'}\n")]),
        refusal(NATIVE, "the scenario `scenarios/none.json` does not exist in any layer", 3).with(&[(
            "providers/model.yaml",
            "name: model\ntype: anthropic\nconfig: {scenario: scenarios/none.json}\n",
        )]),
        refusal(NATIVE, "neither `turns` nor `branches`", 3).with(&[("scenarios/s.json", "{}")]),
        refusal(
            "runtime: native\nproviders: [model]\nmodel: acme-9\nbudget: {usd: 1}\n",
            "the model `acme-9` has no price",
            3,
        ),
        refusal(
            "runtime: native\nproviders: [model]\nsandbox: {backend: openshell}\n",
            "`sandbox.backend: openshell` needs an `image`",
            3,
        ),
        refusal(
            "runtime: native\nproviders: [model]\nsandbox: {backend: openshell}\nimage: /an/archive.tar\n",
            "the OpenShell gateway cannot read the image `/an/archive.tar` of this machine",
            3,
        ),
        refusal(
            "runtime: codex\nproviders: [model]\nsandbox: {backend: openshell}\nimage: quay.io/acme/agent:1\n",
            "the runtime `codex` is not supported with `sandbox.backend: openshell`: it takes our settings only from `/etc`",
            3,
        ),
        refusal("runtime: claude\nproviders: [model]\n", "the program of the runtime `claude` is not installed", 4),
        refusal("runtime: claude\nproviders: [model]\n", "is version 1.0.0; this fullsend takes", 4)
            .with(&[("../../bin/claude", "#!/bin/sh\necho 1.0.0\n")]),
        refusal(
            "runtime: native\nproviders: [model]\nimage: quay.io/acme/Agent:1\n",
            "`quay.io/acme/Agent:1` is not a valid image reference",
            3,
        ),
        refusal("runtime: native\nproviders: [model]\nimage: /none.tar\n", "the image /none.tar cannot be read", 3),
        refusal("runtime: native\nproviders: [model]\nimage: images/a.tar\n", "a.tar cannot be used", 3)
            .with(&[("images/a.tar", "not an archive")]),
        refusal("runtime: native\nproviders: [model]\npost_script: scripts/post.sh\n", "`/opt/none/sh`", 4)
            .with(&[("scripts/post.sh", "#!/opt/none/sh\n")]),
        refusal("runtime: native\nproviders: [model]\npost_script: scripts/post.sh\n", "`python9`", 4)
            .with(&[("scripts/post.sh", "#!/usr/bin/env python9\n")]),
        refusal(
            "runtime: native\nproviders: [model]\nvalidation_loop: {script: scripts/validate.sh}\n",
            "which has no `#!` line",
            4,
        )
        .with(&[("scripts/validate.sh", "exit 0\n")]),
        refusal(
            "runtime: native\nproviders: [model]\napi_servers: [{name: a, script: scripts/a.sh, port: 80}]\n",
            "`/opt/none/sh`",
            4,
        )
        .with(&[("scripts/a.sh", "#!/opt/none/sh\n")]),
        refusal(
            "runtime: native\nproviders: [model]\nhost_files: [{src: files/a.env, dest: /sandbox/workspace/.env.d/a.env}]\n",
            "sets `LD_PRELOAD`, which is reserved, in line 2",
            4,
        )
        .with(&[("files/a.env", "A=1\nLD_PRELOAD=/x\n")]),
        refusal(
            "runtime: native\nproviders: [model]\nhost_files: [{src: files/a.sh, dest: /sandbox/workspace/a.sh, expand: true}]\n",
            "nothing can be quoted safely",
            4,
        )
        .with(&[("files/a.sh", "A=$$(echo ${HOME})\n")]),
        refusal(
            "runtime: native\nproviders: [model]\nsecurity: {sandbox_hooks: {tool_allowlist_pretool: {enabled: true}}}\n",
            "FULLSEND_TOOL_ALLOWLIST names no tool",
            3,
        ),
        refusal(
            "runtime: native\nproviders: [model]\nsecurity: {host_scanners: {llm_guard: {required: true}}}\n",
            "weights file of the learned scanner is not on this host",
            4,
        ),
        refusal("runtime: native\nproviders: [model, api]\n", "it is too short to be masked", 4)
            .with(&[("providers/api.yaml", "name: api\ntype: github\ncredentials: {GH_TOKEN: '${SHORT}'}\n")])
            .set(&[("SHORT", "abc")]),
        refusal("runtime: native\nproviders: [model, api]\n", "/none cannot be read", 4)
            .with(&[("providers/api.yaml", "name: api\ntype: github\ncredentials: {GH_TOKEN: 'file:/none'}\n")]),
    ]
}

/// Fields that have no effect yet.
fn unsupported() -> Vec<Refusal> {
    vec![
        refusal(
            "runtime: native\nproviders: [model]\ntrigger: evnt.repo == ''\n",
            "`trigger` cannot be used: `evnt` is not known",
            3,
        ),
        refusal(
            "runtime: native\nproviders: [model]\nsecurity: {trace: {enabled: true}}\n",
            "`security.trace` is not supported yet",
            3,
        ),
        refusal(
            "runtime: native\nproviders: [model]\nallow_runtime_fetch: true\n",
            "`allow_runtime_fetch` needs at least one prefix in `allowed_remote_resources`",
            3,
        ),
    ]
}

#[test]
fn check_and_run_refuse_with_the_same_words_before_anything_starts() {
    let mut wrong = Vec::new();
    for refusal in refusals().into_iter().chain(unsupported()) {
        let world = World::with_harness();
        world.write(
            "repo/.fullsend/harness/triage.yaml",
            format!(
                "agent: agents/triage.md\noutput_schema: schemas/triage.json\npre_script: scripts/pre.sh\n{}{}",
                refusal.harness,
                if refusal.harness.contains("validation_loop") {
                    ""
                } else {
                    "validation_loop: {preflight_check: 'touch started'}\n"
                },
            ),
        );
        world.script("repo/.fullsend/scripts/pre.sh", "#!/bin/sh\ntouch started\n");
        for (path, text) in refusal.files {
            let path = format!("repo/.fullsend/{path}");
            if path.ends_with(".sh") || path.contains("/bin/") {
                world.script(&path, text);
            } else {
                world.write(&path, text);
            }
        }
        let bin = world.path("bin");
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let world = refusal.environment.iter().fold(world, |world, (name, value)| world.env(name, value));
        let world = world.env("PATH", &path);
        let checked = world.run(&["check", "triage"]);
        let ran = world.run(&["run", "triage"]);
        for (command, outcome) in [("check", &checked), ("run", &ran)] {
            if outcome.code != refusal.code || !outcome.err.contains(refusal.says) {
                wrong.push(format!(
                    "{command}, wanted {} `{}`: {}",
                    refusal.code,
                    refusal.says,
                    outcome.all()
                ));
            }
        }
        let line = |text: &str| text.lines().find(|line| line.contains(refusal.says)).map(str::to_owned);
        assert_eq!(line(&checked.err), line(&ran.err));
        assert!(!world.path("repo/started").exists(), "{}: something was started", refusal.says);
        assert!(!world.path("state/fullsend/runs").exists(), "{}: a run was started", refusal.says);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
