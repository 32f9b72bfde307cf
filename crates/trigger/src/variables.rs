//! The data of an event for scripts and harnesses: variables with fixed names, and the ref of the pull request that it
//! is about.

use serde_json::Value as Json;

use super::TriggerEvent;

/// The longest value. A variable of the environment has 128 KiB.
const MAX_BYTES: usize = 64 << 10;

/// Names, and where their values are. Those of the second list are of pull requests and merge requests only.
const OF_EVENT: &[(&str, &str)] = &[
    ("REPO_FULL_NAME", "/repo"),
    ("ISSUE_NUMBER", "/entity/id"),
    ("ISSUE_URL", "/entity/url"),
    ("COMMENT_BODY", "/transition/comment/body"),
    ("COMMENT_ID", "/transition/comment/id"),
    ("LABEL_NAME", "/transition/label/name"),
    ("EVENT_ACTOR", "/actor/id"),
];
const OF_CHANGE: &[(&str, &str)] = &[
    ("PR_NUMBER", "/entity/id"),
    ("PR_URL", "/entity/url"),
    ("PR_HEAD_REF", "/state/change_proposal/head_ref"),
    ("PR_HEAD_SHA", "/state/change_proposal/head_sha"),
    ("PR_BASE_REF", "/state/change_proposal/base_ref"),
];

/// The names of all variables that an event can set.
pub fn event_variables() -> impl Iterator<Item = &'static str> {
    OF_EVENT.iter().chain(OF_CHANGE).map(|(name, _)| *name)
}

/// Whether the value is free text that somebody wrote: a comment, a label, a branch, a name.
pub fn is_free_text(name: &str) -> bool {
    ["COMMENT_BODY", "LABEL_NAME", "EVENT_ACTOR", "PR_HEAD_REF", "PR_BASE_REF"].contains(&name)
}

impl TriggerEvent {
    /// The variables that this event sets. No value has a NUL.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let own = OF_EVENT.iter().chain(OF_CHANGE.iter().filter(|_| self.is_change()));
        own.map(|(name, path)| (*name, value(self.json(), path)))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// The ref that holds the head of the pull request or merge request, in the repository that it is for.
    pub fn head_ref(&self) -> Option<String> {
        let number = value(self.json(), "/entity/id");
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if !self.is_change() || !is_number {
            return None;
        }
        let kind = if value(self.json(), "/source/system") == "gitlab" { "merge-requests" } else { "pull" };
        Some(format!("refs/{kind}/{number}/head"))
    }

    fn is_change(&self) -> bool {
        value(self.json(), "/entity/kind") == "change_proposal"
    }
}

fn value(event: &Json, path: &str) -> String {
    let text = event.pointer(path).and_then(Json::as_str).unwrap_or_default();
    let end = (0..=text.len().min(MAX_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].replace('\0', "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_sets_the_variables_that_it_has() {
        let payload = json!({
            "action": "created", "sender": { "login": "ann" }, "repository": { "full_name": "acme/widgets" },
            "issue": { "number": 3, "html_url": "https://example.com/3", "pull_request": {} },
            "comment": { "id": 9, "body": format!("/fix\0 it\nGH_TOKEN=x {}", "é".repeat(MAX_BYTES)) },
        });
        let event = TriggerEvent::of_github("issue_comment", &payload).unwrap();
        let variables = event.variables();
        let of =
            |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str());
        assert_eq!((of("ISSUE_NUMBER"), of("PR_NUMBER")), (Some("3"), Some("3")));
        assert_eq!((of("REPO_FULL_NAME"), of("COMMENT_ID")), (Some("acme/widgets"), Some("9")));
        assert_eq!((of("EVENT_ACTOR"), of("LABEL_NAME"), of("PR_HEAD_REF")), (Some("ann"), None, None));
        let body = of("COMMENT_BODY").unwrap();
        assert!(body.starts_with("/fix it\nGH_TOKEN=x é") && body.len() <= MAX_BYTES, "{}", body.len());
        assert_eq!(event.head_ref().as_deref(), Some("refs/pull/3/head"));
        assert!(variables.iter().all(|(name, _)| event_variables().any(|known| known == *name)));
    }

    #[test]
    fn only_a_number_becomes_a_ref() {
        let of = |system: &str, kind: &str, id: &str| {
            TriggerEvent::normalized(
                json!({ "entity": { "kind": kind, "id": id }, "source": { "system": system } }),
            )
            .head_ref()
        };
        assert_eq!(of("gitlab", "change_proposal", "6").as_deref(), Some("refs/merge-requests/6/head"));
        assert_eq!(of("github", "work_item", "6"), None);
        for id in ["", "6;x", "../6", "-6", "6 "] {
            assert_eq!(of("github", "change_proposal", id), None, "{id}");
        }
    }
}
