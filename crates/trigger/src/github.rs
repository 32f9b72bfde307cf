//! Webhooks of GitHub as events: issues, pull requests, comments and reviews.

use serde_json::{Value as Json, json};

use super::{command, id, labels, text};

pub(super) fn normalize(kind: &str, payload: &Json) -> Option<Json> {
    let is_change = kind.starts_with("pull_request") || payload.pointer("/issue/pull_request").is_some();
    let subject = payload.get("pull_request").or_else(|| payload.get("issue"))?;
    let transition = transition(kind, payload)?;
    let actor = text(payload, "/sender/login");
    let author = text(subject, "/user/login");
    let mut state = json!({ "labels": labels(subject.get("labels"), "name") });
    if let Some(change) = payload.get("pull_request") {
        let head_repo = text(change, "/head/repo/full_name");
        let base_repo = text(change, "/base/repo/full_name");
        state["change_proposal"] = json!({
            "id": id(change, "/number"), "head_repo": head_repo, "base_repo": base_repo,
            "head_ref": text(change, "/head/ref"), "base_ref": text(change, "/base/ref"),
            "head_sha": text(change, "/head/sha"), "author_id": author, "is_fork": head_repo != base_repo,
        });
    }
    Some(json!({
        "repo": text(payload, "/repository/full_name"),
        "entity": {
            "kind": if is_change { "change_proposal" } else { "work_item" },
            "id": id(subject, "/number"), "key": id(subject, "/number"), "url": text(subject, "/html_url"),
        },
        "transition": transition,
        "actor": {
            "id": actor,
            "kind": if text(payload, "/sender/type") == "Bot" { "bot" } else { "human" },
            "role": role(kind, payload, subject),
            "is_entity_author": !actor.is_empty() && actor == author,
        },
        "state": state,
        "source": { "system": "github", "raw_type": kind, "raw_action": text(payload, "/action") },
    }))
}

fn transition(kind: &str, payload: &Json) -> Option<Json> {
    let action = text(payload, "/action");
    let label = |action: &str| json!({ "kind": "label_changed", "label": { "name": text(payload, "/label/name"), "action": action } });
    let plain = |kind: &str| json!({ "kind": kind });
    Some(match (kind, action) {
        ("issues" | "pull_request", "labeled") => label("added"),
        ("issues" | "pull_request", "unlabeled") => label("removed"),
        ("pull_request", "synchronize") => plain("synchronized"),
        ("pull_request", "ready_for_review") => plain("marked_ready"),
        ("pull_request", "closed") if payload.pointer("/pull_request/merged") == Some(&Json::Bool(true)) => {
            plain("merged")
        }
        ("issues" | "pull_request", "opened" | "reopened" | "edited" | "closed") => plain(action),
        ("issues" | "pull_request", _) => plain("updated"),
        ("issue_comment", "created") => comment("comment_added", payload),
        ("issue_comment", "edited") => comment("comment_edited", payload),
        ("issue_comment", "deleted") => comment("comment_deleted", payload),
        ("pull_request_review", "submitted") => json!({
            "kind": "review_submitted",
            "review": {
                "state": text(payload, "/review/state").to_lowercase(),
                "reviewer_id": text(payload, "/review/user/login"),
            },
        }),
        _ => return None,
    })
}

fn comment(kind: &str, payload: &Json) -> Json {
    let body = text(payload, "/comment/body");
    let mut comment = json!({ "id": id(payload, "/comment/id"), "body": body });
    if let Some((word, instruction)) = command(body) {
        comment["command"] = word.into();
        comment["instruction"] = instruction.into();
    }
    json!({ "kind": kind, "comment": comment })
}

/// GitHub's association of the sender. It describes the author of the comment, review, issue or pull request, so it
/// counts only if the author is the sender.
fn role(kind: &str, payload: &Json, subject: &Json) -> &'static str {
    let written = match kind {
        "issue_comment" => &payload["comment"],
        "pull_request_review" => &payload["review"],
        _ => subject,
    };
    let sender = text(payload, "/sender/login");
    if sender.is_empty() || text(written, "/user/login") != sender {
        return "none";
    }
    match text(written, "/author_association") {
        "OWNER" => "admin",
        "MEMBER" | "COLLABORATOR" => "write",
        _ => "external",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_on_a_pull_request_has_its_command_and_the_role_of_whoever_wrote_it() {
        let payload = |association: &str, sender: &str| {
            json!({
                "action": "created", "sender": { "login": sender }, "repository": { "full_name": "acme/widgets" },
                "issue": { "number": 3, "pull_request": {}, "user": { "login": "ann" } },
                "comment": { "id": 9, "body": "/fix the test", "user": { "login": "ann" },
                             "author_association": association },
            })
        };
        let event = normalize("issue_comment", &payload("MEMBER", "ann")).unwrap();
        assert_eq!(event["entity"]["kind"], "change_proposal");
        assert_eq!(event["transition"]["comment"]["command"], "/fix");
        assert_eq!(event["transition"]["comment"]["instruction"], "the test");
        assert_eq!(
            (&event["actor"]["role"], &event["actor"]["is_entity_author"]),
            (&json!("write"), &json!(true))
        );
        let role = |association, sender| normalize("issue_comment", &payload(association, sender)).unwrap();
        assert_eq!(role("NONE", "ann")["actor"]["role"], "external");
        assert_eq!(role("MEMBER", "mallory")["actor"]["role"], "none", "the member is somebody else");
    }

    #[test]
    fn a_merged_pull_request_and_a_fork_are_recognised() {
        let payload = json!({
            "action": "closed", "sender": { "login": "ann" }, "repository": { "full_name": "acme/widgets" },
            "pull_request": {
                "number": 4, "merged": true, "user": { "login": "ann" },
                "head": { "repo": { "full_name": "ann/widgets" } }, "base": { "repo": { "full_name": "acme/widgets" } },
            },
        });
        let event = normalize("pull_request", &payload).unwrap();
        assert_eq!(event["transition"]["kind"], "merged");
        assert_eq!(event["state"]["change_proposal"]["is_fork"], true);
        for kind in ["ping", "push"] {
            assert_eq!(normalize(kind, &json!({ "zen": "x" })), None);
        }
    }
}
