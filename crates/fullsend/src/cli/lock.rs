//! `fullsend lock`: writes the digests of every remote resource and image that harnesses use, for `--locked`, and of the
//! tools of MCP servers as a run saw them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use yaml::Diagnostic;

use super::configuration::{Configuration, ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use super::pull_options::{PullOptions, pull_image, store_directory};
use crate::check;
use crate::event::InputKind;
use crate::harness::image::ImageName;
use crate::harness::names::ForgeName;
use crate::provision::image;
use crate::registry::ImageStore;
use crate::remote::lock::{self, HarnessLock};
use crate::resolve::layers::LayerKind;
use crate::resolve::{Choices, lock_file, resolve};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Harnesses to lock; entries of others stay unchanged [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Update the entries of this harness, and resolve the tags of its images again
    #[arg(long, value_name = "NAME", conflicts_with = "names")]
    update: Vec<String>,
    /// Also lock the tools of MCP servers as this run saw them: an id, the first characters of one, or `latest`
    #[arg(long, value_name = "RUN")]
    tools: Option<String>,
    #[command(flatten)]
    pull: PullOptions,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    opened.choices.pull = arguments.pull.mode();
    let path = path(&opened)?;
    let mut problems = Vec::new();
    let old: Vec<HarnessLock> =
        lock_file(&mut opened.library, &mut problems).iter().flat_map(lock::LockFile::harnesses).collect();
    let all = opened.library.layers.names("harness");
    let seen = arguments.tools.as_deref().map(tools_of).transpose()?;
    let named = if arguments.update.is_empty() { &arguments.names } else { &arguments.update };
    let chosen = if named.is_empty() { &all } else { named };
    let mut locked = Vec::new();
    for name in chosen {
        let kept = old.iter().find(|old| old.name == *name && !arguments.update.contains(name));
        let mut one = lock_one(&mut opened, name, kept, arguments, &mut problems)?;
        let earlier = || old.iter().find(|old| old.name == *name).map(|old| old.tools.clone());
        one.tools = match &seen {
            Some((harness, tools)) if harness == name => tools.clone(),
            _ => earlier().unwrap_or_default(),
        };
        locked.push(one);
    }
    if let Some((harness, _)) = seen.filter(|(harness, _)| !chosen.contains(harness)) {
        let message = format!("the run is one of the harness `{harness}`, which is not locked here");
        return Err(Failure::new(Exit::Usage, message)
            .help(format!("name it: `fullsend lock {harness} --tools RUN`")));
    }
    super::check::show(&opened.library.sources, &problems);
    if problems.iter().any(Diagnostic::is_error) {
        return Ok(super::check::verdict(&problems));
    }
    for used in &locked {
        let count =
            |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let resources = count(used.resources.len(), "resource");
        let images = count(used.images.len(), "image");
        let tools = match used.tools.len() {
            0 => String::new(),
            number => format!(", {}", count(number, "tool")),
        };
        super::write_stderr(&format!("{}: {resources}, {images}{tools}\n", used.name));
    }
    let is_other = |old: &&HarnessLock| all.contains(&old.name) && !chosen.contains(&old.name);
    locked.extend(old.iter().filter(is_other).cloned());
    locked.retain(|used| !used.resources.is_empty() || !used.images.is_empty() || !used.tools.is_empty());
    locked.sort_by(|one, other| one.name.cmp(&other.name));
    write(&path, &lock::text(&locked))?;
    super::write_stderr(&format!("wrote {}\n", path.display()));
    Ok(Exit::Done)
}

/// In the repository's own directory of configuration.
fn path(opened: &Configuration) -> Result<PathBuf, Failure> {
    if opened.is_of_a_commit() {
        let message =
            "cannot write fullsend.lock: the configuration is read from a commit, not from the files on disk";
        return Err(Failure::new(Exit::Usage, message).help("use --config-ref worktree"));
    }
    let layer = opened.library.layers.get(LayerKind::Repository).and_then(|layer| layer.path());
    let layer = layer.ok_or_else(|| {
        Failure::new(Exit::Invalid, "there is no .fullsend directory")
            .help("run `fullsend init` to create one")
    })?;
    Ok(layer.join(lock::FILE_NAME))
}

/// A file has its name only when it is whole.
fn write(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        Failure::new(Exit::Missing, format!("cannot write {}: {error}", path.display()))
    };
    let directory = path.parent().unwrap_or(path);
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(|error| failed(&error))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| failed(&error))?;
    file.persist(path).map(drop).map_err(|error| failed(&error.error))
}

/// The harness of a run, and the tools of MCP servers that it saw, with their digests.
fn tools_of(run: &str) -> Result<(String, Vec<(String, String)>), Failure> {
    let found = super::runs::find(&super::run::runs_directory()?, run)?;
    let record = found.record().map_err(|error| Failure::new(Exit::Missing, error.to_string()))?;
    let tools = record.inputs.into_iter().filter(|input| input.kind == InputKind::Tool);
    // A tool that changed during the run counts as it was last.
    let tools: BTreeMap<String, String> = tools.map(|input| (input.name, input.sha256)).collect();
    if tools.is_empty() {
        let message = format!("the run {} saw no tool of an MCP server", found.id);
        return Err(Failure::new(Exit::Missing, message)
            .help("run the harness once with its `mcp_servers`, then lock what it saw"));
    }
    Ok((record.harness, tools.into_iter().collect()))
}

/// What a harness uses on any forge.
fn lock_one(
    opened: &mut Configuration,
    name: &str,
    kept: Option<&HarnessLock>,
    arguments: &Arguments,
    problems: &mut Vec<Diagnostic>,
) -> Result<HarnessLock, Failure> {
    let mut images = BTreeSet::new();
    opened.library.remote.take_used();
    for forge in forges(opened.choices.forge) {
        let choices = Choices { forge, ..opened.choices.clone() };
        let mut found = Vec::new();
        let resolved = resolve(&mut opened.library, name, &choices, &mut found);
        // The harness has values for other forges only.
        if found.iter().any(|problem| problem.code == "no-forge-block") {
            continue;
        }
        if let Some(resolved) = resolved {
            images.extend(image::registry_name(&resolved, &opened.library, &variable));
            check::check(&mut opened.library, resolved, &mut found);
        }
        found.retain(Diagnostic::is_error);
        problems.extend(found);
    }
    let resources = opened.library.remote.take_used();
    let mut used = HarnessLock { name: name.to_owned(), resources, ..HarnessLock::default() };
    for image in images {
        let locked = kept.and_then(|kept| kept.image(&image.to_string()));
        let digest = match locked {
            Some(digest) => digest.to_owned(),
            None => digest_of(&image, arguments)?,
        };
        used.images.push((image.to_string(), digest));
    }
    Ok(used)
}

fn forges(chosen: Option<ForgeName>) -> Vec<Option<ForgeName>> {
    match chosen {
        Some(forge) => vec![Some(forge)],
        None => {
            [None].into_iter().chain(ForgeName::WORDS.iter().map(|word| ForgeName::parse(word))).collect()
        }
    }
}

/// Pulls the image, and pulls it again by its digest, so that `--locked --offline` finds it.
fn digest_of(image: &ImageName, arguments: &Arguments) -> Result<String, Failure> {
    // A tag that was pulled some time ago may mean another image now.
    pull_image(image, &arguments.pull.or_always(), &arguments.place)?;
    let store = store_directory()?;
    let pulled = ImageStore::at(&store).find(image);
    let digest = pulled.map(|(image, _)| image.sha256).unwrap_or_default();
    let exact = ImageName { sha256: Some(digest.clone()), ..image.clone() };
    pull_image(&exact, &arguments.pull, &arguments.place)?;
    Ok(digest)
}
