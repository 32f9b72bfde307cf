//! `fullsend hook`: checks one tool call for any runtime, by the neutral contract. Inside a run it asks the run's guard;
//! elsewhere it judges by itself. A call that cannot be judged is blocked.

use std::io::{Read, Write};
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use redact::{Canary, Severity};
use scan::{LearnedScanner, Toggles};
use shell::{Allowlist, Isolation};

use super::always_json::AlwaysJson;
use super::configuration::{installed_weights, variable};
use super::exit::{Exit, Failure};
use crate::guard::dialect::HookAnswer;
use crate::guard::hook_client;
use crate::guard::judge::Judge;
use crate::guard::neutral_contract::{HookPhase, MAX_CALL, NeutralReply, NeutralRequest};

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    phase: HookCommand,
}

#[derive(Debug, Subcommand)]
enum HookCommand {
    /// Judge a tool call before it runs
    #[command(after_help = "Example: fullsend hook pre < call.json")]
    Pre(HookOptions),
    /// Judge the result of a tool call
    #[command(after_help = "Example: fullsend hook post < result.json")]
    Post(HookOptions),
}

#[derive(Args, Debug)]
struct HookOptions {
    /// Use this format for input and output
    #[arg(long, value_enum, default_value = "neutral")]
    contract: Contract,
    /// Run only this check, by its name under `security.sandbox_hooks`
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Assume a disposable sandbox: allow commands that only damage the sandbox
    #[arg(long)]
    sandboxed: bool,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contract {
    Neutral,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (phase, how) = match &arguments.phase {
        HookCommand::Pre(how) => (HookPhase::Pre, how),
        HookCommand::Post(how) => (HookPhase::Post, how),
    };
    let Contract::Neutral = how.contract;
    let answer = judged(phase, how).unwrap_or_else(|why| NeutralReply::Block(why).answer());
    if !answer.text.is_empty() {
        writeln!(std::io::stdout().lock(), "{}", answer.text)?;
    }
    Ok(if answer.passes() { Exit::Done } else { Exit::Failed })
}

/// `Err`: why there is no verdict.
fn judged(phase: HookPhase, how: &HookOptions) -> Result<HookAnswer, String> {
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(MAX_CALL + 1).read_to_end(&mut body);
    read.map_err(|error| format!("the call cannot be read: {error}"))?;
    if body.len() as u64 > MAX_CALL {
        return Err(format!("the call is larger than {MAX_CALL} bytes"));
    }
    let Some(request) = NeutralRequest::read(phase, how.only.as_deref(), &body)? else {
        return Ok(HookAnswer::silent());
    };
    match (variable(hook_client::SOCKET_VARIABLE), variable(hook_client::TOKEN_VARIABLE)) {
        (Some(socket), Some(token)) => {
            let body = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
            hook_client::ask_neutral(Path::new(&socket), &token, &body)
                .map_err(|error| format!("the guard did not answer: {error}"))
        }
        (None, None) => Ok(request.ask(&judge(how)?).answer()),
        _ => Err(format!(
            "{} and {} belong together, and one of them is not set",
            hook_client::SOCKET_VARIABLE,
            hook_client::TOKEN_VARIABLE
        )),
    }
}

/// All checks that are on by default, or one check. The tool allowlist and the canary token come from the environment.
fn judge(how: &HookOptions) -> Result<Judge, String> {
    let list = variable("FULLSEND_TOOL_ALLOWLIST");
    let toggles = match &how.only {
        Some(name) => Toggles::NONE.switched(name, true).unwrap_or_default(),
        None => Toggles { tool_allowlist_pretool: list.is_some(), ..Toggles::default() },
    };
    let isolation = if how.sandboxed { Isolation::Sandbox } else { Isolation::None };
    let mut judge = Judge::built_in(toggles, &variable("PATH").unwrap_or_default()).with_isolation(isolation);
    let installed = installed_weights().found;
    if let Some(weights) = installed.filter(|_| how.only.is_none()) {
        judge = judge.with_model(&weights, LearnedScanner::default().threshold);
    }
    if toggles.tool_allowlist_pretool {
        let list = Allowlist::parse(&list.unwrap_or_default())
            .map_err(|error| format!("FULLSEND_TOOL_ALLOWLIST: {error}"))?;
        judge = judge.with_allowlist(list);
    }
    if let Some(token) = variable("FULLSEND_CANARY_TOKEN") {
        let canary = Canary::new(&token).map_err(|error| format!("FULLSEND_CANARY_TOKEN: {error}"))?;
        judge = judge.with_canary(canary);
    }
    if let Some(level) = variable("TIRITH_FAIL_ON") {
        let level = Severity::parse(&level)
            .ok_or_else(|| format!("TIRITH_FAIL_ON is `{level}`: it is low, medium, high or critical"))?;
        judge = judge.with_fail_on(level);
    }
    Ok(judge)
}
