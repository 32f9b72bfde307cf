//! Webhooks of GitLab as events: issues, merge requests and notes. GitLab does not say what the user may do, so the role is
//! `none`.

use serde_json::{Value as Json, json};

use super::{command, id, labels, text};

pub(super) fn normalize(kind: &str, payload: &Json) -> Option<Json> {
    let object = payload.get("object_attributes")?;
    let is_note = kind == "Note Hook" || kind == "Confidential Note Hook";
    let subject = match payload.get("merge_request").or_else(|| payload.get("issue")) {
        Some(subject) if is_note => subject,
        None if is_note => return None,
        _ => object,
    };
    let is_change = kind == "Merge Request Hook" || is_note && payload.get("merge_request").is_some();
    let transition = transition(kind, payload)?;
    let author = id(subject, "/author_id");
    let labels = labels(payload.get("labels").or_else(|| subject.get("labels")), "title");
    let mut state = json!({ "labels": labels });
    if is_change {
        let head_repo = text(subject, "/source/path_with_namespace");
        let base_repo = text(subject, "/target/path_with_namespace");
        state["change_proposal"] = json!({
            "id": id(subject, "/iid"), "head_repo": head_repo, "base_repo": base_repo,
            "head_ref": text(subject, "/source_branch"), "base_ref": text(subject, "/target_branch"),
            "head_sha": text(subject, "/last_commit/id"), "author_id": author, "is_fork": head_repo != base_repo,
        });
    }
    Some(json!({
        "repo": text(payload, "/project/path_with_namespace"),
        "entity": {
            "kind": if is_change { "change_proposal" } else { "work_item" },
            "id": id(subject, "/iid"), "key": id(subject, "/iid"), "url": text(subject, "/url"),
        },
        "transition": transition,
        "actor": {
            "id": text(payload, "/user/username"), "kind": "human", "role": "none",
            "is_entity_author": !author.is_empty() && author == id(payload, "/user/id"),
        },
        "state": state,
        "source": { "system": "gitlab", "raw_type": kind, "raw_action": text(object, "/action") },
    }))
}

fn transition(kind: &str, payload: &Json) -> Option<Json> {
    let plain = |kind: &str| json!({ "kind": kind });
    let action = text(payload, "/object_attributes/action");
    Some(match (kind, action) {
        ("Issue Hook" | "Merge Request Hook", "open") => plain("opened"),
        ("Issue Hook" | "Merge Request Hook", "reopen") => plain("reopened"),
        ("Issue Hook" | "Merge Request Hook", "close") => plain("closed"),
        ("Merge Request Hook", "merge") => plain("merged"),
        ("Merge Request Hook", "approved" | "approval") => {
            let reviewer = text(payload, "/user/username");
            json!({ "kind": "review_submitted", "review": { "state": "approved", "reviewer_id": reviewer } })
        }
        ("Merge Request Hook", "update") if !text(payload, "/object_attributes/oldrev").is_empty() => {
            plain("synchronized")
        }
        ("Issue Hook" | "Merge Request Hook", "update") => changed_label(payload).unwrap_or(plain("updated")),
        ("Note Hook" | "Confidential Note Hook", _) => note(payload),
        _ => return None,
    })
}

/// The first label that was added or removed.
fn changed_label(payload: &Json) -> Option<Json> {
    let before = labels(payload.pointer("/changes/labels/previous"), "title");
    let after = labels(payload.pointer("/changes/labels/current"), "title");
    let change = |name: &Json, action: &str| json!({ "kind": "label_changed", "label": { "name": name, "action": action } });
    let added = after.iter().find(|name| !before.contains(name)).map(|name| change(name, "added"));
    added.or_else(|| before.iter().find(|name| !after.contains(name)).map(|name| change(name, "removed")))
}

fn note(payload: &Json) -> Json {
    let body = text(payload, "/object_attributes/note");
    let mut comment = json!({ "id": id(payload, "/object_attributes/id"), "body": body });
    if let Some((word, instruction)) = command(body) {
        comment["command"] = word.into();
        comment["instruction"] = instruction.into();
    }
    let kind = if text(payload, "/object_attributes/action") == "update" {
        "comment_edited"
    } else {
        "comment_added"
    };
    json!({ "kind": kind, "comment": comment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_notes_and_new_commits_are_recognised() {
        let labels = json!({
            "object_attributes": { "action": "update", "iid": 5, "author_id": 1 }, "user": { "username": "ann", "id": 1 },
            "project": { "path_with_namespace": "acme/widgets" }, "labels": [{ "title": "ready" }],
            "changes": { "labels": { "previous": [], "current": [{ "title": "ready" }] } },
        });
        let event = normalize("Issue Hook", &labels).unwrap();
        assert_eq!(
            event["transition"],
            json!({ "kind": "label_changed", "label": { "name": "ready", "action": "added" } })
        );
        assert_eq!(
            (&event["entity"]["id"], &event["actor"]["is_entity_author"]),
            (&json!("5"), &json!(true))
        );
        let note = json!({
            "object_attributes": { "id": 2, "note": "/review now" }, "merge_request": { "iid": 6 },
            "user": { "username": "ann" }, "project": { "path_with_namespace": "acme/widgets" },
        });
        let event = normalize("Note Hook", &note).unwrap();
        assert_eq!(
            (&event["entity"]["kind"], &event["transition"]["comment"]["command"]),
            (&json!("change_proposal"), &json!("/review"))
        );
        let pushed = json!({ "object_attributes": { "action": "update", "oldrev": "abc" }, "user": {} });
        assert_eq!(normalize("Merge Request Hook", &pushed).unwrap()["transition"]["kind"], "synchronized");
        assert_eq!(normalize("Push Hook", &json!({})), None);
    }
}
