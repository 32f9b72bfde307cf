//! Every file that a harness names: is it there, is it of the right kind, may it come from where it comes from.

use yaml::{Diagnostic, Span, Spanned};

use super::Scripts;
use crate::harness::image::ImageRef;
use crate::harness::names::is_identifier;
use crate::harness::reference::{LocalPath, PinnedUrl, Ref};
use crate::harness::{Harness, ProviderRef};
use crate::remote::RemoteUse;
use crate::resolve::Resolved;
use crate::resolve::chain::{not_allowed, not_fetched};
use crate::resolve::layers::LayerPath;
use crate::resolve::library::Library;
use crate::scripts::shebang;

/// Whether a reference must be a file or a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReferenceKind {
    File,
    Directory,
    Program,
}

pub fn check(library: &mut Library, resolved: &Resolved, problems: &mut Vec<Diagnostic>) {
    let harness = &resolved.harness;
    for profile in harness.openshell.iter().flat_map(|openshell| &openshell.profiles) {
        remote_or_local(library, harness, profile, "openshell.profiles", ReferenceKind::File, problems);
    }
    for server in &harness.api_servers {
        local(
            library,
            &server.script.value,
            server.script.at,
            "script of an api server",
            ReferenceKind::Program,
            problems,
        );
    }
    if let Some(image) = harness.image.as_ref().filter(|image| image.variables().next().is_none()) {
        let is_there =
            |path: &str| LocalPath::parse(path).is_ok_and(|path| library.layers.find(&path).is_some());
        match ImageRef::parse(image.raw(), is_there) {
            Ok(ImageRef::Layered(path)) => match LocalPath::parse(&path) {
                Ok(path) => problems.extend(missing_image(library, &path, image.at)),
                Err(why) => problems.push(Diagnostic::error("value", image.at, format!("`image` {why}"))),
            },
            Ok(ImageRef::Host(_) | ImageRef::Registry(_)) => {}
            Err(why) => problems.push(Diagnostic::error("value", image.at, format!("`image` {why}"))),
        }
    }
    for file in &harness.host_files.0 {
        host_file(library, file, problems);
    }
    if let Some(input) = harness.agent_input.as_ref().filter(|input| input.variables().next().is_none()) {
        match LocalPath::parse(input.raw()) {
            Ok(_) => {}
            Err(why) => problems.push(Diagnostic::error("value", input.at, format!("`agent_input` {why}"))),
        }
    }
}

/// A name without a registry is a path.
fn missing_image(library: &Library, path: &LocalPath, at: Span) -> Option<Diagnostic> {
    let problem = *library.find(path, at, "image").err()?;
    Some(
        problem
            .help("name an image with its registry: REGISTRY/NAME:TAG, such as docker.io/library/debian:12"),
    )
}

/// A plugin's directory, which was found.
#[derive(Clone, Debug)]
pub struct Plugin {
    pub name: String,
    pub found: LayerPath,
    /// The names of the directories in its `skills/` that hold a SKILL.md.
    pub skills: Vec<String>,
}

/// The plugins of the harness.
pub fn plugins(library: &Library, harness: &Harness, problems: &mut Vec<Diagnostic>) -> Vec<Plugin> {
    let mut find = |plugin: &Spanned<Ref>| {
        let found = remote_or_local(library, harness, plugin, "plugins", ReferenceKind::Directory, problems)?;
        let skills = plugin_skills(library, &found);
        Some(Plugin { name: plugin.stem().to_owned(), found, skills })
    };
    harness.plugins.iter().filter_map(&mut find).collect()
}

fn plugin_skills(library: &Library, found: &LayerPath) -> Vec<String> {
    let directory = library.layers.host_path(found).map(|path| path.join("skills"));
    let entries = directory.and_then(|path| std::fs::read_dir(path).ok()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let layer = library.layers.layer(found);
    let mut skills: Vec<String> = names
        .filter(|name| is_identifier(name))
        .filter(|name| layer.find(&format!("{}/skills/{name}/SKILL.md", found.path)).is_some())
        .collect();
    skills.sort();
    skills
}

/// The scripts of a run, found and able to start.
pub fn scripts(library: &Library, harness: &Harness, problems: &mut Vec<Diagnostic>) -> Scripts {
    let mut find = |script: &Option<Spanned<LocalPath>>, field: &str| {
        let script = script.as_ref()?;
        local(library, &script.value, script.at, field, ReferenceKind::Program, problems)
    };
    Scripts {
        pre: find(&harness.pre_script, "pre_script"),
        post: find(&harness.post_script, "post_script"),
        validation: find(&harness.validation_loop.script, "validation_loop.script"),
    }
}

/// A file that can be checked now only if neither a variable nor a script determines it later.
fn host_file(library: &Library, file: &crate::harness::skills::HostFile, problems: &mut Vec<Diagnostic>) {
    let raw = file.src.raw();
    if file.src.variables().next().is_some() || raw.starts_with('/') {
        return;
    }
    match LocalPath::parse(raw) {
        Ok(_) if file.optional == Some(true) => {}
        Ok(path) => {
            local(library, &path, file.src.at, "host_files src", ReferenceKind::File, problems);
        }
        Err(why) => problems.push(Diagnostic::error("value", file.src.at, format!("`host_files` src {why}"))),
    }
}

/// Finds a reference that may be remote; a remote one must be allowed, and is fetched.
pub fn remote_or_local(
    library: &Library,
    harness: &Harness,
    reference: &Spanned<Ref>,
    field: &str,
    kind: ReferenceKind,
    problems: &mut Vec<Diagnostic>,
) -> Option<LayerPath> {
    match &reference.value {
        Ref::Local(path) => local(library, path, reference.at, field, kind, problems),
        Ref::Url(url) => remote(library, harness, (url, reference.at), field, kind, problems),
    }
}

/// Nothing is fetched for a harness that has an error already: the error may be in the setting that limits what may be
/// fetched.
fn remote(
    library: &Library,
    harness: &Harness,
    (url, at): (&PinnedUrl, Span),
    field: &str,
    kind: ReferenceKind,
    problems: &mut Vec<Diagnostic>,
) -> Option<LayerPath> {
    if !harness.allowed_remote_resources.iter().any(|prefix| url.is_under(&prefix.value)) {
        problems.push(not_allowed(field, url, at));
        return None;
    }
    if problems.iter().any(Diagnostic::is_error) {
        return None;
    }
    let needed = if kind == ReferenceKind::Directory { RemoteUse::Directory } else { RemoteUse::File };
    library.fetch(url, needed).map_err(|error| problems.push(not_fetched(field, &error, at))).ok()
}

pub fn local(
    library: &Library,
    path: &LocalPath,
    at: Span,
    field: &str,
    kind: ReferenceKind,
    problems: &mut Vec<Diagnostic>,
) -> Option<LayerPath> {
    let found = match library.find(path, at, field) {
        Ok(found) => found,
        Err(problem) => {
            problems.push(*problem);
            return None;
        }
    };
    match wrong_kind(library, &found, kind) {
        None => Some(found),
        Some((why, help)) => {
            let shown = library.layers.layer(&found).shown(&found.path);
            let problem =
                Diagnostic::error("wrong-file", at, format!("`{field}` names `{shown}`, which {why}"));
            problems.push(match help {
                Some(help) => problem.help(format!("{help} {shown}")),
                None => problem,
            });
            None
        }
    }
}

/// A script without the run bit is started by the interpreter in its first line.
fn has_interpreter(library: &Library, found: &LayerPath) -> bool {
    library.layers.host_path(found).is_some_and(|path| shebang::of(&path).is_some())
}

fn wrong_kind(
    library: &Library,
    found: &LayerPath,
    kind: ReferenceKind,
) -> Option<(String, Option<&'static str>)> {
    match library.layers.layer(found).metadata(&found.path) {
        Err(error) => Some((error.to_string(), None)),
        Ok(about) => match kind {
            ReferenceKind::Directory if !about.is_directory => Some(("is not a directory".to_owned(), None)),
            ReferenceKind::File | ReferenceKind::Program if about.is_directory => {
                Some(("is a directory, and a file is needed".to_owned(), None))
            }
            ReferenceKind::File | ReferenceKind::Program if !about.is_file => {
                Some(("is not a regular file".to_owned(), None))
            }
            ReferenceKind::Program if !about.is_executable && !has_interpreter(library, found) => {
                Some(("is not executable and has no `#!` line".to_owned(), Some("run: chmod +x")))
            }
            _ => None,
        },
    }
}

/// The file of a provider given by name or by path.
pub fn provider(
    library: &Library,
    harness: &Harness,
    provider: &Spanned<ProviderRef>,
    problems: &mut Vec<Diagnostic>,
) -> Option<LayerPath> {
    match &provider.value {
        ProviderRef::File(file) => {
            let file = Spanned { value: file.clone(), at: provider.at };
            remote_or_local(library, harness, &file, "providers", ReferenceKind::File, problems)
        }
        ProviderRef::Name(name) => {
            let path = LocalPath::parse(&format!("providers/{name}.yaml")).ok()?;
            local(library, &path, provider.at, "providers", ReferenceKind::File, problems)
        }
    }
}
