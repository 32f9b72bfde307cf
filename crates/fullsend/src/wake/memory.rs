//! Memory as files: rows of the store become files of a wake, and the files that the agent leaves become rows again, with
//! the commit. Only fullsend writes `checkpoint.json`. In the other two standard files it writes one section; the rest is
//! the agent's.

use serde_json::{Value as Json, json};

use super::prompt::{PromptReport, clip, input_file};
use super::screen::ScreenedMemory;
use crate::run::extra_files::ExtraFiles;
use crate::runtime::state::StateFile;
use sandbox::{Mount, MountKind};
use session::{
    CHECKPOINT, ContextSource, Directive, MemoryAuthor, MemoryFile, MemoryWrite, SESSION_STATE,
    SessionLimits, WORKING_BUFFER, WakeEnding, put_section,
};

/// The session's directory inside the sandbox.
pub const DIRECTORY: &str = "/sandbox/workspace/session";

const CHECKPOINT_VERSION: u32 = 1;

/// The files of the session's directory.
pub fn extra_files(context: &ContextSource, screened: &ScreenedMemory, resources: Vec<Mount>) -> ExtraFiles {
    let read_only = |name: &str, contents: Vec<u8>| Mount {
        target: format!("{DIRECTORY}/{name}").into(),
        kind: MountKind::File { contents, mode: 0o444 },
    };
    let mut mounts = vec![
        Mount { target: DIRECTORY.into(), kind: MountKind::Directory { mode: 0o755 } },
        Mount { target: format!("{DIRECTORY}/inputs").into(), kind: MountKind::Directory { mode: 0o755 } },
    ];
    mounts.extend(context.inputs.iter().map(|event| {
        read_only(&input_file(event), serde_json::to_vec_pretty(&event.payload).unwrap_or_default())
    }));
    let mut files = Vec::new();
    for MemoryFile { name, content } in &screened.memory {
        let contents = content.clone().into_bytes();
        if name == CHECKPOINT {
            mounts.push(read_only(name, contents));
        } else {
            files.push(StateFile { path: format!("{DIRECTORY}/{name}"), contents });
        }
    }
    mounts.extend(resources);
    ExtraFiles { mounts, files, returned: Some(DIRECTORY.to_owned()) }
}

/// What the harness records about a wake that ended.
pub struct WakeSummary<'a> {
    pub context: &'a ContextSource,
    pub directive: Option<&'a Directive>,
    pub report: &'a PromptReport,
    pub runtime: &'a str,
    pub run_id: Option<String>,
    /// How the run ended, for people.
    pub ending: &'a str,
}

/// The files to write with the commit: the agent's changed files, the harness's sections, and the checkpoint.
pub fn writes(summary: &WakeSummary<'_>, kept: &[StateFile], limits: &SessionLimits) -> Vec<MemoryWrite> {
    let before = &summary.context.memory;
    let stored = |name: &str| before.iter().find(|file| file.name == name).map(|file| file.content.as_str());
    let mut left_out = Vec::new();
    let mut writes = Vec::new();
    // The checkpoint and the two standard files always exist.
    let mut names = before.len().max(3);
    for StateFile { path, contents } in kept {
        if path == CHECKPOINT
            || path.starts_with("inputs/")
            || path == SESSION_STATE
            || path == WORKING_BUFFER
        {
            continue;
        }
        let text = String::from_utf8(contents.clone()).ok();
        let known = stored(path).is_some();
        let room = known || names < limits.memory_files;
        match text.filter(|text| text.len() <= limits.memory_file_bytes && is_plain(path) && room) {
            Some(text) if stored(path) == Some(&text) => {}
            Some(content) => {
                names += usize::from(!known);
                writes.push(write(MemoryAuthor::Agent, path, content));
            }
            None => left_out.push(path.clone()),
        }
    }
    for (name, section) in
        [(SESSION_STATE, state_section(summary)), (WORKING_BUFFER, buffer_section(summary))]
    {
        let agents = kept.iter().find(|file| file.path == name);
        let agents = agents.and_then(|file| String::from_utf8(file.contents.clone()).ok());
        let agents = agents.filter(|text| text.len() <= limits.memory_file_bytes / 2);
        // A standard file that the agent removed, broke or made too large keeps its earlier content.
        let text = agents.or_else(|| stored(name).map(str::to_owned)).unwrap_or_default();
        writes.push(write(MemoryAuthor::Fullsend, name, put_section(&text, "wake", &section)));
    }
    writes.push(write(MemoryAuthor::Fullsend, CHECKPOINT, format!("{:#}\n", checkpoint(summary, &left_out))));
    writes.retain(|write| write.file.content.len() <= limits.memory_file_bytes);
    writes
}

/// The files that the agent deleted: it saw them, and they are gone. This is known only after a run that ended cleanly.
pub fn deleted(shown: &[String], kept: &[StateFile], ending: &WakeEnding) -> Vec<String> {
    let in_order = matches!(ending, WakeEnding::Directive(_) | WakeEnding::Paused);
    // Without the standard files the directory could not be read back.
    if !in_order || !kept.iter().any(|file| file.path == SESSION_STATE) {
        return Vec::new();
    }
    let standard = [CHECKPOINT, SESSION_STATE, WORKING_BUFFER];
    let is_gone =
        |name: &&String| !standard.contains(&name.as_str()) && !kept.iter().any(|file| file.path == **name);
    shown.iter().filter(is_gone).cloned().collect()
}

fn write(author: MemoryAuthor, name: &str, content: String) -> MemoryWrite {
    MemoryWrite { author, file: MemoryFile { name: name.to_owned(), content } }
}

/// The store accepts only plain paths. A file with another name is left out, so that the commit succeeds.
fn is_plain(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    name.len() <= 200 && name.split('/').all(part)
}

fn state_section(summary: &WakeSummary<'_>) -> String {
    let WakeSummary { context, directive, ending, .. } = summary;
    let text = directive.map_or("", |directive| directive.summary.as_str());
    let mut lines = vec![format!("- last wake: {} ({ending})", context.wake.id)];
    if !text.is_empty() {
        lines.push(format!("- summary: {text}"));
    }
    for wish in directive.iter().flat_map(|directive| &directive.queued_wakes) {
        lines.push(format!("- queued: {} in {} s", wish.reason, wish.delay_seconds));
    }
    for wish in directive.iter().flat_map(|directive| &directive.custom_tools) {
        lines.push(format!("- requested: {}", wish.name));
    }
    lines.join("\n")
}

fn buffer_section(summary: &WakeSummary<'_>) -> String {
    let response = summary.directive.map_or("", |directive| directive.response.as_str());
    format!("Last response:\n{}", clip(response, 8_000).0)
}

fn checkpoint(summary: &WakeSummary<'_>, left_out: &[String]) -> Json {
    let WakeSummary { context, directive, report, runtime, run_id, ending } = summary;
    json!({
        "version": CHECKPOINT_VERSION,
        "session_id": context.session.header.id,
        "agent": context.session.header.agent,
        "wake_id": context.wake.id,
        "attempt": context.wake.attempt,
        "through_seq": context.session.state.head,
        "inputs": context.inputs.iter().map(|event| event.seq).collect::<Vec<_>>(),
        "runtime": runtime,
        "run_id": run_id,
        "ending": ending,
        "outcome": directive.map(|directive| directive.outcome),
        "summary": directive.map(|directive| directive.summary.clone()),
        "context": report,
        "left_out": left_out,
    })
}
