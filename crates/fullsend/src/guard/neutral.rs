//! The neutral wire contract, version 1: `{tool_name, tool_input, tool_result}` in; nothing to let it pass,
//! `{"decision":"block","reason"}` to stop it, `{"tool_result"}` for a result that must be shown differently. Spoken by
//! runtimes that have no words of their own here, to a guard on the host or to a judge without a run around it.

use scan::Origin;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Guard;
use super::dialect::HookAnswer;
use super::judge::{Ask, Broke, Judge, Opinion};
use super::report::Action;
use super::tool_input;

/// The most that a call may be.
pub const MAX_CALL: u64 = 10 << 20;

/// The checks that can be asked for alone.
const BEFORE: [&str; 4] = ["tirith", "ssrf_pretool", "canary_pretool", "tool_allowlist_pretool"];
const AFTER: [&str; 4] =
    ["context_suppress_posttool", "unicode_posttool", "secret_redact_posttool", "canary_posttool"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    Pre,
    Post,
}

/// One call, and what is to be looked at.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    pub when: When,
    /// One check alone, by its name under `security.sandbox_hooks`.
    pub only: Option<String>,
    pub call: Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Pass,
    Replace(String),
    Block(String),
}

impl Reply {
    /// The exit code, and what stands on standard output.
    pub fn answer(&self) -> HookAnswer {
        match self {
            Self::Pass => HookAnswer::silent(),
            Self::Replace(text) => HookAnswer { code: 0, text: json!({ "tool_result": text }).to_string() },
            Self::Block(reason) => {
                let said = json!({ "decision": "block", "reason": format!("fullsend: {reason}") });
                HookAnswer { code: 1, text: said.to_string() }
            }
        }
    }
}

impl Question {
    /// `None`: an empty call asks for nothing. `Err`: it cannot be judged, which blocks it.
    pub fn read(when: When, only: Option<&str>, body: &[u8]) -> Result<Option<Self>, String> {
        if let Some(name) = only {
            check_name(when, name)?;
        }
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let call: Json =
            serde_json::from_slice(body).map_err(|error| format!("the call is no JSON: {error}"))?;
        let question = Self { when, only: only.map(str::to_owned), call };
        question.tool().map(|_| ()).ok_or("the call has no `tool_name`")?;
        Ok(Some(question))
    }

    fn tool(&self) -> Option<&str> {
        self.call["tool_name"].as_str()
    }

    /// What a judge says, and what it found.
    pub fn ask(&self, judge: &Judge) -> Judged {
        let tool = self.tool().unwrap_or_default();
        match self.when {
            When::Pre => before(judge, tool, &self.call["tool_input"]),
            When::Post => after(judge, tool, &self.call),
        }
    }
}

/// A check that would look at nothing must not look like one that found nothing.
fn check_name(when: When, name: &str) -> Result<(), String> {
    let (here, there, other) = match when {
        When::Pre => (BEFORE, AFTER, "post"),
        When::Post => (AFTER, BEFORE, "pre"),
    };
    if here.contains(&name) {
        return Ok(());
    }
    Err(if there.contains(&name) {
        format!("`{name}` is a check of `fullsend hook {other}`")
    } else {
        format!("there is no check `{name}`; it is one of {}", here.join(", "))
    })
}

pub struct Judged {
    pub reply: Reply,
    found: Result<(Opinion, Action), Broke>,
    place: String,
}

fn before(judge: &Judge, tool: &str, input: &Json) -> Judged {
    let place = format!("call/{tool}");
    let (reply, found) = match judge.call(tool, Some(tool), input, Ask::Programs) {
        Ok((opinion, None)) if judge.fails_closed() && tool_input::is_unreadable(tool, input) => {
            (Reply::Block(tool_input::UNREADABLE.to_owned()), Ok((opinion, Action::Denied)))
        }
        Ok((opinion, None)) => (Reply::Pass, Ok((opinion, Action::Reported))),
        Ok((opinion, Some(reason))) => (Reply::Block(reason), Ok((opinion, Action::Denied))),
        Err(broke) => (broken(judge, &broke), Err(broke)),
    };
    Judged { reply, found, place }
}

fn after(judge: &Judge, tool: &str, call: &Json) -> Judged {
    let place = format!("result/{tool}");
    let known = (tool.to_owned(), call["tool_input"].clone());
    let result = &call["tool_result"];
    let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
    let (reply, found) = match judge.result(Some(&known), &text, None) {
        Ok(passed) => match passed.withheld {
            Some(why) => (Reply::Block(why), Ok((passed.opinion, Action::Withheld))),
            None if passed.text == text => (Reply::Pass, Ok((passed.opinion, Action::Cleaned))),
            None => (Reply::Replace(passed.text.into_owned()), Ok((passed.opinion, Action::Cleaned))),
        },
        Err(broke) => (broken(judge, &broke), Err(broke)),
    };
    Judged { reply, found, place }
}

fn broken(judge: &Judge, broke: &Broke) -> Reply {
    if judge.fails_closed() { Reply::Block(broke.to_string()) } else { Reply::Pass }
}

impl Guard {
    /// A question from inside by the run's own switches, values and list. It settles no call of the run's runtime: for
    /// those only the runtime's hook can ask.
    pub(super) fn answer_neutral(&self, body: &[u8]) -> HookAnswer {
        let Ok(question) = serde_json::from_slice::<Question>(body) else {
            return Reply::Block("the guard was asked something unknown".to_owned()).answer();
        };
        let Judged { reply, found, place } = match &question.only {
            Some(name) => question.ask(&self.judge.only(name)),
            None => question.ask(&self.judge),
        };
        match found {
            Ok((opinion, action)) => self.tell(&place, Origin::Tool, &opinion, action),
            Err(broke) => {
                self.tell_broken(&place, &broke);
            }
        }
        reply.answer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scan::Toggles;

    #[test]
    fn a_check_is_asked_for_by_its_own_name_at_its_own_time() {
        for (when, name, wrong) in [
            (When::Pre, "tirith", None),
            (When::Post, "canary_posttool", None),
            (When::Post, "tirith", Some("a check of `fullsend hook pre`")),
            (When::Pre, "unicode_posttool", Some("a check of `fullsend hook post`")),
            (When::Pre, "secret_redactor", Some("no check `secret_redactor`")),
            (When::Pre, "everything", Some("one of tirith, ssrf_pretool")),
        ] {
            let said = Question::read(when, Some(name), b"").err();
            assert_eq!(said.is_some(), wrong.is_some(), "{name} {said:?}");
            assert!(said.unwrap_or_default().contains(wrong.unwrap_or_default()), "{name}");
        }
        let all: Vec<&str> = BEFORE.into_iter().chain(AFTER).collect();
        assert!(all.iter().all(|name| Toggles::NAMES.contains(name)));
    }

    #[test]
    fn a_call_of_a_shape_that_cannot_be_judged_is_blocked() {
        let check = |tool: &str, input: Json, blocked: bool| {
            let call = json!({ "tool_name": tool, "tool_input": input });
            let question = Question { when: When::Pre, only: None, call };
            let reply = question.ask(&Judge::built_in(Toggles::default(), "")).reply;
            assert_eq!(matches!(reply, Reply::Block(_)), blocked, "{question:?} {reply:?}");
        };
        check("Bash", json!("rm -rf /"), true);
        check("Bash", json!("ls"), false);
        check("Bash", json!(["rm", "-rf", "/"]), true);
        check("Bash", json!({ "command": { "x": "ls" } }), true);
        check("bash", json!({ "script": "ls" }), true);
        check("mcp__box__shell", json!({ "command": ["ls", { "x": "y" }] }), true);
        check("Bash", json!({ "command": "ls", "cmd": "rm -rf /" }), true);
        check("Bash", json!({ "restart": true }), false);
        check("Read", json!({ "script": "ls" }), false);
        check("mcp__fetch", json!({ "uri": "http://169.254.169.254/" }), true);
        check("mcp__fetch", json!({ "pages": [{ "at": "http://169.254.169.254/" }] }), true);
        check("mcp__web__fetch_pages", json!({ "urls": ["http://169.254.169.254/"] }), true);
        check("WebFetch", json!("http://169.254.169.254/"), true);
        check(
            "WebFetch",
            json!({ "url": "https://example.com/", "prompt": "see http://10.0.0.1/ there" }),
            false,
        );
    }
}
