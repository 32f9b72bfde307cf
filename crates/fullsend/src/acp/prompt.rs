//! The content of an editor's prompt as text for an agent: words, links to files, and files that the editor sends along.

use std::path::Path;

use serde_json::Value as Json;

use super::invalid;
use crate::json_rpc::RpcFailure;

/// The text of the blocks. Paths of the project are relative, as the agent sees them.
pub fn text(blocks: &[Json], project: &Path) -> Result<String, RpcFailure> {
    let mut parts = Vec::new();
    for block in blocks {
        let value = |key: &str| block.get(key).and_then(Json::as_str);
        parts.push(match value("type") {
            Some("text") => value("text").unwrap_or_default().to_owned(),
            Some("resource_link") => place(value("uri").unwrap_or_default(), project),
            Some("resource") => file(&block["resource"], project)?,
            Some(other) => return Err(invalid(format!("a prompt cannot have content of type `{other}`"))),
            None => return Err(invalid("an entry of `prompt` has no `type`")),
        });
    }
    let text = parts.join("\n");
    if text.trim().is_empty() { Err(invalid("the prompt is empty")) } else { Ok(text) }
}

/// A file with its text.
fn file(resource: &Json, project: &Path) -> Result<String, RpcFailure> {
    let text = resource.get("text").and_then(Json::as_str);
    let text = text.ok_or_else(|| invalid("a file in a prompt must be text"))?;
    let place = place(resource.get("uri").and_then(Json::as_str).unwrap_or_default(), project);
    // A fence that does not occur in the text.
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    Ok(format!("{place}:\n{fence}\n{}\n{fence}", text.trim_end_matches('\n')))
}

fn place(uri: &str, project: &Path) -> String {
    let Some(path) = uri.strip_prefix("file://") else { return uri.to_owned() };
    match Path::new(path).strip_prefix(project) {
        Ok(below) if !below.as_os_str().is_empty() => below.display().to_string(),
        Ok(_) => ".".to_owned(),
        Err(_) => path.to_owned(),
    }
}
