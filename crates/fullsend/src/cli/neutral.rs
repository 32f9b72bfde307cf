//! `fullsend hook`: one check of a tool call for any runtime, without a run around it, in the neutral wire contract:
//! `{tool_name, tool_input, tool_result}` on standard input; exit 0 and nothing to let it pass, exit 1 and
//! `{"decision":"block","reason"}` to stop it, `{"tool_result"}` for a result that must be shown differently.

use std::io::{Read, Write};

use clap::{Args, Subcommand, ValueEnum};
use scan::{Allowlist, Canary, Severity, Toggles};
use serde_json::{Value as Json, json};

use super::exit::{Exit, Failure};
use super::open::variable;
use crate::guard::judge::{Ask, Judge};

/// A hook is given whole files at times.
const MAX_BODY: u64 = 10 << 20;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    when: When,
}

#[derive(Debug, Subcommand)]
enum When {
    /// Before a call: may it run?
    Pre(How),
    /// After a call: what may be seen of its result?
    Post(How),
}

#[derive(Args, Debug)]
struct How {
    /// The words in which the call comes and the answer goes
    #[arg(long, value_enum, default_value = "neutral")]
    contract: Contract,
    /// One check alone, by its name under `security.sandbox_hooks`
    #[arg(long, value_name = "NAME", value_parser = super::scan::switch)]
    only: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contract {
    Neutral,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (When::Pre(how) | When::Post(how)) = &arguments.when;
    let Contract::Neutral = how.contract;
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BODY + 1).read_to_end(&mut body);
    if read.is_err() || body.len() as u64 > MAX_BODY {
        return block(&format!("the call cannot be read, or is larger than {MAX_BODY} bytes"));
    }
    if body.trim_ascii().is_empty() {
        return Ok(Exit::Done);
    }
    let Ok(call) = serde_json::from_slice::<Json>(&body) else { return block("the call is no JSON") };
    let Some(tool) = call["tool_name"].as_str() else { return block("the call has no `tool_name`") };
    let judge = match judge(how) {
        Ok(judge) => judge,
        Err(why) => return block(&why),
    };
    match &arguments.when {
        When::Pre(_) => before(&judge, tool, &call["tool_input"]),
        When::Post(_) => after(&judge, tool, &call),
    }
}

/// Everything that is on by default, or one check; what it compares with comes from the environment.
fn judge(how: &How) -> Result<Judge, String> {
    let list = variable("FULLSEND_TOOL_ALLOWLIST");
    let toggles = match &how.only {
        Some(name) => Toggles::NONE.switched(name, true).unwrap_or_default(),
        None => Toggles { tool_allowlist_pretool: list.is_some(), ..Toggles::default() },
    };
    let mut judge = Judge::built_in(toggles, &variable("PATH").unwrap_or_default());
    if toggles.tool_allowlist_pretool {
        let list = Allowlist::parse(&list.unwrap_or_default()).map_err(|error| error.to_string())?;
        judge = judge.with_allowlist(list);
    }
    if let Some(token) = variable("FULLSEND_CANARY_TOKEN") {
        judge = judge.with_canary(Canary::new(&token).map_err(|error| error.to_string())?);
    }
    if let Some(level) = variable("TIRITH_FAIL_ON") {
        let level =
            Severity::parse(&level).ok_or_else(|| format!("TIRITH_FAIL_ON is `{level}`, no severity"))?;
        judge = judge.failing_on(level);
    }
    Ok(judge)
}

fn before(judge: &Judge, tool: &str, input: &Json) -> Result<Exit, Failure> {
    match judge.call(tool, Some(tool), input, Ask::Programs) {
        Ok((_, None)) => Ok(Exit::Done),
        Ok((_, Some(reason))) => block(&reason),
        Err(broke) => block(&broke.to_string()),
    }
}

fn after(judge: &Judge, tool: &str, call: &Json) -> Result<Exit, Failure> {
    let known = (tool.to_owned(), call["tool_input"].clone());
    let result = &call["tool_result"];
    let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
    match judge.result(Some(&known), &text, None) {
        Ok(passed) => match passed.withheld {
            Some(why) => block(&why),
            None if passed.text == text => Ok(Exit::Done),
            None => {
                writeln!(std::io::stdout().lock(), "{}", json!({ "tool_result": passed.text }))?;
                Ok(Exit::Done)
            }
        },
        Err(broke) => block(&broke.to_string()),
    }
}

fn block(reason: &str) -> Result<Exit, Failure> {
    let answer = json!({ "decision": "block", "reason": format!("fullsend: {reason}") });
    writeln!(std::io::stdout().lock(), "{answer}")?;
    Ok(Exit::Failed)
}
