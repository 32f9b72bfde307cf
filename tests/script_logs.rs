//! Scripts of the host get tokens and print them. Neither their logs, nor the record, nor the console shows one.

use std::fs;
use std::path::Path;

use crate::attack_rows::{AttackRow, held};
use crate::support::{Who, World};

/// The harness gives the first to its scripts; the second is a provider's; the scripts make up the third.
const DEPLOY: &str = "deploy-value-of-the-run-5521";
const FORGE: &str = "forge-value-of-the-run-8890";
const MADE_UP: &str = "a8Fk2LmQ9xZt4RvW7bNc1YpS3dGh6JuE0oTi";

/// Plain, in base64, in hexadecimal, in a URL; over several lines, with spaces, as numbers, with escapes, in part, twice encoded.
const SAYS: &str = "#!/bin/sh
echo \"deploy $DEPLOY_TOKEN forge $FORGE\"
printf %s \"$DEPLOY_TOKEN\" | base64
printf 'user:%s' \"$FORGE\" | base64
printf %s \"$DEPLOY_TOKEN\" | od -An -tx1 | tr -d ' \\n'; echo
echo \"https://x:$DEPLOY_TOKEN@forge.test/\" >&2
echo \"made ghp_$MADE\"
printf %s \"$DEPLOY_TOKEN\" | fold -w 5; echo
printf %s \"$FORGE\" | sed 's/./&\\n/g'
printf %s \"$DEPLOY_TOKEN\" | base64 | fold -w 7; echo
printf %s \"$FORGE\" | od -An -v -tx1
printf %s \"$FORGE\" | od -An -v -tu1 -w4
printf '%s' \"$FORGE\" | sed 's/-/\\\\x2d/g'; echo
printf '%s' \"$DEPLOY_TOKEN\" | sed 's/e/%65/g'; echo
printf '%s' \"$DEPLOY_TOKEN\" | cut -c2-; echo
printf '%s' \"$FORGE\" | base64 | base64
printf '%s' \"$FORGE\" | tr a-z A-Z; echo
";

fn is_clean(place: &Path) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            is_clean(&path);
        } else if about.is_file() {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            check(&path.display().to_string(), &text);
        }
    }
}

fn check(name: &str, text: &str) {
    let hex: String = DEPLOY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let forms =
        [DEPLOY, FORGE, "ZGVwbG95LXZhbHVlLW9mLXRoZS1ydW4tNTUyMQ", "dXNlcjpmb3JnZS12YWx1ZS1v", &hex, MADE_UP];
    for form in forms {
        assert!(!text.contains(form), "{name} shows {form}:\n{text}");
    }
    // Without what broke it, escaped it or made it a list.
    let plain = text.replace("\\x2d", "-").replace("%65", "e").replace("\\n", "\n").to_lowercase();
    let joined: String = plain.chars().filter(|c| !c.is_whitespace() && !"\",".contains(*c)).collect();
    let numbers: String = FORGE.bytes().map(|byte| byte.to_string()).collect();
    let hex: String = FORGE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let twice = "wm05evoyvxrkbuzzzfdvdg";
    let encoded = "zgvwbg95lxzhbhvllw9mlxroz";
    let parts = [&DEPLOY[2..20], &FORGE[2..20], encoded, &numbers[..30], &hex[..30], twice];
    for part in parts {
        assert!(!joined.contains(part), "{name} shows {part}:\n{text}");
    }
}

fn masked(who: Who) {
    let world = World::scripted(
        "pre_script: scripts/say.sh\npost_script: scripts/fail.sh\nvalidation_loop: {script: scripts/say.sh}\nenv: {runner: {DEPLOY_TOKEN: '${DEPLOY_TOKEN}', FORGE: '${FORGE}', MADE: '${MADE}'}}\n",
        r#"{"turns":[[{"finish":{"summary":"done"}}]]}"#,
    );
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    world.write("repo/.fullsend/harness/triage.yaml", harness.replace("[model]", "[model, github]"));
    world.write(
        "repo/.fullsend/providers/github.yaml",
        "name: github\ntype: github\ncredentials: {GH_TOKEN: '${FORGE}'}\n",
    );
    world.script("repo/.fullsend/scripts/say.sh", SAYS);
    world.script(
        "repo/.fullsend/scripts/fail.sh",
        &format!("{SAYS}echo \"bad $DEPLOY_TOKEN ghp_$MADE\" >&2\nexit 3\n"),
    );
    let world = world.env("DEPLOY_TOKEN", DEPLOY).env("FORGE", FORGE).env("MADE", MADE_UP);
    let Some(ran) = world.run_as(who, &["run", "triage"]) else { return };
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("`post_script` exited with 3: bad [REDACTED:DEPLOY_TOKEN]"), "{}", ran.err);
    check("the console", &format!("{}{}", ran.out, ran.err));
    is_clean(&world.path("state"));
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    for log in ["pre_script.log", "post_script.log", "iteration-1/validation.log"] {
        let text = fs::read_to_string(run.join(log)).unwrap();
        assert!(text.contains("deploy [REDACTED:DEPLOY_TOKEN]"), "{log}: {text}");
    }
    held(AttackRow::TokensInLogs, who);
}

#[test]
fn no_log_and_no_message_shows_a_token_of_a_script() {
    masked(Who::Caller);
}

#[test]
fn no_log_shows_a_token_without_privileges_either() {
    masked(Who::User);
}
