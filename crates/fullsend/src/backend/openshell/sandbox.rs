//! One sandbox of a gateway, from its creation to its deletion. Whatever fails in between, it is deleted.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeWriter, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use policy::Policy;
use sandbox::{Command, Mount, MountKind, Stdio};
use tokio::runtime::Handle;

use super::client::{NewCommand, NewSandbox, OpenshellError, OpenshellGateway, SandboxAddress};
use super::endpoint::OpenshellEndpoint;
use super::grpc::CallError;
use super::process::{self, End, Pipes, Streams, Watched};
use super::providers::{self, NewProvider};
use super::tunnel::host::{self as tunnel, Tunnel, TunnelService};
use super::{files, policy as policy_message, tunnel as tunnel_command};
use crate::archive;
use crate::archive::inside_files::{self, FilesReply};
use crate::backend::TeardownError;
use crate::cancel::Cancel;

/// The time limit of a command of ours that copies nothing large.
const SHORT: Duration = Duration::from_secs(60);
/// The time limit of an upload or a download.
const LONG: Duration = Duration::from_secs(600);

/// The pause before each further attempt to delete.
const DELETE_AGAIN: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

const MAX_OUTPUT: u64 = 1 << 20;

/// Where the process ids of commands are, so that a signal reaches them.
const PIDS: &str = "/opt/fullsend/run";

/// The directories that a run writes to. The gateway creates those that the image does not have.
const ROOTS: [&str; 2] = ["/opt/fullsend", "/sandbox"];

/// The spec of a sandbox.
pub struct OpenshellSpec<'a> {
    pub name: String,
    pub image: &'a str,
    pub policy: &'a Policy,
    pub providers: Vec<NewProvider>,
    /// In order; a later one replaces an earlier one at the same path.
    pub mounts: Vec<Mount>,
    /// A directory of this machine that is filled after the start. `deliver` uploads what is shown of it.
    pub staging: &'a Path,
    /// The runtime's directory inside. `deliver` uploads what belongs there, because an attempt empties it first.
    pub config_directory: &'static str,
    pub environment: Vec<(OsString, OsString)>,
    pub services: Vec<TunnelService>,
    /// Where the model gateway is inside.
    pub gateway_address: SocketAddr,
    /// Where our own program is inside.
    pub program: &'static str,
    /// The directories that `collect` brings back.
    pub collected: Vec<String>,
    /// A new directory for what is brought back.
    pub copy: PathBuf,
    /// For the sandbox to be ready.
    pub time: Duration,
    /// Ends the wait for it.
    pub cancel: &'a Cancel,
    pub executor: Handle,
}

/// A sandbox on a gateway. Dropping it deletes it.
pub struct OpenshellSandbox {
    remote: Arc<Remote>,
    staged: Vec<Mount>,
    gateway_address: SocketAddr,
    collected: Vec<String>,
    copy: PathBuf,
    copy_root: OwnedFd,
    next_command: AtomicU64,
    tunnel: Option<Tunnel>,
    deleted: AtomicBool,
}

/// Where commands are started.
struct Remote {
    gateway: OpenshellGateway,
    address: SandboxAddress,
    /// Made for this sandbox, and deleted with it.
    providers: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    program: &'static str,
    lost: Arc<OnceLock<OpenshellError>>,
    executor: Handle,
}

impl OpenshellSandbox {
    pub fn start(endpoint: OpenshellEndpoint, spec: OpenshellSpec<'_>) -> Result<Self, OpenshellError> {
        let OpenshellSpec { executor, mounts, staging, .. } = spec;
        let on_host = |error: std::io::Error| OpenshellError::Inside {
            what: format!("the copy in {}", spec.copy.display()),
            why: error.to_string(),
        };
        // Before the gateway creates anything: any later failure deletes it again.
        std::fs::create_dir_all(&spec.copy).map_err(on_host)?;
        let copy_root = files::open_directory(&spec.copy).map_err(on_host)?;
        let gateway = executor.block_on(super::connect(endpoint))?;
        let deadline = Instant::now() + spec.time;
        let named = |name: &str| spec.providers.iter().any(|new| new.name == name);
        let on_gateway = |name: &str| named(name).then(|| providers::name(&spec.name, name));
        let policy = policy_message::message(spec.policy, &ROOTS, gateway.line, &on_gateway);
        let names: Vec<String> =
            spec.providers.iter().map(|new| providers::name(&spec.name, &new.name)).collect();
        let new = NewSandbox { name: &spec.name, image: spec.image, policy, providers: &names };
        let made = executor.block_on(async {
            for (name, new) in names.iter().zip(&spec.providers) {
                providers::create(&gateway, name, new).await?;
            }
            gateway.create(new, spec.time).await?;
            let is_cancelled = || spec.cancel.is_cancelled();
            gateway.wait_until_ready(&spec.name, deadline, spec.time, &is_cancelled).await
        });
        let address = match made {
            Ok(known) => SandboxAddress { name: spec.name, id: known.id },
            Err(error) => {
                // The gateway may have created it although the call got no answer.
                let deleted = executor.block_on(delete(&gateway, &spec.name, &names));
                return Err(match deleted {
                    Err(left) if !left.why.is_denied() => left_over(&error, &spec.name, &left),
                    _ => error,
                });
            }
        };
        let is_staged = |mount: &Mount| match &mount.kind {
            MountKind::ReadOnly { source } => source.starts_with(staging),
            _ => mount.target.starts_with(spec.config_directory),
        };
        let (staged, mounts): (Vec<Mount>, Vec<Mount>) = mounts.into_iter().partition(is_staged);
        let lost = Arc::new(OnceLock::new());
        let remote = Remote {
            gateway,
            address,
            providers: names,
            environment: spec.environment,
            program: spec.program,
            lost,
            executor,
        };
        let mut sandbox = Self {
            remote: Arc::new(remote),
            staged,
            gateway_address: spec.gateway_address,
            collected: spec.collected,
            copy_root,
            copy: spec.copy,
            next_command: AtomicU64::new(1),
            tunnel: None,
            deleted: AtomicBool::new(false),
        };
        sandbox.prepare()?;
        sandbox.upload(&mounts)?;
        let command = NewCommand {
            arguments: vec![spec.program.to_owned(), tunnel_command::COMMAND.to_owned()],
            working_directory: "/",
            environment: Vec::new(),
        };
        let remote = &sandbox.remote;
        sandbox.tunnel = Some(remote.executor.block_on(async {
            let calls = remote.gateway.exec(&remote.address, &command).await?;
            tunnel::open(spec.services, calls, Arc::clone(&remote.lost)).await
        })?);
        Ok(sandbox)
    }

    /// The name and the version of the gateway, for the record.
    pub fn describe(&self) -> String {
        let Remote { gateway, address, .. } = &*self.remote;
        format!("{} on the OpenShell gateway {} {}", address.name, gateway.endpoint(), gateway.version)
    }

    pub(in crate::backend) fn root(&self) -> BorrowedFd<'_> {
        self.copy_root.as_fd()
    }

    pub(in crate::backend) fn gateway_address(&self) -> SocketAddr {
        self.gateway_address
    }

    pub(in crate::backend) fn lost(&self) -> Option<OpenshellError> {
        self.remote.lost.get().cloned()
    }

    /// The directories, and our own program unless the image has the same version of it.
    fn prepare(&self) -> Result<(), OpenshellError> {
        let program = self.remote.program;
        let script =
            format!("mkdir -p {PIDS} /sandbox/workspace && ln -sfn /sandbox/workspace /tmp/workspace");
        self.remote.shell("the preparation", &script, SHORT, |_| Ok(()))?;
        let arguments = vec![program.to_owned(), "--version".to_owned()];
        let version = Job { what: "its version", arguments, reports: false };
        let found = self.remote.run(version, SHORT, |_| Ok(()), read_all);
        let own = format!("fullsend {}", env!("CARGO_PKG_VERSION"));
        if found.is_ok_and(|found| String::from_utf8_lossy(&found).trim_start().starts_with(&own)) {
            return Ok(());
        }
        let script =
            format!("cat > {program}.new && chmod 755 {program}.new && mv -f {program}.new {program}");
        self.remote.shell("the upload of fullsend", &script, LONG, |mut input| {
            std::io::copy(&mut std::fs::File::open("/proc/self/exe")?, &mut input).map(drop)
        })
    }

    fn upload(&self, mounts: &[Mount]) -> Result<(), OpenshellError> {
        for root in ROOTS {
            let below = files::below(mounts, root);
            if !below.is_empty() {
                self.upload_below(&below, root)?;
            }
        }
        Ok(())
    }

    fn upload_below(&self, mounts: &[&Mount], root: &str) -> Result<(), OpenshellError> {
        let words = [inside_files::PUT_TREE, root];
        let job = self.remote.files_job("an upload", &words);
        let answer = self.remote.run(job, LONG, |input| files::pack(mounts, root, input), read_all)?;
        let wrong = |why: String| OpenshellError::Inside { what: "an upload".to_owned(), why };
        match serde_json::from_slice(&answer) {
            Ok(FilesReply::Written { .. }) => Ok(()),
            Ok(FilesReply::Error { message, .. }) => Err(wrong(message)),
            Ok(_) | Err(_) => Err(wrong("it gave no answer".to_owned())),
        }
    }

    pub(in crate::backend) fn deliver(&self) -> Result<(), OpenshellError> {
        self.upload(&self.staged)
    }

    pub(in crate::backend) fn collect(&self) -> Result<(), OpenshellError> {
        self.collected.iter().try_for_each(|directory| self.download(directory))
    }

    fn download(&self, directory: &str) -> Result<(), OpenshellError> {
        let into = self.copy.join(directory.trim_start_matches('/'));
        let words = [inside_files::GET, directory];
        let job = self.remote.files_job("a download", &words);
        let remote = &self.remote;
        remote.run(job, LONG, |_| Ok(()), |output| unpack(output, &into)).map(drop)
    }

    pub(in crate::backend) fn exec(
        &self,
        command: Command,
    ) -> Result<(Pipes, End, SignalTarget), OpenshellError> {
        let Command { arguments, environment, working_directory, stdin, stdout, stderr, .. } = command;
        let pid_file = format!("{PIDS}/{}.pid", self.next_command.fetch_add(1, Ordering::Relaxed));
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let script = ["/bin/sh", "-c", r#"echo $$ > "$0"; exec "$@""#, &pid_file];
        let what = arguments.first().map(text).unwrap_or_default();
        let new = NewCommand {
            arguments: script
                .iter()
                .map(|word| (*word).to_owned())
                .chain(arguments.iter().map(text))
                .collect(),
            working_directory: &working_directory.to_string_lossy(),
            environment: self.remote.environment(&environment),
        };
        let streams = Streams { stdin, stdout, stderr };
        let (pipes, end) = self.remote.start(&new, streams, format!("`{what}`"), None)?;
        Ok((pipes, end, SignalTarget { remote: Arc::clone(&self.remote), pid_file }))
    }

    /// Kills the commands that were started with `exec`, and their process groups.
    pub(in crate::backend) fn end_commands(&self) -> Result<(), OpenshellError> {
        let script = format!(
            "for file in {PIDS}/*.pid; do [ -f \"$file\" ] && read pid < \"$file\" && {{ kill -s KILL -- -$pid || kill -s KILL $pid; }} \
             2> /dev/null; done; true"
        );
        self.remote.shell("the end of its commands", &script, SHORT, |_| Ok(()))
    }

    pub(in crate::backend) fn close(mut self) -> Result<(), TeardownError> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), TeardownError> {
        self.deleted.store(true, Ordering::Relaxed);
        drop(self.tunnel.take());
        drop(std::fs::remove_dir_all(&self.copy)); // the run's directory is cleaned at its end
        let Remote { gateway, address, providers, executor, .. } = &*self.remote;
        executor.block_on(delete(gateway, &address.name, providers)).map_err(|left| TeardownError::LeftOver {
            names: left.names.join(", "),
            gateway: gateway.endpoint(),
            why: Box::new(left.why.into()),
            commands: left.commands.join(" and "),
        })
    }
}

impl Drop for OpenshellSandbox {
    fn drop(&mut self) {
        if !self.deleted.load(Ordering::Relaxed) {
            // A caller that wants to know calls `close`.
            drop(self.take_down());
        }
    }
}

/// Deletes a sandbox, then its providers. If a call fails, all calls are repeated.
async fn delete(gateway: &OpenshellGateway, name: &str, providers: &[String]) -> Result<(), NotDeleted> {
    let mut result = delete_once(gateway, name, providers).await;
    for pause in DELETE_AGAIN {
        if result.as_ref().err().is_none_or(|left| left.why.is_denied()) {
            break;
        }
        tokio::time::sleep(pause).await;
        result = delete_once(gateway, name, providers).await;
    }
    result
}

/// What is left on the gateway.
struct NotDeleted {
    names: Vec<String>,
    /// How each is deleted by hand.
    commands: Vec<String>,
    /// The first reason.
    why: CallError,
}

/// Tries all of them even if one fails, because a provider contains a secret.
async fn delete_once(gateway: &OpenshellGateway, name: &str, providers: &[String]) -> Result<(), NotDeleted> {
    let mut failed = vec![(name, "sandbox", gateway.delete(name).await)];
    for provider in providers {
        failed.push((provider, "provider", providers::delete(gateway, provider).await));
    }
    failed.retain(|(_, _, result)| result.is_err());
    let names = failed.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    let command = |(name, kind, _): &(&str, &str, _)| format!("`openshell {kind} delete {name}`");
    let commands = failed.iter().map(command).collect();
    match failed.into_iter().find_map(|(_, _, result)| result.err()) {
        Some(why) => Err(NotDeleted { names, commands, why }),
        None => Ok(()),
    }
}

fn left_over(error: &OpenshellError, name: &str, left: &NotDeleted) -> OpenshellError {
    let NotDeleted { names, commands, why } = left;
    let why = format!(
        "{error}; {} may be left on the gateway: {why}; delete with {}",
        names.join(", "),
        commands.join(" and ")
    );
    OpenshellError::Inside { what: format!("the start of {name}"), why }
}

/// A command that can be signalled.
pub(in crate::backend) struct SignalTarget {
    remote: Arc<Remote>,
    pid_file: String,
}

impl SignalTarget {
    pub(in crate::backend) fn signal(&self, signal: i32) -> Result<(), OpenshellError> {
        let file = &self.pid_file;
        let script = format!(
            "[ -f {file} ] && read pid < {file} && {{ kill -{signal} -- -$pid || kill -{signal} $pid; }} 2> /dev/null; true"
        );
        self.remote.shell("a signal", &script, SHORT, |_| Ok(()))
    }
}

/// A command of ours.
struct Job {
    what: &'static str,
    arguments: Vec<String>,
    /// Whether its output says what went wrong.
    reports: bool,
}

impl Remote {
    fn files_job(&self, what: &'static str, words: &[&str]) -> Job {
        let caps = [files::CAPS.bytes.to_string(), files::CAPS.files.to_string()];
        let start = [self.program, inside_files::COMMAND].into_iter().chain(words.iter().copied());
        Job { what, arguments: start.map(str::to_owned).chain(caps).collect(), reports: true }
    }

    fn environment(&self, top: &[(OsString, OsString)]) -> Vec<(String, String)> {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let base = self.environment.iter().filter(|(name, _)| !top.iter().any(|(other, _)| other == name));
        base.chain(top).map(|(name, value)| (text(name), text(value))).collect()
    }

    fn start(
        &self,
        new: &NewCommand<'_>,
        streams: Streams,
        what: String,
        limit: Option<Duration>,
    ) -> Result<(Pipes, End), OpenshellError> {
        let calls = self.executor.block_on(self.gateway.exec(&self.address, new))?;
        let watched = Watched { what: what.clone(), lost: Arc::clone(&self.lost), limit };
        process::connect(streams, calls, watched, &self.executor)
            .map_err(|error| OpenshellError::Inside { what, why: error.to_string() })
    }

    fn shell(
        &self,
        what: &'static str,
        script: &str,
        limit: Duration,
        input: impl FnOnce(PipeWriter) -> std::io::Result<()> + Send,
    ) -> Result<(), OpenshellError> {
        let arguments = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        self.run(Job { what, arguments, reports: false }, limit, input, read_all).map(drop)
    }

    /// Runs a command of ours to its end.
    fn run<T: Send>(
        &self,
        job: Job,
        limit: Duration,
        input: impl FnOnce(PipeWriter) -> std::io::Result<()> + Send,
        output: impl FnOnce(&mut dyn Read) -> std::io::Result<T>,
    ) -> Result<T, OpenshellError> {
        let Job { what, arguments, reports } = job;
        let new = NewCommand { arguments, working_directory: "/", environment: Vec::new() };
        let streams = Streams { stdin: Stdio::Pipe, stdout: Stdio::Pipe, stderr: Stdio::Pipe };
        let (pipes, end) = self.start(&new, streams, what.to_owned(), Some(limit))?;
        let Pipes { stdin, stdout, stderr } = pipes;
        let wrong = |why: String| OpenshellError::Inside { what: what.to_owned(), why };
        let (sent, received, errors) = std::thread::scope(|scope| {
            let sending = scope.spawn(move || stdin.map_or(Ok(()), input));
            let complaining = scope.spawn(move || {
                let mut text = String::new();
                drop(stderr.map(|stderr| stderr.take(1 << 12).read_to_string(&mut text)));
                text
            });
            let received = match stdout {
                Some(mut stdout) => output(&mut stdout),
                None => Err(std::io::ErrorKind::BrokenPipe.into()),
            };
            (sending.join(), received, complaining.join().unwrap_or_default())
        });
        // Its streams are closed when the limit has passed, and then its end is known.
        match end.wait(SHORT) {
            None => return Err(wrong("its end is not known".to_owned())),
            Some(Err(error)) => return Err(error),
            Some(Ok(exit)) if exit.success() || reports => {}
            Some(Ok(exit)) => {
                let why =
                    if errors.trim().is_empty() { format!("{exit:?}") } else { errors.trim().to_owned() };
                return Err(wrong(why));
            }
        }
        if let Ok(Err(error)) = sent {
            return Err(wrong(error.to_string()));
        }
        received.map_err(|error| wrong(error.to_string()))
    }
}

fn read_all(output: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads one line that describes the data, then an archive. It replaces earlier contents.
fn unpack(output: &mut dyn Read, into: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(into) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::create_dir_all(into)?,
    }
    let mut output = BufReader::with_capacity(1 << 16, output);
    let mut line = String::new();
    (&mut output).take(1 << 16).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        FilesReply::Directory => {
            archive::unpack(&mut output, &files::open_directory(into)?, files::CAPS)?;
        }
        FilesReply::Error { message, .. } => return Err(std::io::Error::other(message)),
        FilesReply::Written { .. } | FilesReply::File { .. } => {
            return Err(std::io::Error::other("it is not a directory"));
        }
    }
    // Bytes after the archive's end are read too, so that the command can end.
    std::io::copy(&mut output, &mut std::io::sink()).map(drop)
}
