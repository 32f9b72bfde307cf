//! Which webhooks of GitHub can start a harness: a pipeline asks for those only, and the expression decides about each event.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Trigger;
use super::possible::may_be_true;

/// Actions that become `updated`, and mean the same for issues and pull requests.
const UPDATES: &[&str] = &["assigned", "unassigned", "milestoned", "demilestoned", "locked", "unlocked"];

/// The events of GitHub with their types, for those that one of these expressions can accept.
pub fn github_subscriptions(triggers: &[&Trigger]) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (event, action, known) in kinds() {
        let types = found.get(event);
        let is_listed = types.is_some_and(|types| types.contains(&action));
        if !is_listed && triggers.iter().any(|trigger| trigger.may_match(&known)) {
            found.entry(event).or_default().push(action);
        }
    }
    found
}

impl Trigger {
    /// Whether some event with these fields can start the harness.
    fn may_match(&self, known: &Json) -> bool {
        let answer = super::on_large_stack(|| Ok(may_be_true(super::parse(&self.0)?.expression(), known)));
        answer.unwrap_or(false)
    }
}

/// Every kind of event: its name, its type, and the fields that are known in advance.
fn kinds() -> Vec<(&'static str, &'static str, Json)> {
    let mut all = Vec::new();
    for (event, entity) in [("issues", "work_item"), ("pull_request", "change_proposal")] {
        let mut add =
            |action, transition: Json| all.push((event, action, form(event, action, entity, transition)));
        for action in ["opened", "reopened", "edited", "closed"] {
            add(action, json!({ "kind": action }));
        }
        add("labeled", json!({ "kind": "label_changed", "label": { "action": "added" } }));
        add("unlabeled", json!({ "kind": "label_changed", "label": { "action": "removed" } }));
        UPDATES.iter().for_each(|action| add(action, json!({ "kind": "updated" })));
        if event == "pull_request" {
            add("closed", json!({ "kind": "merged" }));
            add("synchronize", json!({ "kind": "synchronized" }));
            add("ready_for_review", json!({ "kind": "marked_ready" }));
            add("converted_to_draft", json!({ "kind": "updated" }));
            add("review_requested", json!({ "kind": "updated" }));
        }
    }
    for entity in ["work_item", "change_proposal"] {
        for (action, kind) in
            [("created", "comment_added"), ("edited", "comment_edited"), ("deleted", "comment_deleted")]
        {
            let transition = json!({ "kind": kind, "comment": {} });
            all.push(("issue_comment", action, form("issue_comment", action, entity, transition)));
        }
    }
    let review = json!({ "kind": "review_submitted", "review": {} });
    all.push((
        "pull_request_review",
        "submitted",
        form("pull_request_review", "submitted", "change_proposal", review),
    ));
    all
}

/// `null` is a field that such an event does not have.
fn form(event: &str, action: &str, entity: &str, mut transition: Json) -> Json {
    for part in ["label", "comment", "review"] {
        if transition.get(part).is_none() {
            transition[part] = Json::Null;
        }
    }
    let change = if event.starts_with("pull_request") { json!({}) } else { Json::Null };
    json!({
        "entity": { "kind": entity },
        "transition": transition,
        "state": { "change_proposal": change },
        "source": { "system": "github", "raw_type": event, "raw_action": action },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TriggerEvent;

    fn subscribed(text: &str) -> String {
        let found = github_subscriptions(&[&Trigger::compile(text).unwrap()]);
        let shown = found.iter().map(|(event, types)| format!("{event}: {}", types.join(" ")));
        shown.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_pipeline_asks_for_the_events_that_an_expression_can_accept() {
        for (text, expected) in [
            ("event.transition.kind == 'opened'", "issues: opened; pull_request: opened"),
            ("event.transition.kind == 'opened' && event.entity.kind == 'work_item'", "issues: opened"),
            (
                "event.transition.kind in ['opened', 'synchronized'] && event.entity.kind != 'work_item'",
                "pull_request: opened synchronize",
            ),
            (
                "event.transition.kind == 'label_changed' && event.transition.label.action == 'added' && event.transition.label.name == 'go'",
                "issues: labeled; pull_request: labeled",
            ),
            ("event.transition.comment.command == '/fix'", "issue_comment: created edited deleted"),
            (
                "has(event.transition.comment) && event.transition.kind != 'comment_deleted'",
                "issue_comment: created edited",
            ),
            ("event.transition.kind == 'merged'", "pull_request: closed"),
            ("event.transition.review.state == 'approved'", "pull_request_review: submitted"),
            (
                "event.state.change_proposal.is_fork ? false : event.transition.kind == 'synchronized'",
                "pull_request: opened reopened edited closed labeled unlabeled assigned unassigned milestoned demilestoned locked unlocked synchronize ready_for_review converted_to_draft review_requested; pull_request_review: submitted",
            ),
            (
                "event.transition.kind == 'comment_added' && event.transition.comment.body.startsWith('/go') || event.transition.kind == 'marked_ready'",
                "issue_comment: created; pull_request: ready_for_review",
            ),
            ("event.source.system == 'gitlab'", ""),
            ("false", ""),
        ] {
            assert_eq!(subscribed(text), expected, "{text}");
        }
    }

    /// The fields that are known in advance match those of a real event.
    #[test]
    fn the_form_of_every_kind_is_that_of_its_events() {
        for (event, action, known) in kinds() {
            let is_change = known["entity"]["kind"] == "change_proposal";
            let mut payload = json!({
                "action": action, "label": { "name": "go" }, "sender": { "login": "ann" },
                "repository": { "full_name": "acme/widgets" },
                "comment": { "body": "words" }, "review": { "state": "approved" },
            });
            let subject = json!({ "number": 1, "merged": known["transition"]["kind"] == "merged" });
            if event.starts_with("pull_request") {
                payload["pull_request"] = subject;
            } else {
                payload["issue"] = subject;
                if is_change {
                    payload["issue"]["pull_request"] = json!({});
                }
            }
            let real = TriggerEvent::of_github(event, &payload).unwrap();
            agrees(&known, real.json(), &format!("{event} {action}"));
        }
    }

    fn agrees(known: &Json, real: &Json, at: &str) {
        for (name, value) in known.as_object().unwrap() {
            match value {
                Json::Null => assert_eq!(real.get(name), None, "{at}: {name}"),
                Json::Object(_) => agrees(value, &real[name], at),
                value => assert_eq!(&real[name], value, "{at}: {name}"),
            }
        }
    }
}
