//! Path A: the harness's files and the repository's instruction files are read, digested and scanned on the host before the
//! sandbox exists. Host files and `agent_input` are scanned when they are delivered (`provision/host_files.rs`).
//! Nothing is rewritten. A `ScannedInputs` can only be made here.

pub(crate) mod added_instructions;
mod imports;
pub(crate) mod instruction_files;
mod instruction_names;
pub(crate) mod mounted;
pub(crate) mod repo_skills;
pub(crate) mod repository_listing;

use std::path::Path;

use scan::Origin;

use crate::check::Checked;
use crate::check::agent::SkillFile;
use crate::event::log::{Emitter, sha256};
use crate::event::{InputKind, RunEvent};
use crate::guard::{Blocked, Guard};
use crate::harness::Harness;
use crate::resolve::layers::{LayerKind, LayerPath};
use crate::resolve::library::Library;
use added_instructions::AddedFile;
use instruction_files::{Coverage, ScannedFile, walk, walk_paths};
use repo_skills::RepoSkill;
use repository_listing::RepositoryListing;

/// A harness whose inputs were scanned. Everyone may read it:
///
/// ```
/// fn read(inputs: &fullsend::internal::ScannedInputs) -> &str {
///     inputs.agent_text()
/// }
/// ```
///
/// It cannot be made without the scan:
///
/// ```compile_fail
/// fn skip_the_scan(checked: fullsend::Checked) -> fullsend::internal::ScannedInputs {
///     fullsend::internal::ScannedInputs {
///         checked,
///         instructions: None,
///         agent_text: String::new(),
///         added_instructions: Vec::new(),
///         repo_skills: Vec::new(),
///         listing: Default::default(),
///     }
/// }
/// ```
///
/// nor changed after it:
///
/// ```compile_fail
/// fn change(inputs: &mut fullsend::internal::ScannedInputs) {
///     inputs.agent_text = "other instructions".to_owned();
/// }
/// ```
pub struct ScannedInputs {
    checked: Checked,
    instructions: Option<String>,
    agent_text: String,
    added_instructions: Vec<AddedFile>,
    repo_skills: Vec<RepoSkill>,
    listing: RepositoryListing,
}

impl ScannedInputs {
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// The instructions to agents of the repository, or of the organisation. The agent takes them as advice.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// The agent's system prompt: the body of its file, then what fullsend adds.
    pub fn agent_text(&self) -> &str {
        &self.agent_text
    }

    /// Instruction files that the view of the repository gets.
    pub fn added_instructions(&self) -> &[AddedFile] {
        &self.added_instructions
    }

    /// Skills of the repository, if the harness allows them.
    pub fn repo_skills(&self) -> &[RepoSkill] {
        &self.repo_skills
    }

    /// The paths in the repository that an agent would read, and the files that have names of secrets.
    pub fn repository_listing(&self) -> &RepositoryListing {
        &self.listing
    }
}

/// Names under which repositories keep instructions for agents; the first found at the root is given to the agent.
const INSTRUCTION_FILES: &[&str] =
    &["AGENTS.md", "agents.md", "Agents.md", "CLAUDE.md", "claude.md", "Claude.md"];

/// A checked harness whose agent, skills and plugins were scanned. The scan makes it.
pub struct ScannedHarness {
    checked: Checked,
}

impl ScannedHarness {
    pub fn checked(&self) -> &Checked {
        &self.checked
    }
}

/// Scans the files of the harness. They are known before the pre-script runs, so they are refused before it runs. If the
/// pre-script changes a skill, the scan inside the sandbox sees the changed one.
pub fn scan_harness(
    checked: Checked,
    library: &Library,
    guard: &Guard,
    emit: &Emitter,
) -> Result<ScannedHarness, Blocked> {
    let scanner = InputScanner { guard, emit };
    let harness = &checked.resolved;
    for found in &harness.files {
        let shown = library.layers.layer(found).shown(&found.path);
        let Ok(text) = library.layers.layer(found).read(&found.path) else { continue };
        match found.layer {
            LayerKind::Remote => {
                scanner.file(InputKind::Harness, &shown, text.as_bytes(), Origin::Harness)?;
            }
            _ => scanner.digest(InputKind::Harness, &shown, text.as_bytes()),
        }
    }
    let agent_text = library.text(checked.agent.source);
    scanner.file(
        InputKind::Agent,
        &shown(library, &checked.agent.found),
        agent_text.as_bytes(),
        Origin::Harness,
    )?;
    for skill in &checked.skills {
        scanner.skill(library, skill)?;
    }
    for plugin in &checked.plugins {
        let place = library.layers.host_path(&plugin.found);
        let place = place.unwrap_or_else(|| plugin.found.path.as_str().into());
        scanner.directory(InputKind::Plugin, &shown(library, &plugin.found), &place, Origin::Harness, &[])?;
    }
    if let Ok(text) = library.layers.layer(&checked.policy.found).read(&checked.policy.found.path) {
        scanner.digest(InputKind::Policy, &shown(library, &checked.policy.found), text.as_bytes());
    }
    if let Some(schema) = &checked.schema {
        let text = library.text(schema.source);
        scanner.digest(InputKind::Schema, &shown(library, &schema.found), text.as_bytes());
        // Both describe the same output. One digest over both shows when one changes without the other.
        let pair = format!("{agent_text}\0{text}");
        scanner.digest(InputKind::PromptAndSchema, &shown(library, &checked.agent.found), pair.as_bytes());
    }
    Ok(ScannedHarness { checked })
}

/// How the record names a file of the harness: by its path in its layer, or by its URL.
fn shown(library: &Library, found: &LayerPath) -> String {
    match found.layer {
        LayerKind::Remote => library.layers.layer(found).shown(&found.path),
        LayerKind::Builtin | LayerKind::Organisation | LayerKind::Repository => found.path.clone(),
    }
}

/// Scans what the repository and the organisation add; with `fail_mode: closed`, the first finding that blocks (`judge::blocks`) ends the
/// run.
/// `instruction_file` is the one that the runtime reads.
pub fn scan_repository(
    ScannedHarness { checked }: ScannedHarness,
    library: &Library,
    repository: &Path,
    guard: &Guard,
    emit: &Emitter,
    instruction_file: &'static str,
) -> Result<ScannedInputs, Blocked> {
    let scanner = InputScanner { guard, emit };
    let agent_text = library.text(checked.agent.source);
    let listing = repository_listing::list_repository(repository);
    let mut instructions = scanner.repository(repository, &listing)?;
    let repo_skills = scanner.repository_skills(&checked, repository)?;
    let added_instructions = scanner.added_instructions(library, repository, instruction_file)?;
    if let Some(ours) = added_instructions.iter().find(|one| one.name == "AGENTS.md") {
        instructions = Some(ours.contents.clone());
    }
    let body = agent_text[checked.agent.body.clone()].trim();
    let mut agent_text = body.to_owned();
    let harness = &checked.resolved.harness;
    for words in runtime_fetch_instructions(harness).into_iter().chain(guard.canary_instruction()) {
        agent_text = format!("{agent_text}\n\n{words}");
    }
    Ok(ScannedInputs { agent_text, checked, instructions, added_instructions, repo_skills, listing })
}

/// How the agent fetches a skill, if it may.
fn runtime_fetch_instructions(harness: &Harness) -> Option<String> {
    let most = harness.max_runtime_fetches.as_ref()?.get();
    let prefixes: String =
        harness.allowed_remote_resources.iter().map(|prefix| format!("\n- {}", prefix.as_str())).collect();
    harness.allow_runtime_fetch.value.then(|| {
        format!(
            "# More skills\n\nIf you need a skill that you do not have, run `fullsend fetch-skill URL`. It prints the path of the \
             skill's file: read that file. You can fetch at most {most} skills, and only from URLs that start with:{prefixes}"
        )
    })
}

/// Scans the caller's context text. It is untrusted like other inputs.
pub fn scan_context_text(text: &str, guard: &Guard, emit: &Emitter) -> Result<(), Blocked> {
    InputScanner { guard, emit }.file(InputKind::Context, "context", text.as_bytes(), Origin::Instruction)
}

/// Reads, digests and scans one input after the other, and reports each.
pub struct InputScanner<'a> {
    pub guard: &'a Guard,
    pub emit: &'a Emitter,
}

impl InputScanner<'_> {
    fn digest(&self, kind: InputKind, name: &str, bytes: &[u8]) {
        self.emit.emit(RunEvent::Input { kind, name: name.to_owned(), sha256: sha256(bytes) });
    }

    pub fn file(&self, kind: InputKind, name: &str, bytes: &[u8], origin: Origin) -> Result<(), Blocked> {
        self.digest(kind, name, bytes);
        self.guard.inspect(bytes, origin, name)
    }

    /// Every file below a directory, except `excluded`.
    pub fn directory(
        &self,
        kind: InputKind,
        name: &str,
        place: &Path,
        origin: Origin,
        excluded: &[&str],
    ) -> Result<(), Blocked> {
        walk(place, Coverage::Everything, origin, &mut |seen: ScannedFile<'_>| {
            if excluded.contains(&seen.path) {
                return Ok(());
            }
            self.seen(kind, &format!("{name}/{}", seen.path), &seen)
        })
    }

    /// A skill with all its files, as it will be inside: overridden files come from their own layer.
    fn skill(&self, library: &Library, skill: &SkillFile) -> Result<(), Blocked> {
        let name = shown(library, &skill.found);
        let name = name.strip_suffix("/SKILL.md").unwrap_or(&name);
        let replaced: Vec<&str> = skill.overrides.iter().map(|(path, _)| path.as_str()).collect();
        match library.layers.host_path(&skill.found) {
            Some(place) => self.directory(InputKind::Skill, name, &place, Origin::Harness, &replaced)?,
            None => {
                self.file(InputKind::Skill, name, library.text(skill.source).as_bytes(), Origin::Harness)?;
            }
        }
        for (path, found) in &skill.overrides {
            let Some(found) = found else { continue };
            let name = format!("{name}/{}", path.as_str());
            match library.layers.layer(found).read(&found.path) {
                Ok(text) => self.file(InputKind::Skill, &name, text.as_bytes(), Origin::Harness)?,
                Err(error) => self.guard.report_unreadable(&name, &error.to_string())?,
            }
        }
        Ok(())
    }

    /// Scans every instruction file; returns the one that this agent gets.
    fn repository(&self, repository: &Path, listing: &RepositoryListing) -> Result<Option<String>, Blocked> {
        if listing.too_many {
            self.guard.report_unreadable("the repository", "has too many entries")?;
        }
        let mut given: Option<(usize, String)> = None;
        walk_paths(repository, &listing.instruction_paths, Origin::Instruction, &mut |seen: ScannedFile<
            '_,
        >| {
            self.seen(InputKind::Context, seen.path, &seen)?;
            let rank = INSTRUCTION_FILES.iter().position(|name| *name == seen.path);
            if let (Some(rank), Ok(bytes)) = (rank, &seen.contents)
                && given.as_ref().is_none_or(|(other, _)| rank < *other)
            {
                given = Some((rank, String::from_utf8_lossy(bytes).into_owned()));
            }
            Ok(())
        })?;
        Ok(given.map(|(_, text)| text))
    }

    /// Everyone who may write to the repository may write these, so every file in them is scanned.
    fn repository_skills(&self, checked: &Checked, repository: &Path) -> Result<Vec<RepoSkill>, Blocked> {
        let taken: Vec<&str> = checked.skills.iter().map(|skill| skill.name.as_str()).collect();
        for (skill, place) in repo_skills::shadowed(repository, &taken) {
            self.emit.emit(RunEvent::SkillShadowed { skill, place });
        }
        if !checked.resolved.harness.allow_repo_skills.value {
            return Ok(Vec::new());
        }
        let skills = repo_skills::find(repository, &taken);
        for skill in &skills {
            self.directory(InputKind::Skill, &skill.shown, &skill.directory, Origin::Instruction, &[])?;
        }
        Ok(skills)
    }

    /// The organisation's instructions pass the same scan as all others.
    fn added_instructions(
        &self,
        library: &Library,
        repository: &Path,
        instruction_file: &'static str,
    ) -> Result<Vec<AddedFile>, Blocked> {
        let entries = std::fs::read_dir(repository).into_iter().flatten().flatten();
        let present: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let organisation = library.layers.get(LayerKind::Organisation);
        let default = organisation.and_then(|layer| layer.read("AGENTS.md").ok());
        let added_instructions = added_instructions::added(&present, default.as_deref(), instruction_file);
        for one in &added_instructions {
            self.file(InputKind::Instructions, one.name, one.contents.as_bytes(), Origin::Harness)?;
        }
        Ok(added_instructions)
    }

    fn seen(&self, kind: InputKind, name: &str, seen: &ScannedFile<'_>) -> Result<(), Blocked> {
        match &seen.contents {
            Ok(bytes) => self.file(kind, name, bytes, seen.origin),
            Err(error) => self.guard.report_unreadable(name, &error.to_string()),
        }
    }
}
