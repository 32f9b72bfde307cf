//! What a case needs: a directory of its own, a spec with the host's programs in it, and a way to run a command.

use sandbox::{Command, CommandExit, Mount, MountKind, Sandbox, SandboxSpec, Stdio};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    User,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Root => "root",
            Self::User => "user",
        })
    }
}

/// Removed with everything in it when the case ends.
pub(crate) struct World {
    pub(crate) who: Who,
    pub(crate) directory: PathBuf,
    states: AtomicU32,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) exit: CommandExit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new(who: Who, name: &str) -> Self {
        let directory = PathBuf::from(format!("/tmp/sandbox-{name}-{who}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        Self { who, directory, states: AtomicU32::new(0) }
    }

    /// A new directory on the host.
    pub(crate) fn make_directory(&self, name: &str) -> PathBuf {
        let path = self.directory.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// The host's programs, an empty `/etc`, nothing else.
    pub(crate) fn spec(&self) -> SandboxSpec {
        let number = self.states.fetch_add(1, Ordering::Relaxed);
        Self::spec_in(self.directory.join(format!("state-{number}")))
    }

    pub(crate) fn spec_in(state_directory: PathBuf) -> SandboxSpec {
        let mut spec = SandboxSpec::new(state_directory);
        spec.mounts.push(read_only(Path::new("/usr"), Path::new("/usr")));
        for name in ["bin", "lib", "lib64", "sbin"] {
            let target = PathBuf::from("/").join(name);
            match std::fs::read_link(&target) {
                Ok(to) => spec.mounts.push(Mount { target, kind: MountKind::Symlink { to } }),
                Err(_) if target.exists() => spec.mounts.push(read_only(&target, &target)),
                Err(_) => {}
            }
        }
        spec.environment.push(("PATH".into(), "/usr/bin:/bin".into()));
        spec
    }

    /// For specs with a writable mount, which root cannot have on every file system.
    pub(crate) fn start_or_skip(&self, spec: SandboxSpec) -> Option<Sandbox> {
        match Sandbox::start(spec) {
            Err(e) if e.to_string().contains("does not support identity maps") => {
                crate::runner::skip(
                    "a writable mount as root: the file system of /tmp does not support identity maps",
                );
                None
            }
            started => Some(started.unwrap_or_else(|e| panic!("{e}"))),
        }
    }

    pub(crate) fn start(&self, spec: SandboxSpec) -> Sandbox {
        Sandbox::start(spec).unwrap_or_else(|e| panic!("{e}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A case that failed may leave more than this can remove; its own message is the one that counts.
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

pub(crate) fn read_only(source: &Path, target: &Path) -> Mount {
    Mount { target: target.into(), kind: MountKind::ReadOnly { source: source.into() } }
}

/// Runs a shell script inside, to its end.
pub(crate) fn shell(sandbox: &Sandbox, script: &str) -> Output {
    run(sandbox, Command::new(["/bin/sh", "-c", script]))
}

pub(crate) fn run(sandbox: &Sandbox, mut command: Command) -> Output {
    command.stdout = Stdio::Pipe;
    command.stderr = Stdio::Pipe;
    let mut process = sandbox.exec(command).unwrap();
    let errors = process.stderr.take().unwrap();
    let stderr = std::thread::spawn(move || read_all(errors));
    let stdout = read_all(process.stdout.take().unwrap());
    let exit = process.wait(TIMEOUT).unwrap();
    Output { exit, stdout, stderr: stderr.join().unwrap() }
}

fn read_all(mut pipe: impl Read) -> String {
    let mut text = Vec::new();
    pipe.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}
