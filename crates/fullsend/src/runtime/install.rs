//! Installs the program of a runtime into the cache, with the ordinary npm client, so that mirrors, proxies and `.npmrc`
//! work. Only the package of this platform, without its scripts, at the tested version unless another one in range is named.
//! Its digest must be the known one, and it must run. Reads no environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

use super::contract::Runtime;
use super::package::{Package, Version};
use super::programs::{self, Program};
use crate::cancel::Cancel;
use crate::scripts::{self, Script, ScriptError, ScriptExit};

/// For a few hundred megabytes on a slow line.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// A program in the cache.
#[derive(Debug)]
pub struct Installed {
    pub program: Program,
    /// Whether it had to be fetched.
    pub fetched: bool,
    /// Whether its digest is the known one, or only the registry's.
    pub pinned: bool,
}

#[derive(Debug)]
pub enum InstallError {
    OwnProgram(&'static Runtime),
    OutOfRange { version: Version, package: &'static Package },
    NoCache,
    NoNpm,
    Npm(ScriptError),
    Unreachable { message: String },
    NoSuchVersion { package: &'static Package, version: Version },
    Refused { message: String },
    Altered { expected: &'static str, found: String },
    Incomplete { spec: String },
    Other { path: PathBuf, says: Option<Version>, wanted: Version },
    Place { path: PathBuf, source: std::io::Error },
}

impl std::fmt::Display for InstallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OwnProgram(runtime) => write!(f, "the runtime `{}` is built in", runtime.name),
            Self::OutOfRange { version, package } => {
                write!(f, "version {version} of `{}` is not supported", package.command)
            }
            Self::NoCache => f.write_str("neither XDG_CACHE_HOME nor HOME is set"),
            Self::NoNpm => f.write_str("there is no `npm` on the PATH"),
            Self::Npm(error) => error.fmt(f),
            Self::Unreachable { message } => write!(f, "npm could not reach its registry: {message}"),
            Self::NoSuchVersion { package, version } => {
                write!(f, "the registry has no version {version} of `{}` for this platform", package.command)
            }
            Self::Refused { message } => write!(f, "npm failed: {message}"),
            Self::Altered { expected, found } => {
                write!(f, "the package from the registry is not the tested one: {found}, not {expected}")
            }
            Self::Incomplete { spec } => write!(f, "the package {spec} does not contain the program"),
            Self::Other { path, says, wanted } => match says {
                Some(version) => write!(f, "{} says that it is {version}, not {wanted}", path.display()),
                None => write!(f, "{} does not run on this machine", path.display()),
            },
            Self::Place { path, source } => write!(f, "cannot write {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Npm(error) => Some(error),
            Self::Place { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl InstallError {
    pub fn help(&self) -> String {
        match self {
            Self::OwnProgram(_) => "there is nothing to install: write `runtime: native`".to_owned(),
            Self::OutOfRange { package, .. } | Self::NoSuchVersion { package, .. } => {
                let tested = package.tested;
                let below = package.below;
                format!(
                    "leave `--version` out for {tested}, or name one from there up to, not including, {below}"
                )
            }
            Self::NoCache | Self::Place { .. } => "set XDG_CACHE_HOME to a directory that you own".to_owned(),
            Self::NoNpm => {
                "install npm (it comes with Node.js), or put the program itself on the PATH".to_owned()
            }
            Self::Unreachable { .. } => {
                "check the network, or name a mirror: `npm config set registry URL`".to_owned()
            }
            Self::Npm(_) | Self::Refused { .. } => {
                "try the same with npm itself to see all it says".to_owned()
            }
            Self::Altered { .. } => {
                "nothing was installed; ask the operator of the registry or mirror".to_owned()
            }
            Self::Incomplete { .. } | Self::Other { .. } => {
                "nothing was installed; leave out `--version` to get the tested version".to_owned()
            }
        }
    }
}

/// Installs the program unless the cache has it.
pub fn install(
    runtime: &'static Runtime,
    version: Option<Version>,
    cache: Option<&Path>,
    environment: &BTreeMap<String, String>,
) -> Result<Installed, InstallError> {
    let package = runtime.program.as_ref().ok_or(InstallError::OwnProgram(runtime))?;
    let version = version.unwrap_or(package.tested);
    if !programs::accepts(package, version) {
        return Err(InstallError::OutOfRange { version, package });
    }
    let cache = cache.ok_or(InstallError::NoCache)?;
    let pin = pin(package, version);
    let done = |program, fetched| Installed { program, fetched, pinned: pin.is_some() };
    let place = programs::cache_directory(cache, runtime.name, version);
    if let Some(program) = programs::installed(package, &place, version) {
        return Ok(done(program, false));
    }
    fetch(package, version, pin, &place, environment)?;
    let program = programs::installed(package, &place, version);
    let incomplete = || InstallError::Incomplete { spec: programs::fill(package.spec, version) };
    program.ok_or_else(incomplete).map(|program| done(program, true))
}

fn pin(package: &Package, version: Version) -> Option<&'static str> {
    let arch = programs::fill("{arch}", version);
    let known =
        package.integrity.iter().find(|(name, _)| *name == arch).filter(|_| version == package.tested);
    known.map(|(_, integrity)| *integrity)
}

/// Installs into a scratch directory, and renames it when everything is right.
fn fetch(
    package: &'static Package,
    version: Version,
    pin: Option<&'static str>,
    place: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<(), InstallError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError::Place { path, source }
    };
    let parent = place.parent().unwrap_or(place);
    std::fs::create_dir_all(parent).map_err(failed(parent))?;
    let scratch = tempfile::Builder::new().prefix(".new-").tempdir_in(parent).map_err(failed(parent))?;
    run_npm(package, version, scratch.path(), environment)?;
    if let Some(expected) = pin {
        let found = integrity(scratch.path(), package, version);
        if found.as_deref() != Some(expected) {
            let found = found.unwrap_or_else(|| "nothing that can be checked".to_owned());
            return Err(InstallError::Altered { expected, found });
        }
    }
    let spec = programs::fill(package.spec, version);
    let program =
        programs::installed(package, scratch.path(), version).ok_or(InstallError::Incomplete { spec })?;
    let path = program.directory.join(&program.executable);
    let says = programs::version_of(&path);
    if says != Some(version) {
        return Err(InstallError::Other { path, says, wanted: version });
    }
    // The existing directory is an incomplete installation.
    if place.exists() {
        std::fs::remove_dir_all(place).map_err(failed(place))?;
    }
    std::fs::rename(scratch.path(), place).map_err(failed(place))
}

fn run_npm(
    package: &'static Package,
    version: Version,
    directory: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<(), InstallError> {
    let path = environment.get("PATH").map(String::as_str).unwrap_or_default();
    let npm = programs::on_path("npm", path).ok_or(InstallError::NoNpm)?;
    let spec = programs::fill(package.spec, version);
    let words = ["install", "--prefix", ".", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    let mut arguments: Vec<String> = words.map(str::to_owned).to_vec();
    arguments.extend(["--loglevel=error".to_owned(), spec]);
    let script = Script {
        program: &npm,
        arguments: &arguments,
        working_directory: directory,
        environment: environment.clone(),
        time: TIMEOUT,
        cancel: &Cancel::default(),
    };
    let ended = scripts::run(&script).map_err(InstallError::Npm)?;
    if ended.status.success() { Ok(()) } else { Err(complaint(&ended, package, version)) }
}

/// Reads npm's error. It prints its error code on a line of its own.
fn complaint(ended: &ScriptExit, package: &'static Package, version: Version) -> InstallError {
    let lines: Vec<&str> = ended.output.lines().filter_map(|line| line.strip_prefix("npm error ")).collect();
    let code = lines.iter().find_map(|line| line.strip_prefix("code ")).unwrap_or_default().trim();
    let first = lines.iter().find(|line| !line.starts_with("code ") && !line.trim().is_empty());
    let words: String = first.copied().unwrap_or_default().chars().take(300).collect();
    let message = format!("{code} {words}").trim().to_owned();
    match code {
        "ENOTFOUND" | "EAI_AGAIN" | "ECONNREFUSED" | "ECONNRESET" | "ETIMEDOUT" | "ENETUNREACH"
        | "EHOSTUNREACH" | "ENOTCACHED" | "ERR_SOCKET_TIMEOUT" => InstallError::Unreachable { message },
        "ETARGET" | "E404" => InstallError::NoSuchVersion { package, version },
        _ if message.is_empty() => {
            InstallError::Refused { message: format!("it ended with {}", ended.code()) }
        }
        _ => InstallError::Refused { message },
    }
}

/// The digest that npm recorded for the package.
fn integrity(directory: &Path, package: &Package, version: Version) -> Option<String> {
    let text = std::fs::read(directory.join("node_modules/.package-lock.json")).ok()?;
    let lock: Json = serde_json::from_slice(&text).ok()?;
    let place = format!("node_modules/{}", programs::fill(package.directory, version));
    let packages = lock["packages"].as_object()?;
    // The program's directory may be below the package's.
    let (_, found) =
        packages.iter().find(|(path, _)| place == **path || place.starts_with(&format!("{path}/")))?;
    found["integrity"].as_str().map(str::to_owned)
}
