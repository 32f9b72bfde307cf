//! `fullsend enter`: opens the saved workspace of a run in a new sandbox. It has the run's file policy and no network;
//! changes made in it are lost when it ends.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sandbox::{Command, CommandExit, CopyOnWrite, Mount, MountKind, Sandbox, SandboxSpec, Stdio};

use super::configuration::{ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use super::sandbox::interact;
use super::signals;
use crate::cancel::Cancel;
use crate::check::check;
use crate::image::Image;
use crate::provision::image::ImageSearch;
use crate::provision::{files, image};
use crate::resolve::resolve;
use crate::run::workspace::SAVED_WORKSPACE;
use crate::runtime::paths::{PROGRAM, WORKSPACE};

/// How much the command may write.
const BYTES: u64 = 1 << 30;

/// The command's time limit.
const TIME: Duration = Duration::from_secs(24 * 3600);

#[derive(Args, Debug)]
pub struct Arguments {
    /// The run: its id, a unique prefix of it, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
    /// The command to run [default: /bin/sh, in a terminal if there is one]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Read runs from this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::run::runs_directory, Ok)?;
    let found = super::runs::find(&runs, &arguments.run)?;
    let kept = found.path.join(SAVED_WORKSPACE);
    if !kept.is_dir() {
        return Err(Failure::new(Exit::Missing, format!("the run {} has no saved workspace", found.id))
            .help("run it with --keep always, or --keep on-failure"));
    }
    let record = found.record().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    // Held, so that the image's layers stay in the cache.
    let (spec, _image) = sandbox_spec(arguments, &record.harness, &kept, &found.path.join("entered"))?;
    let unavailable = |why: String| Failure::new(Exit::SandboxUnavailable, why);
    let sandbox =
        Sandbox::start(spec).map_err(|error| unavailable(format!("cannot start the sandbox: {error}")))?;
    let shell = [OsString::from("/bin/sh")];
    let command = if arguments.command.is_empty() { &shell[..] } else { &arguments.command };
    let ended = if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        run_in_terminal(&sandbox, command)
    } else {
        run_with_pipes(&sandbox, command).map_err(unavailable)
    };
    sandbox.close().map_err(|error| unavailable(format!("the sandbox did not close: {error}")))?;
    ended
}

fn sandbox_spec(
    arguments: &Arguments,
    harness: &str,
    kept: &Path,
    state: &Path,
) -> Result<(SandboxSpec, Option<Image>), Failure> {
    let mut opened = arguments.place.open()?;
    let mut problems = Vec::new();
    let resolved = resolve(&mut opened.library, harness, &opened.choices, &mut problems);
    let checked = resolved.and_then(|resolved| check(&mut opened.library, resolved, &mut problems));
    let files_are_in = format!("the files are in {}", kept.display());
    let Some(checked) = checked else {
        super::check::show(&opened.library.sources, &problems);
        let message = format!("the harness `{harness}` is no longer valid");
        return Err(Failure::new(Exit::Invalid, message).help(files_are_in));
    };
    let search = ImageSearch {
        resolved: &checked.resolved,
        library: &opened.library,
        variables: &variable,
        cancel: &Cancel::default(),
        on_progress: &|_| {},
    };
    let image = image::find(&search)
        .map_err(|error| Failure::new(Exit::Missing, error.to_string()).help(files_are_in))?;
    let root = if image.is_some() { files::Root::Image } else { files::Root::Host };
    let mut spec = SandboxSpec::new(state.to_owned());
    spec.program = Some(PROGRAM.into());
    spec.mounts = files::system(&checked.policy, root);
    let mut mount = |target: &str, kind| spec.mounts.push(Mount { target: target.into(), kind });
    mount("/sandbox", MountKind::Temporary { size_bytes: BYTES, inodes: 1 << 16, mode: 0o755 });
    let view = CopyOnWrite { source: kept.to_owned(), edits: Vec::new(), memory_bytes: BYTES };
    mount(WORKSPACE, MountKind::CopyOnWrite(view));
    for (name, value) in [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/sandbox"),
        ("LANG", "C.UTF-8"),
    ] {
        spec.environment.push((name.into(), value.into()));
    }
    let image = image.map(|(_, image)| image);
    if let Some(image) = &image {
        image::apply(image, &mut spec);
    }
    spec.landlock = files::landlock(&checked.policy);
    spec.system_calls = files::system_calls(checked.resolved.harness.sandbox.system_calls.value);
    spec.identity = files::identity(&checked.policy);
    Ok((spec, image))
}

/// In the sandbox's own terminal. If we are asked to end, the caller's terminal is restored first.
fn run_in_terminal(sandbox: &Sandbox, command: &[OsString]) -> Result<Exit, Failure> {
    let no_threads = |error| Failure::new(Exit::SandboxUnavailable, format!("no threads: {error}"));
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let executor = executor.map_err(no_threads)?;
    let cancel = Cancel::default();
    signals::watch(executor.handle(), &cancel)?;
    match interact(sandbox, Path::new(WORKSPACE), command, &cancel)? {
        0 => Ok(Exit::Done),
        _ => Ok(Exit::Failed),
    }
}

/// Relays the streams, so that no program inside gets the terminal itself.
fn run_with_pipes(sandbox: &Sandbox, command: &[OsString]) -> Result<Exit, String> {
    let mut command = Command::new(command.to_vec());
    command.working_directory = WORKSPACE.into();
    (command.stdin, command.stdout, command.stderr) = (Stdio::Pipe, Stdio::Pipe, Stdio::Pipe);
    let mut process = sandbox.exec(command).map_err(|error| error.to_string())?;
    if let Some(mut stdin) = process.stdin.take() {
        std::thread::spawn(move || drop(std::io::copy(&mut std::io::stdin(), &mut stdin)));
    }
    let relays = [
        process.stdout.take().map(|from| std::thread::spawn(move || relay(from, std::io::stdout()))),
        process.stderr.take().map(|from| std::thread::spawn(move || relay(from, std::io::stderr()))),
    ];
    let ended = process.wait(TIME).map_err(|error| error.to_string())?;
    relays.into_iter().flatten().for_each(|relay| drop(relay.join()));
    Ok(match ended {
        CommandExit::Code(0) => Exit::Done,
        CommandExit::Code(_) | CommandExit::Signal(_) => Exit::Failed,
    })
}

fn relay(mut from: impl Read, mut to: impl Write) {
    let mut portion = [0; 8192];
    while let Ok(length @ 1..) = from.read(&mut portion) {
        if to.write_all(&portion[..length]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
