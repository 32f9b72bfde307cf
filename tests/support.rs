//! The one builder of the tests: a scratch directory with layers in it, and the real program run in a scrubbed
//! environment. Also where a test says that this machine cannot run it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory of its own for one test, gone afterwards. `repo/` is the repository, `org/` the organisation's layer.
pub struct World {
    root: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    /// The program, with whatever makes it run as somebody else.
    program: Vec<String>,
}

/// What the program did.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl World {
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("fullsend-test-").tempdir().unwrap();
        for directory in ["repo", "home", "state", "tmp"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        let program = vec![program().to_string_lossy().into_owned()];
        Self { root, environment: BTreeMap::new(), program }
    }

    /// A repository with one harness, `triage`, that `check` accepts without a warning.
    pub fn with_harness() -> Self {
        let world = Self::new();
        world.write(
            "repo/.fullsend/harness/triage.yaml",
            "agent: agents/triage.md\noutput_schema: schemas/triage.json\nruntime: native\nproviders: [model]\n",
        );
        world.model_provider();
        world.write("repo/.fullsend/agents/triage.md", "---\nname: triage\n---\nWrite `summary`.\n");
        world.write("repo/.fullsend/schemas/triage.json", r#"{"type":"object","required":["summary"]}"#);
        world.write("repo/CODEOWNERS", "/.fullsend/ @acme/platform\n");
        world
    }

    /// The same with an agent of ours on the scripted model; `more` are further lines of the harness.
    pub fn scripted(more: &str, scenario: impl std::fmt::Display) -> Self {
        let world = Self::with_harness();
        world.write(
            "repo/.fullsend/harness/triage.yaml",
            format!(
                "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\n{more}"
            ),
        );
        world.write("repo/.fullsend/scenarios/s.json", scenario.to_string());
        world
    }

    /// Puts the programs of the runtimes where `runtimes install` puts them. They cannot be started.
    pub fn with_runtime_programs(self) -> Self {
        let (arch, triple) = match std::env::consts::ARCH {
            "aarch64" => ("arm64", "aarch64"),
            _ => ("x64", "x86_64"),
        };
        for path in [
            format!("acp/1.18.33/node_modules/opencode-linux-{arch}/bin/opencode"),
            format!("claude/2.1.325/node_modules/@anthropic-ai/claude-code-linux-{arch}/claude"),
            format!("codex/0.166.0/node_modules/@openai/codex/vendor/{triple}-unknown-linux-musl/bin/codex"),
        ] {
            self.write(&format!("home/.cache/fullsend/runtimes/{path}"), "\x7fELF");
        }
        self
    }

    /// A provider `model` that the scripted model serves.
    fn model_provider(&self) {
        self.write(
            "repo/.fullsend/providers/model.yaml",
            "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
        );
        self.write("repo/.fullsend/scenarios/s.json", r#"{"turns":[[{"finish":{"summary":"done"}}]]}"#);
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn script(&self, path: &str, text: &str) -> PathBuf {
        let path = self.write(path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Sets a variable for every run of the program that follows.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Leaves a variable out of every run that follows.
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// From here on everything is run by a user without privileges, who owns this directory. `None` if this machine
    /// cannot do that; the test is then skipped with a reason.
    pub fn by_user(mut self) -> Option<Self> {
        // Whoever is not root is such a user already.
        if !rustix::process::geteuid().is_root() {
            return Some(self);
        }
        self.program = self.words_of_user()?;
        Some(self)
    }

    /// Runs the program in the repository.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.program(arguments).output().unwrap();
        self.ran(output)
    }

    /// Runs the program in the repository with these bytes on its standard input, whether it reads them all or not.
    pub fn run_fed(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.program(arguments);
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A program that does not read everything must not hold the test.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        self.ran(output)
    }

    /// Starts the program in the repository, in a process group of its own, and does not wait for it.
    pub fn spawn(&self, arguments: &[&str]) -> std::process::Child {
        let mut command = self.program(arguments);
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts the program with its output in a file of this world, and does not wait for it.
    pub fn spawn_to(&self, arguments: &[&str], file: &str) -> std::process::Child {
        let out = fs::File::create(self.path(file)).unwrap();
        self.program(arguments).stdout(out).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs the program with this on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(&program(), arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may refuse before it has read everything.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        self.ran(child.wait_with_output().unwrap())
    }

    /// The same, with its standard output to read.
    pub fn spawn_piped(&self, arguments: &[&str]) -> std::process::Child {
        let mut command = self.program(arguments);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The same, with its standard input to write to.
    pub fn spawn_talking(&self, arguments: &[&str]) -> std::process::Child {
        let mut command = self.program(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs the program as a user; `None` if this machine cannot do that; the test is then skipped with a reason.
    pub fn run_as(&self, who: Who, arguments: &[&str]) -> Option<Ran> {
        if who == Who::Caller || !rustix::process::geteuid().is_root() {
            return Some(self.run(arguments));
        }
        let words = self.words_of_user()?;
        let mut command = self.command(Path::new(&words[0]), &[]);
        command.args(&words[1..]).args(arguments);
        Some(self.ran(command.output().unwrap()))
    }

    /// The command that runs the program as somebody without privileges, who owns this directory from here on.
    pub fn words_of_user(&self) -> Option<Vec<String>> {
        let Some(user) = ordinary_user() else {
            skip("ordinary-user", "no ordinary user could be made");
            return None;
        };
        // The tests may run from a place that only root can enter; the user gets a copy of its own.
        let copy = self.path("fullsend");
        // Not `fs::copy`: a process that another test starts meanwhile would hold the file open for writing.
        assert!(Command::new("cp").arg(program()).arg(&copy).status().unwrap().success());
        let owned = Command::new("chown").arg("-R").arg(&user).arg(self.root.path()).status().unwrap();
        assert!(owned.success());
        let copy = copy.to_string_lossy();
        let words = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", &copy];
        Some(words.map(str::to_owned).to_vec())
    }

    /// Runs another program in the repository, in the same environment.
    pub fn run_program(&self, program: &Path, arguments: &[&std::ffi::OsStr]) -> Ran {
        let output = self.command(program, &[]).args(arguments).output().unwrap();
        self.ran(output)
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(Path::new(&self.program[0]), &[]);
        command.args(&self.program[1..]).args(arguments);
        command
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path("repo"))
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("TMPDIR", self.path("tmp"))
            .env("NO_COLOR", "1")
            // The learned scanner is for the tests that ask for it: it takes longer than most of the others.
            .env("FULLSEND_WEIGHTS", "none")
            .envs(&self.environment)
            .stdin(Stdio::null());
        command
    }

    /// What was printed, with this test's own directory written as `$ROOT`.
    fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| {
            String::from_utf8_lossy(&bytes).replace(&*self.root.path().to_string_lossy(), "$ROOT")
        };
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// What a harness says beside its agent so that `check` finds everything that a run needs.
pub const RUNNABLE: &str = "runtime: native\nproviders: [model]\n";

/// A bundled example as the repository of a world of its own.
pub fn example(name: &str) -> World {
    let world = World::new();
    copy(&root().join("examples").join(name), &world.path("repo"));
    world
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever runs the tests.
    Caller,
    /// Somebody without privileges.
    User,
}

/// A user made for the tests, once.
fn ordinary_user() -> Option<String> {
    const NAME: &str = "fullsend-tester";
    static MADE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let made = MADE.get_or_init(|| {
        let there = || {
            Command::new("id")
                .arg(NAME)
                .stderr(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        there()
            || Command::new("useradd")
                .args(["--system", "--user-group", NAME])
                .status()
                .is_ok_and(|s| s.success())
            || there()
    });
    made.then(|| NAME.to_owned())
}

impl Ran {
    /// Code and both streams, for snapshots.
    pub fn all(&self) -> String {
        let part = |name: &str, text: &str| {
            if text.is_empty() { String::new() } else { format!("--- {name}\n{text}") }
        };
        format!("exit {}\n{}{}", self.code, part("stdout", &self.out), part("stderr", &self.err))
    }
}

pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_fullsend"))
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Waits until something is there, for as long as a loaded machine may need.
pub fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the host has this program on its PATH. Skips the test with a reason where it does not.
pub fn has_program(name: &str, test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if !found {
        skip(test, &format!("{name} is not installed"));
    }
    found
}

/// The same for several.
pub fn has_programs(names: &[&str], test: &str) -> bool {
    names.iter().all(|name| has_program(name, test))
}

/// Records that this machine cannot run a test, and why. `.ci/run` prints these skips and checks them.
pub fn skip(name: &str, reason: &str) {
    let target = root().join("target");
    drop(fs::create_dir_all(&target));
    let mut file = fs::File::options().create(true).append(true).open(target.join("skips.txt")).unwrap();
    writeln!(file, "SKIP {name}: {reason}").unwrap();
}
