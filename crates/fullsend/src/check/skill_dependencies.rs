//! Skills that other skills need: `dependencies` in the frontmatter of a skill. A dependency is a pinned URL, or a path from
//! a remote skill's own directory to another in the same archive or commit. A plain word is the name of a skill that the
//! harness lists.

use std::collections::HashSet;

use yaml::{Diagnostic, Spanned};

use super::agent::{SkillFile, read_skill};
use super::references::{self, ReferenceKind};
use crate::harness::Harness;
use crate::harness::reference::{LocalPath, PinnedUrl, Ref, UrlPin, looks_like_url};
use crate::resolve::library::Library;

/// How far dependencies may lead.
const MAX_DEPTH: usize = 10;
const MAX_SKILLS: usize = 50;

/// The remote skills that a skill needs.
fn of(file: &SkillFile, problems: &mut Vec<Diagnostic>) -> Vec<Spanned<Ref>> {
    let mut found = Vec::new();
    for dependency in &file.frontmatter.dependencies {
        match reference(&file.reference, &dependency.value) {
            Ok(Some(url)) => found.push(Spanned { value: Ref::Url(url), at: dependency.at }),
            Ok(None) => {}
            Err(why) => {
                let message = format!("the dependency `{}` {why}", dependency.value);
                problems.push(Diagnostic::error("skill-dependency", dependency.at, message));
            }
        }
    }
    found
}

/// What a dependency of the skill at `source` means; `None` for the name of a skill.
fn reference(source: &Ref, text: &str) -> Result<Option<PinnedUrl>, String> {
    if looks_like_url(text) {
        return PinnedUrl::parse(text).map(Some);
    }
    let Ref::Url(own) = source else { return Ok(None) };
    if !text.contains('/') {
        return Ok(None);
    }
    if matches!(own.pin, UrlPin::Sha256(_)) && !own.is_archive() {
        return Err("must be a URL with a digest: its skill is one file".to_owned());
    }
    let directory = own.path.strip_suffix("/SKILL.md").unwrap_or(&own.path);
    let path = joined(directory, text).ok_or("leads out of the archive or commit")?;
    let path = LocalPath::parse(&path)?;
    Ok(Some(PinnedUrl { path: path.as_str().to_owned(), ..own.clone() }))
}

fn joined(directory: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Adds the skills that are needed and those that they need. One that the harness lists under the same name stays.
pub fn add(
    library: &mut Library,
    harness: &Harness,
    files: &mut Vec<SkillFile>,
    problems: &mut Vec<Diagnostic>,
) {
    let mut seen: HashSet<Ref> = harness.skills.0.iter().map(|skill| skill.source.value.clone()).collect();
    let mut needed: Vec<Spanned<Ref>> = files.iter().flat_map(|file| of(file, problems)).collect();
    for _ in 0..MAX_DEPTH {
        let mut further = Vec::new();
        for skill in needed {
            if !seen.insert(skill.value.clone()) {
                continue;
            }
            if files.len() >= MAX_SKILLS {
                problems.push(too_many(&skill, &format!("there are more than {MAX_SKILLS} skills")));
                return;
            }
            let kind = ReferenceKind::Directory;
            let found = references::remote_or_local(library, harness, &skill, "dependencies", kind, problems);
            let Some(found) = found else { continue };
            let Some(file) = read_skill(library, &skill, found, Vec::new(), problems) else { continue };
            further.extend(of(&file, problems));
            if files.iter().all(|other| other.name != file.name) {
                files.push(file);
            }
        }
        needed = further;
    }
    if let Some(skill) = needed.iter().find(|skill| !seen.contains(&skill.value)) {
        problems.push(too_many(
            skill,
            &format!("the dependencies of a skill are nested deeper than {MAX_DEPTH} skills"),
        ));
    }
}

fn too_many(skill: &Spanned<Ref>, what: &str) -> Diagnostic {
    Diagnostic::error("skill-dependency", skill.at, format!("`{}` is not added: {what}", skill.value))
        .help("list what is needed in the harness's `skills`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_stay_in_their_archive_or_commit() {
        let check = |source: &str, text: &str, expected: Result<Option<&str>, &str>| {
            let found = reference(&Ref::parse(source).unwrap(), text);
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found.map(|url| url.path).as_deref(), expected, "{source} {text}");
                }
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, expected) => panic!("{source} {text}: {found:?}, expected {expected:?}"),
            }
        };
        let commit = format!("git+https://example.com/x@{}//skills/a", "b".repeat(40));
        let archive = format!("https://example.com/x.tgz#sha256={}//skills/a/SKILL.md", "a".repeat(64));
        let file = format!("https://example.com/SKILL.md#sha256={}", "a".repeat(64));
        check(&commit, "../b", Ok(Some("skills/b")));
        check(&archive, "../b/", Ok(Some("skills/b")));
        check(&commit, "../../../b", Err("leads out"));
        check(&commit, "b", Ok(None));
        check("skills/a", "../b", Ok(None));
        check(&file, "../b", Err("must be a URL"));
        check("skills/a", &file, Ok(Some("")));
        check("skills/a", "https://example.com/SKILL.md", Err("digest"));
        check("skills/a", "http://example.com/SKILL.md", Err("https"));
    }
}
