//! From the command line and the environment to the layers: which repository, whose organisation, which forge, and
//! from which commit the repository's own layer is read.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use yaml::{Decoder, ParseLimits, Shape, Sources};

use super::exit::{Exit, Failure};
use super::original_options::image_value;
use super::registries;
use super::trusted_base;
use crate::event::clock::Moment;
use crate::guard::weights_file::{self, WeightsSearch};
use crate::harness::config::Config;
use crate::harness::names::ForgeName;
use crate::remote::RemoteResources;
use crate::resolve::Choices;
use crate::resolve::layers::{Layer, LayerKind, Layers};
use crate::resolve::library::Library;
use crate::resolve::trusted::{self, TrustedError};

/// Options that every command about harnesses has.
#[derive(Args, Debug, Clone, Default)]
pub struct ConfigurationOptions {
    /// The repository, or a directory in it [default: the current directory]
    #[arg(long, value_name = "DIR", alias = "target-repo")]
    pub repo: Option<PathBuf>,
    /// The directory with `harness/` and `agents/` [default: .fullsend in the repository]
    #[arg(long, value_name = "DIR")]
    pub fullsend_dir: Option<PathBuf>,
    /// The organisation's directory [default: FULLSEND_ORG_DIR, or `org:` in the repository's config.yaml]
    #[arg(long, value_name = "DIR")]
    pub org_dir: Option<PathBuf>,
    /// Read the repository's .fullsend from this commit; `worktree` means the files as they are [default in CI: the base
    /// of the pull request]
    #[arg(long, value_name = "REF")]
    pub config_ref: Option<String>,
    /// Use the values for this forge [default: detected from the CI]
    #[arg(long, value_name = "FORGE", value_parser = parse_forge)]
    pub forge: Option<ForgeName>,
}

fn parse_forge(word: &str) -> Result<ForgeName, String> {
    ForgeName::parse(word).ok_or_else(|| format!("one of {}", ForgeName::WORDS.join(", ")))
}

/// The opened configuration.
pub struct Configuration {
    pub library: Library,
    pub choices: Choices,
    pub repository: PathBuf,
    _trusted: Option<Trusted>,
}

/// A commit whose files decide, and where they are laid out; removed when dropped.
struct Trusted {
    /// As it was named.
    reference: String,
    commit: String,
    /// The root of the repository that has the commit.
    top: PathBuf,
    place: tempfile::TempDir,
}

/// A variable of the host's environment, if it is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path of the learned scanner's weights, for commands without a harness.
pub fn installed_weights() -> WeightsSearch {
    weights_file::find(&variable)
}

/// A directory of the XDG specification, which says that a relative path is ignored.
pub fn xdg_directory(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

impl Configuration {
    /// Whether the files of the repository are those of a commit, not those on disk.
    pub fn is_of_a_commit(&self) -> bool {
        self._trusted.is_some()
    }

    /// The layers, the choices, the repository, and what must live as long as the layers are read.
    pub fn into_parts(self) -> (Library, Choices, PathBuf, Box<dyn std::any::Any>) {
        (self.library, self.choices, self.repository, Box::new(self._trusted))
    }
}

impl ConfigurationOptions {
    pub fn open(&self) -> Result<Configuration, Failure> {
        let (repository, trusted) = self.locate()?;
        let forge = self.forge.or_else(detect_forge);
        let own = match &self.fullsend_dir {
            Some(path) => Some(named_layer(path, trusted.as_ref())?),
            None => own_layer(&repository, trusted.as_ref())?,
        };
        let organisation = self.organisation_layer(&repository, own.as_ref(), trusted.as_ref())?;
        let layers = Layers::new([organisation, own].into_iter().flatten().collect());
        let repo = repository_name(&repository);
        let today = Moment::now().date();
        let command_line = variable("FULLSEND_SANDBOX_IMAGE").iter().map(|name| image_value(name)).collect();
        let registries = registries::of_host();
        let choices = Choices { forge, repo, today, registries, command_line, ..Choices::default() };
        let library = Library::new(layers).with_remote(RemoteResources::new(variable));
        Ok(Configuration { library, choices, repository, _trusted: trusted })
    }

    pub fn repository(&self) -> Result<PathBuf, Failure> {
        self.locate().map(|(repository, _)| repository)
    }

    /// The repository around the place that the caller names or is in, and the commit that decides about it.
    fn locate(&self) -> Result<(PathBuf, Option<Trusted>), Failure> {
        let start = self.start()?;
        let mut repositories = start.ancestors().filter(|path| path.join(".git").exists());
        // What a CI says of its base is about the repository that it checked out. A pull request chooses the submodules.
        let top = if detect_forge().is_some() { repositories.last() } else { repositories.next() };
        if let Some(trusted) = self.trusted(top)? {
            let repository = trusted.repository(&start)?;
            return Ok((repository, Some(trusted)));
        }
        let mut above = start.ancestors();
        let root = match top {
            None if self.repo.is_some() => None,
            _ => above.find(|path| path.join(".fullsend").is_dir() || path.join(".git").exists()),
        };
        Ok((root.unwrap_or(&start).to_owned(), None))
    }

    fn start(&self) -> Result<PathBuf, Failure> {
        if let Some(given) = &self.repo {
            return given.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
                Failure::new(Exit::Missing, format!("{} is not a directory", given.display()))
                    .help("give --repo a repository or a directory in it")
            });
        }
        std::env::current_dir().map_err(|error| {
            Failure::new(Exit::Missing, format!("the current directory cannot be used: {error}"))
        })
    }

    /// The commit that the repository's own layer is read from, if not the files as they are, and a place for its files.
    fn trusted(&self, top: Option<&Path>) -> Result<Option<Trusted>, Failure> {
        let reference = match &self.config_ref {
            Some(given) if given == "worktree" => None,
            Some(given) => Some(given.clone()),
            None => match detect_forge() {
                Some(forge) => trusted_base::reference(forge, &variable, top.is_some())?,
                None => {
                    // What git cannot read may be anything.
                    let may_be = || {
                        top.is_some_and(|top| {
                            !self.is_configured_outside(top)
                                && trusted::may_be_pull_request(top).unwrap_or(true)
                        })
                    };
                    trusted_base::refuse_other_ci(&variable, may_be).map(|()| None)?
                }
            },
        };
        let Some(reference) = reference else { return Ok(None) };
        let top = top.map_or_else(|| self.start(), |top| Ok(top.to_owned()))?;
        let commit = trusted::commit(&top, &reference).map_err(|error| unread(&error, &reference))?;
        let place = tempfile::Builder::new().prefix("fullsend-config-").tempdir();
        let place =
            place.map_err(|error| Failure::new(Exit::Missing, format!("no temporary directory: {error}")))?;
        Ok(Some(Trusted { reference, commit, top, place }))
    }

    /// Whether the caller names a configuration that no pull request of this repository brings.
    fn is_configured_outside(&self, repository: &Path) -> bool {
        let directory = self.fullsend_dir.as_ref().and_then(|path| path.canonicalize().ok());
        let repository = repository.canonicalize().ok();
        directory.zip(repository).is_some_and(|(directory, repository)| !directory.starts_with(repository))
    }

    fn organisation_layer(
        &self,
        repository: &Path,
        own: Option<&Layer>,
        trusted: Option<&Trusted>,
    ) -> Result<Option<Layer>, Failure> {
        let given = self.org_dir.clone().or_else(|| variable("FULLSEND_ORG_DIR").map(PathBuf::from));
        let path = match given {
            Some(path) => path,
            None => match configured_organisation(own) {
                Some(text) if text.contains("://") => {
                    return Err(Failure::new(
                        Exit::Invalid,
                        format!("`org` is the URL {text}, which fullsend cannot fetch yet"),
                    )
                    .help("check the organisation's repository out and give its path"));
                }
                Some(text) => repository.join(text),
                None => return Ok(None),
            },
        };
        let named = "the organisation's directory";
        let (path, prefix) = match trusted.map(|trusted| trusted.directory(named, &path)).transpose()? {
            Some(Some((place, shown))) => (place, Some(shown)),
            _ => (path, None),
        };
        organisation_at(path, prefix).map(Some)
    }
}

/// The organisation's layer alone, if the caller named it. The `org:` of a scanned tree does not count.
pub fn named_organisation(given: Option<&Path>) -> Result<Option<Library>, Failure> {
    let given = given.map(Path::to_owned).or_else(|| variable("FULLSEND_ORG_DIR").map(PathBuf::from));
    let layer = given.map(|path| organisation_at(path, None)).transpose()?;
    Ok(layer.map(|layer| Library::new(Layers::new(vec![layer]))))
}

/// The layer at a path, or in its `.fullsend`; `prefix` is what is shown in place of the path.
fn organisation_at(path: PathBuf, prefix: Option<String>) -> Result<Layer, Failure> {
    let nested = path.join(".fullsend");
    let (root, below) = if nested.is_dir() { (nested, "/.fullsend") } else { (path, "") };
    let shown =
        prefix.map_or_else(|| root.to_string_lossy().into_owned(), |prefix| format!("{prefix}{below}"));
    layer(LayerKind::Organisation, &root, shown)?.ok_or_else(|| {
        let message = format!("the organisation's directory {} does not exist", root.display());
        Failure::new(Exit::Missing, message)
            .help("check it out first, or correct --org-dir, FULLSEND_ORG_DIR or `org:`")
    })
}

/// The repository's own layer: the files as they are, or as they are at a trusted commit.
fn own_layer(repository: &Path, trusted: Option<&Trusted>) -> Result<Option<Layer>, Failure> {
    match trusted {
        None => layer(LayerKind::Repository, &repository.join(".fullsend"), shown(repository, ".fullsend")),
        Some(trusted) => {
            let directory = trusted.layer_of(repository);
            trusted.checkout(&directory)?;
            let shown = format!("{}:{directory}", trusted.reference);
            layer(LayerKind::Repository, &trusted.place.path().join(directory), shown)
        }
    }
}

/// The directory that the command line names in place of the repository's own layer.
fn named_layer(path: &Path, trusted: Option<&Trusted>) -> Result<Layer, Failure> {
    let named = "the directory of --fullsend-dir,";
    let at_commit = trusted.map(|trusted| trusted.directory(named, path)).transpose()?.flatten();
    let as_it_is = || (path.to_owned(), path.to_string_lossy().trim_end_matches('/').to_owned());
    let (place, shown) = at_commit.unwrap_or_else(as_it_is);
    layer(LayerKind::Repository, &place, shown)?.ok_or_else(|| {
        Failure::new(Exit::Missing, format!("{} does not exist", path.display()))
            .help("give --fullsend-dir the directory that holds `harness/`")
    })
}

impl Trusted {
    /// The nearest directory above `start` with its own layer at the commit: a layer that a pull request adds does not
    /// count.
    fn repository(&self, start: &Path) -> Result<PathBuf, Failure> {
        for directory in start.ancestors().take_while(|path| path.starts_with(&self.top)) {
            let layer = self.layer_of(directory);
            let found = trusted::has(&self.top, &self.commit, &layer);
            if found.map_err(|error| unread(&error, &self.reference))? {
                return Ok(directory.to_owned());
            }
        }
        Ok(self.top.clone())
    }

    /// The path of a directory's layer, from the root of the repository.
    fn layer_of(&self, directory: &Path) -> String {
        let below = directory.strip_prefix(&self.top).unwrap_or(Path::new(""));
        below.join(".fullsend").to_string_lossy().into_owned()
    }

    /// Writes a directory of the commit to disk. Returns whether the commit has it.
    fn checkout(&self, directory: &str) -> Result<bool, Failure> {
        trusted::checkout(&self.top, &self.commit, directory, self.place.path())
            .map_err(|error| unread(&error, &self.reference))
    }

    /// A directory of configuration, where it is a part of the repository, as it is at the commit. A directory that git
    /// does not track belongs to the caller and is used as it is. `named` is its name in messages.
    fn directory(&self, named: &str, path: &Path) -> Result<Option<(PathBuf, String)>, Failure> {
        let Some(directory) = inside(&self.top, path) else { return Ok(None) };
        if self.checkout(&directory)? {
            let shown = format!("{}:{directory}", self.reference);
            return Ok(Some((self.place.path().join(&directory), shown)));
        }
        let missing = |message: String| Failure::new(Exit::Missing, message);
        match trusted::is_tracked(&self.top, &directory) {
            Ok(false) => Ok(None),
            Ok(true) => Err(missing(format!("{named} {directory} is not in `{}`", self.reference))
                .help("a directory that a pull request adds is not used: merge it first")),
            Err(error) => Err(missing(error.to_string())),
        }
    }
}

fn unread(error: &TrustedError, reference: &str) -> Failure {
    Failure::new(Exit::Missing, error.to_string()).help(format!(
        "the repository's .fullsend is read from `{reference}`, not from the pull request: fetch that commit first (git fetch origin), or name another with --config-ref"
    ))
}

/// The path relative to the repository, if it is below it as written. Links are not resolved.
fn inside(repository: &Path, path: &Path) -> Option<String> {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    let below = plain.strip_prefix(repository).ok()?.to_str()?.to_owned();
    (!below.is_empty()).then_some(below)
}

fn layer(kind: LayerKind, path: &Path, shown: String) -> Result<Option<Layer>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    Layer::directory(kind, path, shown).map(Some).map_err(|error| {
        Failure::new(Exit::Invalid, format!("{} cannot be used as a layer: {error}", path.display()))
    })
}

/// The shortest form of a path from the current directory.
fn shown(repository: &Path, path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    match repository.strip_prefix(&here) {
        Ok(below) => below.join(path).to_string_lossy().into_owned(),
        Err(_) => repository.join(path).to_string_lossy().into_owned(),
    }
}

/// `org:` of the repository's config.yaml. Errors in that file are reported when it is resolved.
fn configured_organisation(own: Option<&Layer>) -> Option<String> {
    let mut sources = Sources::default();
    let found = own?.find("config.yaml")?;
    let id = sources.add("config.yaml", own?.read(&found.path).ok()?);
    let tree = yaml::parse(&sources, id, ParseLimits::default()).ok()?;
    Config::decode(&tree, &mut Decoder::part())?.org.map(|org| org.value)
}

fn detect_forge() -> Option<ForgeName> {
    if variable("GITHUB_ACTIONS").as_deref() == Some("true") {
        return Some(ForgeName::Github);
    }
    (variable("GITLAB_CI").as_deref() == Some("true")).then_some(ForgeName::Gitlab)
}

/// `owner/name`, from CI or from the address of the remote.
pub fn repository_name(repository: &Path) -> Option<String> {
    let from_ci = variable("GITHUB_REPOSITORY").or_else(|| variable("CI_PROJECT_PATH"));
    from_ci.or_else(|| {
        let config = std::fs::read_to_string(repository.join(".git/config")).ok()?;
        let section = config.split("[remote \"origin\"]").nth(1)?;
        let url = section.lines().find_map(|line| line.trim().strip_prefix("url = "))?;
        name_in_url(url)
    })
}

/// The owner in the address of the remote.
pub fn remote_owner(repository: &Path) -> Option<String> {
    repository_name(repository)?.split_once('/').map(|(owner, _)| owner.to_owned())
}

fn name_in_url(url: &str) -> Option<String> {
    let path = url.trim().trim_end_matches('/').trim_end_matches(".git");
    let mut parts = path.rsplit(['/', ':']);
    let name = parts.next()?;
    let owner = parts.next()?;
    (!name.is_empty() && !owner.is_empty()).then(|| format!("{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::name_in_url;

    #[test]
    fn the_owner_and_name_are_in_the_address() {
        for url in
            ["https://example.com/acme/widgets.git", "git@example.com:acme/widgets", "ssh://x/acme/widgets/"]
        {
            assert_eq!(name_in_url(url).as_deref(), Some("acme/widgets"));
        }
    }
}
