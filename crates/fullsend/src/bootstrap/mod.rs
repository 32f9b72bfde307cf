//! Fills the staging directories, which appear read-only inside: the agent's definition, its skills and plugins. Nothing is
//! mounted here, and nothing inside can change what it finds. A `Ready` can only be made here.

pub(crate) mod scan_inside;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};

use crate::backend::openshell::OpenshellError;
use crate::cancel::Cancel;
use crate::check::agent::SkillFile;
use crate::guard::{Blocked, Guard};
use crate::provision::Provisioned;
use crate::resolve::layers::LayerPath;
use crate::resolve::library::Library;
use crate::runtime::{self, LaunchContext, paths};

/// A sandbox with everything in it that the agent needs.
pub struct Ready {
    pub provisioned: Provisioned,
    repository: String,
}

impl Ready {
    /// The repository's directory inside.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Where an agent can be started.
    pub fn launch_context<'a>(&'a self, guard: &'a Guard, cancel: &'a Cancel) -> LaunchContext<'a> {
        let Provisioned { inputs, sandbox, program, variables, .. } = &self.provisioned;
        let program = program.as_ref();
        LaunchContext { inputs, sandbox, guard, cancel, program, variables, repository: &self.repository }
    }
}

/// The most bytes that one skill or plugin may have.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: u64 = 50 << 20;
/// Directories included.
const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: usize = 100;

#[derive(Debug)]
pub enum BootstrapError {
    Write {
        path: PathBuf,
        source: io::Error,
    },
    Skill {
        name: String,
        why: String,
    },
    Plugin {
        name: String,
        why: String,
    },
    /// The guard refused the assembled files.
    Blocked(Blocked),
    /// The gateway that has the sandbox failed.
    Openshell(OpenshellError),
}

impl std::fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Self::Skill { name, why } => write!(f, "the skill `{name}` {why}"),
            Self::Plugin { name, why } => write!(f, "the plugin `{name}` {why}"),
            Self::Blocked(blocked) => blocked.fmt(f),
            Self::Openshell(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BootstrapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Openshell(error) => Some(error),
            Self::Skill { .. } | Self::Plugin { .. } | Self::Blocked(_) => None,
        }
    }
}

pub fn bootstrap(
    provisioned: Provisioned,
    library: &Library,
    guard: &Guard,
) -> Result<Ready, BootstrapError> {
    let checked = provisioned.inputs.checked();
    let agents = provisioned.staging.join("config/agents");
    let definition = agents.join(format!("{}.md", checked.agent.name));
    write(&definition, library.text(checked.agent.source).as_bytes())?;
    for skill in &checked.skills {
        copy_skill(library, skill, &provisioned.staging.join("config/skills").join(&skill.name))?;
    }
    for plugin in &checked.plugins {
        let into = provisioned.staging.join("config/plugins").join(&plugin.name);
        copy_whole(library, &plugin.found, &into)
            .map_err(|why| BootstrapError::Plugin { name: plugin.name.clone(), why })?;
    }
    for skill in provisioned.inputs.repo_skills() {
        let into = provisioned.staging.join("config/skills").join(&skill.name);
        let wrong = |why: io::Error| BootstrapError::Skill { name: skill.name.clone(), why: why.to_string() };
        copy_directory(&skill.directory, &into).map_err(wrong)?;
    }
    let repository = format!("{}/{}", paths::WORKSPACE, provisioned.repository_name);
    let harness = &checked.resolved.harness;
    let config = runtime::of(harness.runtime.value).config_directory;
    let inside = scan_inside::ScanTargets {
        config,
        repository: &repository,
        paths_to_scan: &provisioned.paths_to_scan,
    };
    provisioned.sandbox.deliver().map_err(BootstrapError::Openshell)?;
    let scanned = scan_inside::scan(&provisioned.sandbox, guard, &harness.security.host_scanners, &inside);
    // A scan that gave no answer does not show that the files are clean.
    if let Some(lost) = provisioned.sandbox.lost() {
        return Err(BootstrapError::Openshell(lost));
    }
    scanned.map_err(BootstrapError::Blocked)?;
    Ok(Ready { provisioned, repository })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BootstrapError> {
    let failed = |source| BootstrapError::Write { path: path.to_owned(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    std::fs::write(path, bytes).map_err(failed)
}

/// Copies the directory, then applies its overrides: files replaced or removed.
fn copy_skill(library: &Library, skill: &SkillFile, into: &Path) -> Result<(), BootstrapError> {
    let wrong = |why: String| BootstrapError::Skill { name: skill.name.clone(), why };
    copy_whole(library, &skill.found, into).map_err(wrong)?;
    for (path, replacement) in &skill.overrides {
        let target = into.join(path.as_str());
        match replacement {
            Some(found) => {
                let text = library
                    .layers
                    .layer(found)
                    .read(&found.path)
                    .map_err(|error| wrong(error.to_string()))?;
                write(&target, text.as_bytes())?;
            }
            None => std::fs::remove_file(&target)
                .map_err(|error| wrong(format!("has no `{}` to remove: {error}", path.as_str())))?,
        }
    }
    Ok(())
}

fn copy_whole(library: &Library, found: &LayerPath, into: &Path) -> Result<(), String> {
    let from = library.layers.host_path(found).ok_or_else(|| "is not on disk".to_owned())?;
    copy_directory(&from, into).map_err(|why| why.to_string())
}

/// Regular files and directories only: a link in a skill or a plugin could point anywhere.
fn copy_directory(from: &Path, into: &Path) -> io::Result<()> {
    std::fs::create_dir_all(into)?;
    let mut files = 0;
    let mut bytes = 0;
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
    let copied = walk_directory(from, limits, &mut |entry: &TreeEntry<'_>| {
        let target = into.join(entry.path);
        match entry.kind {
            FileType::Directory => std::fs::create_dir_all(target)?,
            FileType::RegularFile => {
                let mut file = std::fs::File::from(entry.open()?);
                let permissions = file.metadata()?.permissions();
                let mut copy = std::fs::File::create_new(target)?;
                files += 1;
                bytes += io::copy(&mut (&mut file).take(MAX_BYTES - bytes + 1), &mut copy)?;
                if files > MAX_FILES || bytes > MAX_BYTES {
                    return Err(io::Error::other(TOO_LARGE));
                }
                copy.set_permissions(permissions)?;
            }
            _ => {
                let path = from.join(entry.path);
                return Err(io::Error::other(format!("has a link or special file: {}", path.display())));
            }
        }
        Ok(Descend::Yes)
    });
    copied.map_err(|error| match error {
        WalkError::TooManyEntries { .. } => io::Error::other(TOO_LARGE),
        error => error.into_io(),
    })
}

const TOO_LARGE: &str = "is too large: there are more than 1,000 files or 50 MB in it";
