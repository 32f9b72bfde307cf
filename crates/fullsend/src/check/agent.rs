//! The agent's definition and its skills: Markdown files whose frontmatter is read as strictly as the harness.

use std::ops::Range;
use std::rc::Rc;

use yaml::{Decoder, Diagnostic, ParseLimits, Shape, SourceId, Span, Spanned};

use super::references::{self, ReferenceKind};
use crate::harness::Harness;
use crate::harness::frontmatter::{self, AgentFrontmatter, SkillFrontmatter};
use crate::harness::reference::{LocalPath, Ref};
use crate::resolve::layers::LayerPath;
use crate::resolve::library::Library;

/// An agent definition that was read.
#[derive(Clone, Debug)]
pub struct AgentFile {
    pub found: LayerPath,
    pub source: SourceId,
    /// The file's stem: the name under which the runtime knows the agent.
    pub name: String,
    pub frontmatter: Option<AgentFrontmatter>,
    /// The range of the prompt in the file.
    pub body: Range<usize>,
}

/// A skill whose SKILL.md was read.
#[derive(Clone, Debug)]
pub struct SkillFile {
    /// The directory.
    pub found: LayerPath,
    pub source: SourceId,
    /// The name in its frontmatter, under which the agent finds it.
    pub name: String,
    pub frontmatter: SkillFrontmatter,
    /// How it is named.
    pub reference: Ref,
    /// Where the harness lists it.
    pub listed_at: Span,
    /// Files of the skill that are replaced, or removed.
    pub overrides: Vec<(LocalPath, Option<LayerPath>)>,
}

pub fn check(library: &mut Library, harness: &Harness, problems: &mut Vec<Diagnostic>) -> Option<AgentFile> {
    let found = references::remote_or_local(
        library,
        harness,
        &harness.agent,
        "agent",
        ReferenceKind::File,
        problems,
    )?;
    let (source, frontmatter, body) = markdown::<AgentFrontmatter>(library, &found, problems)?;
    if library.text(source)[body.clone()].trim().is_empty() {
        problems.push(Diagnostic::error(
            "empty-agent",
            end(source, &body),
            "the agent has no prompt below its frontmatter",
        ));
        return None;
    }
    Some(AgentFile { name: harness.agent.stem().to_owned(), found, source, frontmatter, body })
}

pub fn check_skills(
    library: &mut Library,
    harness: &Harness,
    problems: &mut Vec<Diagnostic>,
) -> Vec<SkillFile> {
    let mut files: Vec<SkillFile> = Vec::new();
    for skill in &harness.skills.0 {
        let Some(found) = references::remote_or_local(
            library,
            harness,
            &skill.source,
            "skills",
            ReferenceKind::Directory,
            problems,
        ) else {
            continue;
        };
        let mut overrides = Vec::new();
        for (target, replacement) in &skill.overrides {
            let file = match replacement {
                Some(path) => {
                    references::local(library, &path.value, path.at, "skills", ReferenceKind::File, problems)
                }
                None => None,
            };
            overrides.push((target.value.clone(), file));
        }
        let Some(file) = read_skill(library, &skill.source, found, overrides, problems) else { continue };
        add_skill(&mut files, file, problems);
    }
    files
}

/// A skill of a nearer file replaces one of the same name. Two in one file are a mistake.
fn add_skill(files: &mut Vec<SkillFile>, file: SkillFile, problems: &mut Vec<Diagnostic>) {
    let Some(other) = files.iter_mut().find(|other| other.name == file.name) else {
        files.push(file);
        return;
    };
    if other.listed_at.source == file.listed_at.source {
        let message = format!("two skills are called `{}`", file.name);
        problems.push(
            Diagnostic::error("skill-collision", file.listed_at, message)
                .related(other.listed_at, "the other one")
                .help("change the `name` in the frontmatter of one: the agent finds a skill by it"),
        );
    } else {
        *other = file;
    }
}

pub(super) fn read_skill(
    library: &mut Library,
    source_of: &Spanned<Ref>,
    found: LayerPath,
    overrides: Vec<(LocalPath, Option<LayerPath>)>,
    problems: &mut Vec<Diagnostic>,
) -> Option<SkillFile> {
    let about = LayerPath { layer: found.layer, path: format!("{}/SKILL.md", found.path) };
    if library.layers.layer(&found).find(&about.path).is_none() {
        let message = format!("the skill `{}` has no SKILL.md", source_of.stem());
        problems.push(Diagnostic::error("no-skill-file", source_of.at, message));
        return None;
    }
    let (source, frontmatter, _) = markdown::<SkillFrontmatter>(library, &about, problems)?;
    let Some(frontmatter) = frontmatter else {
        let message = "a skill needs frontmatter with `name` and `description`";
        problems.push(Diagnostic::error("no-frontmatter", Span::start_of(source), message));
        return None;
    };
    let name = frontmatter.name.as_str().to_owned();
    let reference = source_of.value.clone();
    Some(SkillFile { name, reference, listed_at: source_of.at, found, source, frontmatter, overrides })
}

/// Reads a Markdown file and its frontmatter, once for all harnesses that share it.
fn markdown<T: Shape>(
    library: &mut Library,
    found: &LayerPath,
    problems: &mut Vec<Diagnostic>,
) -> Option<(SourceId, Option<T>, Range<usize>)> {
    let source = library.source(found).map_err(|problem| problems.push(Rc::unwrap_or_clone(problem))).ok()?;
    let text = library.text(source);
    let parts = frontmatter::split(&text, source).map_err(|problem| problems.push(*problem)).ok()?;
    let Some(range) = parts.frontmatter else { return Some((source, None, parts.body)) };
    let tree = yaml::parse_part(&library.sources, source, range, ParseLimits::default());
    let tree = tree.map_err(|problem| problems.push(*problem)).ok()?;
    let mut decoder = Decoder::whole();
    let value = T::decode(&tree, &mut decoder);
    problems.append(&mut decoder.diagnostics);
    Some((source, Some(value?), parts.body))
}

fn end(source: SourceId, body: &Range<usize>) -> Span {
    let at = u32::try_from(body.start).unwrap_or(0);
    Span { source, start: at, end: at }
}
