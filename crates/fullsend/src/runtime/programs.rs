//! Finds the program of a runtime on the host: in the cache of `fullsend runtimes install`, else on the PATH, if its version
//! is in range. Reads no environment and installs nothing.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::package::{Package, Version};
use crate::harness::names::RuntimeName;

/// How far above its launcher a global installation keeps the program.
const MAX_LAUNCHER_DEPTH: usize = 8;

/// For `--version`.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A program on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Mounted read-only; a real path.
    pub directory: PathBuf,
    /// Below the directory.
    pub executable: String,
    pub version: Version,
}

/// Where to search.
#[derive(Clone, Debug, Default)]
pub struct ProgramSearch {
    /// The cache of runtimes.
    pub cache: Option<PathBuf>,
    /// The value of PATH.
    pub path: Option<String>,
}

impl ProgramSearch {
    /// As the environment says.
    pub fn new(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = variable("XDG_CACHE_HOME").filter(|path| path.starts_with('/')).map(PathBuf::from);
        Self {
            cache: cache.or_else(home).map(|cache| cache.join("fullsend/runtimes")),
            path: variable("PATH"),
        }
    }
}

#[derive(Debug)]
pub enum ProgramError {
    Missing {
        name: RuntimeName,
    },
    /// A sandbox on a gateway has only the programs of its image.
    NotInImage {
        command: &'static str,
        from: Version,
    },
    OutOfRange {
        place: String,
        found: Version,
        command: &'static str,
        from: Version,
        below: Version,
    },
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { name } => {
                write!(
                    f,
                    "the program of the runtime `{name}` is not installed: `fullsend runtimes install {name}`"
                )
            }
            Self::NotInImage { command, from } => {
                write!(f, "the image has no program `{command}` that starts: install version {from} in it")
            }
            Self::OutOfRange { place, found, command, from, below } => write!(
                f,
                "{place} is version {found}; this fullsend takes {from} up to, not including, {below}: `fullsend runtimes install {command}`"
            ),
        }
    }
}

impl std::error::Error for ProgramError {}

impl ProgramError {
    pub fn out_of_range(place: String, found: Version, package: &Package) -> Self {
        Self::OutOfRange {
            place,
            found,
            command: package.command,
            from: package.tested,
            below: package.below,
        }
    }
}

/// The newest in the cache, else the one on the PATH.
pub fn find(name: RuntimeName, package: &Package, search: &ProgramSearch) -> Result<Program, ProgramError> {
    if let Some(program) = search.cache.as_deref().and_then(|cache| cached(name, package, cache)) {
        return Ok(program);
    }
    let missing = || ProgramError::Missing { name };
    let path = search.path.as_deref().and_then(|path| on_path(package.command, path)).ok_or_else(missing)?;
    let version = version_of(&path).ok_or_else(missing)?;
    if !accepts(package, version) {
        return Err(ProgramError::out_of_range(path.display().to_string(), version, package));
    }
    let program = place(&path, package, version).or_else(|| beside_launcher(&path, package, version));
    program.ok_or_else(missing)
}

pub fn accepts(package: &Package, version: Version) -> bool {
    (package.tested..package.below).contains(&version)
}

/// Where one version lies in the cache.
pub fn cache_directory(cache: &Path, name: RuntimeName, version: Version) -> PathBuf {
    cache.join(name.to_string()).join(version.to_string())
}

fn cached(name: RuntimeName, package: &Package, cache: &Path) -> Option<Program> {
    let entries = std::fs::read_dir(cache.join(name.to_string())).ok()?;
    let mut versions: Vec<Version> =
        entries.flatten().filter_map(|entry| Version::find(&entry.file_name().to_string_lossy())).collect();
    versions.sort_unstable();
    let newest_first = versions.into_iter().rev().filter(|version| accepts(package, *version));
    newest_first
        .filter_map(|version| installed(package, &cache_directory(cache, name, version), version))
        .next()
}

/// The program of an installation that is complete.
pub fn installed(package: &Package, directory: &Path, version: Version) -> Option<Program> {
    let below = fill(package.directory, version);
    let directory = directory.join("node_modules").join(below).canonicalize().ok()?;
    let executable = package.executable.to_owned();
    is_elf(&directory.join(&executable)).then_some(Program { directory, executable, version })
}

/// `{arch}`, `{triple}` and `{version}` as this machine says them.
pub fn fill(template: &str, version: Version) -> String {
    let (arch, triple) = match std::env::consts::ARCH {
        "x86_64" => ("x64", "x86_64"),
        "aarch64" => ("arm64", "aarch64"),
        other => (other, other),
    };
    template.replace("{arch}", arch).replace("{triple}", triple).replace("{version}", &version.to_string())
}

pub fn on_path(command: &str, path: &str) -> Option<PathBuf> {
    let directories = path.split(':').filter(|directory| directory.starts_with('/'));
    directories.map(|directory| Path::new(directory).join(command)).find(|path| path.is_file())
}

/// A launcher script needs Node, which is not inside: only an ELF program will do.
fn place(path: &Path, package: &Package, version: Version) -> Option<Program> {
    let real = path.canonicalize().ok().filter(|real| is_elf(real))?;
    let up = Path::new(package.executable).components().count();
    let directory = real.ancestors().nth(up)?.to_owned();
    let executable = real.strip_prefix(&directory).ok()?.to_str()?.to_owned();
    Some(Program { directory, executable, version })
}

/// `npm install -g` puts a launcher script on the PATH, and the program into a package near it.
fn beside_launcher(path: &Path, package: &Package, version: Version) -> Option<Program> {
    let launcher = path.canonicalize().ok()?;
    let below = fill(package.global_directory, version);
    let directories =
        launcher.ancestors().take(MAX_LAUNCHER_DEPTH).map(|near| near.join("node_modules").join(&below));
    let executable = package.executable.to_owned();
    let directory = directories.into_iter().find(|directory| is_elf(&directory.join(&executable)))?;
    Some(Program { directory: directory.canonicalize().ok()?, executable, version })
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// What it prints for `--version`, if it runs.
pub fn version_of(path: &Path) -> Option<Version> {
    let mut child = Command::new(path)
        .arg("--version")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + TIMEOUT;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(child.kill());
    let output = child.wait_with_output().ok()?;
    Version::find(&String::from_utf8_lossy(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{claude, codex, native};
    use std::os::unix::fs::PermissionsExt;

    fn put(path: &Path, bytes: &[u8]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_newest_in_range_is_taken_and_half_an_installation_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let claude = &claude::RUNTIME;
        let package = claude.program.as_ref().unwrap();
        let search = ProgramSearch { cache: Some(directory.path().to_owned()), path: None };
        assert!(matches!(claude.find_program(&search), Err(ProgramError::Missing { .. })));
        let lay = |version: Version, bytes: &[u8]| {
            let at = cache_directory(directory.path(), RuntimeName::Claude, version);
            put(&at.join("node_modules").join(fill(package.directory, version)).join("claude"), bytes);
        };
        lay(Version(2, 1, 325), b"\x7fELF...");
        lay(Version(2, 1, 999), b"\x7fE");
        lay(Version(9, 0, 0), b"\x7fELF...");
        assert_eq!(claude.find_program(&search).unwrap().unwrap().version, Version(2, 1, 325));
        lay(Version(2, 1, 400), b"\x7fELF...");
        assert_eq!(claude.find_program(&search).unwrap().unwrap().version, Version(2, 1, 400));
        assert_eq!(native::RUNTIME.find_program(&search).unwrap(), None);
    }

    #[test]
    fn a_global_installation_is_found_behind_its_launcher() {
        let directory = tempfile::tempdir().unwrap();
        let modules = directory.path().join("lib/node_modules");
        let launcher = modules.join("@openai/codex/bin/codex.js");
        put(&launcher, b"#!/bin/sh\necho codex-cli 0.166.0\n");
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&launcher, bin.join("codex")).unwrap();
        let search = ProgramSearch { cache: None, path: Some(bin.to_str().unwrap().to_owned()) };
        let codex = &codex::RUNTIME;
        assert!(matches!(codex.find_program(&search), Err(ProgramError::Missing { .. })));
        let below = fill(codex.program.unwrap().global_directory, Version(0, 166, 0));
        for near in ["@openai/codex/node_modules", "."] {
            let program = modules.join(near).join(&below).join("bin/codex");
            put(&program, b"\x7fELF...");
            let found = codex.find_program(&search).unwrap().unwrap();
            assert_eq!(found.directory.join(&found.executable), program.canonicalize().unwrap());
            std::fs::remove_file(&program).unwrap();
        }
    }

    #[test]
    fn program_on_path_must_be_a_binary_of_a_tested_version() {
        let directory = tempfile::tempdir().unwrap();
        let claude = &claude::RUNTIME;
        let search = ProgramSearch { cache: None, path: Some(directory.path().to_str().unwrap().to_owned()) };
        let say = |version: &str| {
            put(&directory.path().join("claude"), format!("#!/bin/sh\necho {version}\n").as_bytes());
        };
        say("1.0.0");
        assert!(matches!(claude.find_program(&search), Err(ProgramError::OutOfRange { .. })));
        say("2.1.325");
        assert!(matches!(claude.find_program(&search), Err(ProgramError::Missing { .. })));
    }
}
