//! Files of variables with shell code, such as an `if`. A separate sandbox evaluates them, with the files and variables
//! of the agent's sandbox but without a network. The results are then data, under the same rules as every other file of
//! variables. The host never runs them.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use sandbox::{Command, CommandExit, Mount, MountKind, Sandbox, SandboxSpec, Stdio};

use super::env_files;
use super::host_files::{DeliveredFiles, HostFileError, ShellFile};
use super::image;
use super::network::NetworkPlan;
use super::placeholders::Placeholders;
use super::{ProvisionError, RunContext, SANDBOXES};
use crate::event::InputKind;
use crate::image::Image;
use crate::inputs::InputScanner;

/// Reads the file and prints what is exported then. `cat` is in every image that has a shell.
const EVALUATE: &str = "set -a; . \"$1\" > /dev/null; exec cat /proc/self/environ";

const TIME: Duration = Duration::from_secs(20);
const MAX_BYTES: u64 = 1 << 20;

/// Variables that a shell sets by itself.
const OF_SHELLS: &[&str] = &["PWD", "OLDPWD", "SHLVL", "_", "OPTIND", "PPID", "IFS", "PS1", "PS2", "PS4"];

/// The agent's sandbox, as far as it is known before its variables.
pub struct SandboxDraft<'a> {
    pub spec: &'a SandboxSpec,
    pub planned: &'a NetworkPlan,
    pub image: Option<&'a Image>,
    /// The agent's variables, with those of the files.
    pub variables: &'a dyn Fn(&DeliveredFiles) -> Vec<(OsString, OsString)>,
}

/// Evaluates the files that need it, and adds their variables and mounts to what is delivered.
pub fn evaluate(
    delivered: &mut DeliveredFiles,
    draft: &SandboxDraft<'_>,
    placeholders: &Placeholders<'_>,
    context: &RunContext<'_>,
) -> Result<(), ProvisionError> {
    if delivered.shell_files.is_empty() {
        return Ok(());
    }
    let scanner = InputScanner { guard: context.guard, emit: context.emit };
    let mut spec = draft.spec.clone();
    spec.state_directory = context.directory.join(SANDBOXES).join("variables");
    spec.environment = (draft.variables)(delivered);
    draft.image.iter().for_each(|image| image::apply(image, &mut spec));
    spec.mounts.extend(draft.planned.mounts());
    spec.mounts.extend(delivered.mounts.iter().cloned());
    spec.mounts.extend(delivered.shell_files.iter().map(|file| mount(&file.target, &file.text)));
    let before = spec.environment.clone();
    let sandbox = Sandbox::start(spec).map_err(ProvisionError::Sandbox)?;
    let files = std::mem::take(&mut delivered.shell_files);
    for file in &files {
        scanner
            .file(InputKind::HostFile, &file.target, file.text.as_bytes(), scan::Origin::Configuration)
            .map_err(ProvisionError::Blocked)?;
        let set = variables(&sandbox, file, &before).map_err(|why| {
            ProvisionError::HostFile(HostFileError { field: "host_files", source: file.source.clone(), why })
        })?;
        let set = placeholders.filter(&file.target, set);
        delivered.mounts.push(mount(&file.target, &env_files::write(&set)));
        delivered.variables.extend(set);
    }
    drop(sandbox.close());
    Ok(())
}

fn mount(target: &str, text: &str) -> Mount {
    let contents = text.as_bytes().to_vec();
    Mount { target: target.into(), kind: MountKind::File { contents, mode: 0o444 } }
}

/// The variables that one file adds or changes.
fn variables(
    sandbox: &Sandbox,
    file: &ShellFile,
    before: &[(OsString, OsString)],
) -> Result<Vec<(String, String)>, String> {
    let mut set = Vec::new();
    for assignment in ask(sandbox, &file.target)?.split('\0').filter(|text| !text.is_empty()) {
        let Some((name, value)) = assignment.split_once('=') else { continue };
        let same = |(known, old): &(OsString, OsString)| known == name && old == value;
        if OF_SHELLS.contains(&name) || before.iter().any(same) {
            continue;
        }
        env_files::check_name(name, value).map_err(|why| why.trim_end_matches(',').to_owned())?;
        set.push((name.to_owned(), value.to_owned()));
    }
    Ok(set)
}

fn ask(sandbox: &Sandbox, path: &str) -> Result<String, String> {
    let mut command = Command::new(["/bin/sh", "-c", EVALUATE, "sh", path]);
    command.working_directory = Path::new("/sandbox/workspace").to_owned();
    command.stdout = Stdio::Pipe;
    let mut process = sandbox.exec(command).map_err(|error| format!("cannot be evaluated: {error}"))?;
    let stdout = process.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    });
    let exit = process.wait(TIME);
    if exit.is_err() {
        drop(process.signal(9));
    }
    let bytes = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    match exit {
        Ok(CommandExit::Code(0)) => {}
        Ok(other) => return Err(format!("ended the shell with {other:?}")),
        Err(error) => return Err(format!("cannot be evaluated: {error}")),
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("sets more than {MAX_BYTES} bytes of variables"));
    }
    String::from_utf8(bytes).map_err(|_| "sets a variable that is not text".to_owned())
}
