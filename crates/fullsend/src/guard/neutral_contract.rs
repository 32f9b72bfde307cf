//! The neutral hook contract, version 1, for programs without a hook dialect of their own. In: `{tool_name, tool_input,
//! tool_result}`. Out: nothing to let it pass, `{"decision":"block","reason"}` to stop it, `{"tool_result"}` to replace a
//! result. Both carry `metadata`: the number of findings by category.

use std::collections::BTreeMap;

use scan::Origin;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Guard;
use super::dialect::HookAnswer;
use super::judge::{Findings, Judge, Scanners};
use super::report::TextAction;
use super::scanner_error::ScannerError;
use super::tool_input;
use super::withholding::WithheldParts;

/// The largest call.
pub const MAX_CALL: u64 = 10 << 20;

/// The checks that can be asked for alone.
const BEFORE: [&str; 4] = ["tirith", "ssrf_pretool", "canary_pretool", "tool_allowlist_pretool"];
const AFTER: [&str; 4] =
    ["context_suppress_posttool", "unicode_posttool", "secret_redact_posttool", "canary_posttool"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPhase {
    Pre,
    Post,
}

/// One call, and which checks to run.
#[derive(Debug, Serialize, Deserialize)]
pub struct NeutralRequest {
    pub phase: HookPhase,
    /// One check alone, by its name under `security.sandbox_hooks`.
    pub only: Option<String>,
    pub call: Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeutralReply {
    Pass,
    Replace(String),
    Block(String),
}

impl NeutralReply {
    /// The exit code and standard output, without findings.
    pub fn answer(&self) -> HookAnswer {
        self.answer_with(&BTreeMap::new())
    }

    /// The same with the number of findings by category.
    fn answer_with(&self, findings: &BTreeMap<&str, usize>) -> HookAnswer {
        let metadata = json!({ "findings": findings });
        match self {
            Self::Pass => HookAnswer::silent(),
            Self::Replace(text) => HookAnswer::json(&json!({ "tool_result": text, "metadata": metadata })),
            Self::Block(reason) => {
                let reason = format!("fullsend: {reason}");
                let reply = json!({ "decision": "block", "reason": reason, "metadata": metadata });
                HookAnswer { code: HookAnswer::BLOCKED, text: reply.to_string() }
            }
        }
    }
}

impl NeutralRequest {
    /// `None`: the call is empty. `Err`: it cannot be judged, and is blocked.
    pub fn read(phase: HookPhase, only: Option<&str>, body: &[u8]) -> Result<Option<Self>, String> {
        if let Some(name) = only {
            check_name(phase, name)?;
        }
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let call: Json =
            serde_json::from_slice(body).map_err(|error| format!("the call is not JSON: {error}"))?;
        let request = Self { phase, only: only.map(str::to_owned), call };
        request.tool().map(|_| ()).ok_or("the call has no `tool_name`")?;
        Ok(Some(request))
    }

    fn tool(&self) -> Option<&str> {
        self.call["tool_name"].as_str()
    }

    /// Judges the call.
    pub fn ask(&self, judge: &Judge) -> NeutralVerdict {
        let tool = self.tool().unwrap_or_default();
        match self.phase {
            HookPhase::Pre => before(judge, tool, &self.call["tool_input"]),
            HookPhase::Post => after(judge, tool, &self.call),
        }
    }
}

/// A check at the wrong time would find nothing and look like a pass.
fn check_name(phase: HookPhase, name: &str) -> Result<(), String> {
    let (here, there, other) = match phase {
        HookPhase::Pre => (BEFORE, AFTER, "post"),
        HookPhase::Post => (AFTER, BEFORE, "pre"),
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

pub struct NeutralVerdict {
    reply: NeutralReply,
    found: Result<(Findings, TextAction), ScannerError>,
    place: String,
}

impl NeutralVerdict {
    /// The reply, with what was denied, masked or removed: the number of findings by category.
    pub fn answer(&self) -> HookAnswer {
        let mut counts = BTreeMap::new();
        for finding in self.found.iter().flat_map(|(findings, _)| &findings.open) {
            *counts.entry(finding.category.as_str()).or_insert(0) += 1;
        }
        self.reply.answer_with(&counts)
    }
}

fn before(judge: &Judge, tool: &str, input: &Json) -> NeutralVerdict {
    let place = format!("call/{tool}");
    let (reply, found) = match judge.judge_call(tool, Some(tool), input, Scanners::All) {
        Ok((findings, None)) if judge.fails_closed() && tool_input::is_unreadable(tool, input) => {
            (NeutralReply::Block(tool_input::UNREADABLE.to_owned()), Ok((findings, TextAction::Denied)))
        }
        Ok((findings, None)) => (NeutralReply::Pass, Ok((findings, TextAction::Reported))),
        Ok((findings, Some(reason))) => (NeutralReply::Block(reason), Ok((findings, TextAction::Denied))),
        Err(error) => (broken(judge, &error), Err(error)),
    };
    NeutralVerdict { reply, found, place }
}

fn after(judge: &Judge, tool: &str, call: &Json) -> NeutralVerdict {
    let place = format!("result/{tool}");
    let known = (tool.to_owned(), call["tool_input"].clone());
    let result = &call["tool_result"];
    let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
    let (reply, found) = match judge.result(Some(&known), &text, None) {
        Ok(passed) => match passed.withheld {
            Some(WithheldParts::Whole(why)) => {
                (NeutralReply::Block(why), Ok((passed.findings, TextAction::Withheld)))
            }
            Some(WithheldParts::Passages(_)) => {
                (NeutralReply::Replace(passed.text.into_owned()), Ok((passed.findings, TextAction::Withheld)))
            }
            None if passed.text == text => (NeutralReply::Pass, Ok((passed.findings, TextAction::Cleaned))),
            None => {
                (NeutralReply::Replace(passed.text.into_owned()), Ok((passed.findings, TextAction::Cleaned)))
            }
        },
        Err(error) => (broken(judge, &error), Err(error)),
    };
    NeutralVerdict { reply, found, place }
}

fn broken(judge: &Judge, error: &ScannerError) -> NeutralReply {
    if judge.fails_closed() { NeutralReply::Block(error.to_string()) } else { NeutralReply::Pass }
}

impl Guard {
    /// Answers a program inside with the run's own toggles, known values and tool allowlist. It decides no call of the
    /// runtime: only the runtime's hook does.
    pub(super) fn answer_neutral(&self, body: &[u8]) -> HookAnswer {
        let Ok(request) = serde_json::from_slice::<NeutralRequest>(body) else {
            return NeutralReply::Block("the guard cannot read this request".to_owned()).answer();
        };
        let verdict = match &request.only {
            Some(name) => request.ask(&self.judge.only(name)),
            None => request.ask(&self.judge),
        };
        match &verdict.found {
            Ok((findings, action)) => self.report(&verdict.place, Origin::Tool, findings, *action),
            Err(error) => {
                self.report_scanner_error(&verdict.place, error);
            }
        }
        verdict.answer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scan::Toggles;

    #[test]
    fn a_check_is_asked_for_by_its_own_name_at_its_own_time() {
        for (phase, name, wrong) in [
            (HookPhase::Pre, "tirith", None),
            (HookPhase::Post, "canary_posttool", None),
            (HookPhase::Post, "tirith", Some("a check of `fullsend hook pre`")),
            (HookPhase::Pre, "unicode_posttool", Some("a check of `fullsend hook post`")),
            (HookPhase::Pre, "secret_redactor", Some("no check `secret_redactor`")),
            (HookPhase::Pre, "everything", Some("one of tirith, ssrf_pretool")),
        ] {
            let refusal = NeutralRequest::read(phase, Some(name), b"").err();
            assert_eq!(refusal.is_some(), wrong.is_some(), "{name} {refusal:?}");
            assert!(refusal.unwrap_or_default().contains(wrong.unwrap_or_default()), "{name}");
        }
        let all: Vec<&str> = BEFORE.into_iter().chain(AFTER).collect();
        assert!(all.iter().all(|name| Toggles::NAMES.contains(name)));
    }

    #[test]
    fn an_answer_counts_what_was_masked() {
        let call = json!({ "tool_name": "Bash", "tool_input": { "command": "env" },
            "tool_result": "A_PASSWORD=hunter2-rainbow\nB_PASSWORD=orange4-bicycle\n" });
        let request = NeutralRequest { phase: HookPhase::Post, only: None, call };
        let answer = request.ask(&Judge::built_in(Toggles::default(), "")).answer();
        let reply: Json = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(answer.code, 0);
        assert!(!answer.text.contains("hunter2") && !answer.text.contains("orange4"), "{reply}");
        assert_eq!(reply["metadata"]["findings"]["secret_redactor"], 2, "{reply}");
    }

    #[test]
    fn a_call_of_a_shape_that_cannot_be_judged_is_blocked() {
        let check = |tool: &str, input: Json, blocked: bool| {
            let call = json!({ "tool_name": tool, "tool_input": input });
            let request = NeutralRequest { phase: HookPhase::Pre, only: None, call };
            let reply = request.ask(&Judge::built_in(Toggles::default(), "")).reply;
            assert_eq!(matches!(reply, NeutralReply::Block(_)), blocked, "{request:?} {reply:?}");
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
