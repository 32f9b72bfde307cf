//! The owner of one lasting sandbox: a process of its own that starts the sandbox, serves its socket, keeps its record, and
//! ends it. The sandbox dies with the owner, whatever happens to it.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use policy::Policy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use sandbox::{SandboxLimits, channel};
use yaml::Sources;

use super::connection;
use super::directory::{EVENTS, MANIFEST_VERSION, SOCKET, STATES, SandboxManifest, expiry, write_manifest};
use super::owned::{OwnedSandbox, STACK_BYTES};
use super::protocol::{LastingLimits, OwnerReply, OwnerSpec, OwnerStart, PROTOCOL};
use crate::check::policies::{CheckedPolicy, unenforceable};
use crate::event::clock::Moment;
use crate::event::exit::Exit;
use crate::event::lasting::SandboxEnd;
use crate::event::log::Emitter;
use crate::event::{LastingEvent, RunEvent};
use crate::image::{self, Caps};
use crate::provision::policy_sandbox::{self, PolicySandboxSpec};
use crate::resolve::layers::{LayerKind, LayerPath};

/// The hidden command.
pub const COMMAND: &str = "__sandbox";

/// The owner ends the sandbox in time. If the owner hangs, the sandbox's own limit ends it this much later.
const START_ALLOWANCE: Duration = Duration::from_secs(60);

/// Runs until the sandbox has ended. The spec comes through standard input, which is a socket.
pub fn main() -> ExitCode {
    // Leave the creator's session, so that its terminal and signals do not reach us.
    let _ = rustix::process::setsid();
    let Ok(control) = rustix::stdio::stdin().try_clone_to_owned() else { return Exit::Bug.into() };
    let control = UnixStream::from(control);
    let Ok(Some((spec, descriptors))) = channel::receive::<OwnerSpec>(&control) else {
        return Exit::Usage.into();
    };
    let detached = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .and_then(|null| rustix::stdio::dup2_stdin(&null));
    if detached.is_err() {
        return Exit::Bug.into();
    }
    match start(spec) {
        Ok(started) => {
            // The creator may be gone; the sandbox stays until its time is over.
            drop(channel::send(&control, &OwnerStart::Ready, &[]));
            drop(control);
            started.serve(descriptors.first());
            Exit::Done.into()
        }
        Err(message) => {
            drop(channel::send(&control, &OwnerStart::Failed { message }, &[]));
            Exit::SandboxUnavailable.into()
        }
    }
}

struct StartedOwner {
    owner: OwnedSandbox,
    listener: UnixListener,
    woken: PipeReader,
    spec: OwnerSpec,
    deadline: Instant,
    _executor: tokio::runtime::Runtime,
}

fn start(spec: OwnerSpec) -> Result<StartedOwner, String> {
    let failed = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
    let emit = Emitter::create(&spec.directory.join(EVENTS), |_| {}).map_err(failed("start the record"))?;
    emit.keep_secret(redact::Redactor::new());
    let mut sources = Sources::default();
    let policy = parse_policy(&spec, &mut sources)?;
    let image = match &spec.image {
        Some((path, cache)) => {
            Some(image::prepare(path, cache, Caps::default()).map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let executor = executor.map_err(failed("start threads"))?;
    emit.emit(RunEvent::Lasting { event: created(&spec) });
    let for_events = emit.clone();
    let policy_sandbox = policy_sandbox::start(&PolicySandboxSpec {
        policy: &policy,
        image: image.as_ref(),
        directory: spec.repository.as_deref(),
        state: spec.directory.join(STATES).join("one"),
        limits: limits(spec.limits, spec.ttl_seconds),
        sources: &sources,
        on_event: Arc::new(move |event| for_events.emit(RunEvent::Egress { event })),
        executor: executor.handle().clone(),
    })
    .map_err(|error| error.to_string())?;
    policy_sandbox.record(&emit);
    let listener = listen(&spec.directory).map_err(failed("listen on the sandbox's socket"))?;
    let now = Moment::now();
    let text = |path: &Path| path.display().to_string();
    let manifest = SandboxManifest {
        v: MANIFEST_VERSION,
        protocol: PROTOCOL,
        id: spec.id.clone(),
        name: spec.name.clone(),
        created: now.rfc3339(),
        expires: expiry(now, spec.ttl_seconds).rfc3339(),
        policy: spec.policy_name.clone(),
        image: spec.image.as_ref().map(|(path, _)| text(path)),
        repository: spec.repository.as_deref().map(text),
        workspace: text(&policy_sandbox.directory),
        uid: policy_sandbox.identity.uid,
        owner_pid: std::process::id(),
        fullsend: env!("CARGO_PKG_VERSION").to_owned(),
    };
    write_manifest(&spec.directory, &manifest).map_err(failed("write the manifest"))?;
    let (woken, wake) = io::pipe().map_err(failed("make a pipe"))?;
    // The time to live counts from now: a slow start does not shorten it.
    let deadline = Instant::now() + Duration::from_secs(spec.ttl_seconds);
    let owner = OwnedSandbox::new(policy_sandbox, emit, wake);
    Ok(StartedOwner { owner, listener, woken, spec, deadline, _executor: executor })
}

fn created(spec: &OwnerSpec) -> LastingEvent {
    let text = |path: Option<&Path>| path.map(|path| path.display().to_string()).unwrap_or_default();
    LastingEvent::Created {
        sandbox: spec.id.clone(),
        name: spec.name.clone().unwrap_or_default(),
        policy: spec.policy_name.clone(),
        image: text(spec.image.as_ref().map(|(path, _)| path.as_path())),
        repository: text(spec.repository.as_deref()),
        ttl_seconds: spec.ttl_seconds,
        fullsend: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// `sandbox create` has already printed the diagnostics of the policy.
fn parse_policy(spec: &OwnerSpec, sources: &mut Sources) -> Result<CheckedPolicy, String> {
    let id = sources.add(&spec.policy_name, spec.policy_text.clone());
    let wrong = || format!("{} is not a valid policy", spec.policy_name);
    let parsed = Policy::parse(sources, id).map_err(|_| wrong())?;
    if unenforceable(&parsed.policy).iter().any(yaml::Diagnostic::is_error) {
        return Err(format!("the policy {} cannot be enforced on this machine", spec.policy_name));
    }
    let effective = policy::baseline(&parsed.policy);
    let found = LayerPath { layer: LayerKind::Repository, path: spec.policy_name.clone() };
    Ok(CheckedPolicy { found, policy: parsed.policy, effective })
}

fn limits(limits: LastingLimits, ttl_seconds: u64) -> SandboxLimits {
    let LastingLimits { memory_mb, pids, file_mb, open_files, disk_mb } = limits;
    SandboxLimits {
        memory_bytes: Some(memory_mb << 20),
        processes: Some(pids),
        cpu_weight: None,
        file_bytes: Some(file_mb << 20),
        open_files: Some(open_files),
        disk_bytes: Some(disk_mb << 20),
        wall_clock: Some(Duration::from_secs(ttl_seconds) + START_ALLOWANCE),
    }
}

/// Binds through the directory's descriptor, because the path of a socket has a short limit.
fn listen(directory: &Path) -> io::Result<UnixListener> {
    let opened = std::fs::File::open(directory)?;
    let short = format!("/proc/self/fd/{}/{SOCKET}", std::os::fd::AsRawFd::as_raw_fd(&opened));
    UnixListener::bind(short)
}

impl StartedOwner {
    /// Serves until the end, and takes everything down.
    fn serve(self, parent: Option<&OwnedFd>) {
        let (reason, detail) = std::thread::scope(|scope| {
            let reason = self.wait(parent, |stream| {
                let owner = &self.owner;
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                // Without a thread for it a client sees a closed connection.
                drop(thread.spawn_scoped(scope, move || connection::serve(stream, owner)));
            });
            let exceeded = self.owner.policy_sandbox.sandbox.exceeded();
            // Every wait for a command ends with the sandbox, and with it every thread.
            self.owner.policy_sandbox.sandbox.kill();
            let detail = exceeded.first().map(|over| format!("{}: {}", over.limit, over.detail));
            (reason, detail.unwrap_or_default())
        });
        let Self { owner, spec, .. } = self;
        let OwnedSandbox { policy_sandbox, emit, removers, .. } = owner;
        let closed = policy_sandbox.close();
        let detail = match closed {
            Ok(()) => detail,
            Err(error) => format!("{detail} {error}").trim().to_owned(),
        };
        emit.emit(RunEvent::Lasting { event: LastingEvent::Closed { reason, detail } });
        // A later sweep tries again.
        drop(std::fs::remove_file(spec.directory.join(SOCKET)));
        for stream in removers.into_inner().unwrap_or_else(PoisonError::into_inner) {
            drop(channel::send(&stream, &OwnerReply::Removed, &[]));
        }
    }

    /// Accepts clients until something ends the sandbox.
    fn wait(&self, parent: Option<&OwnedFd>, accept: impl Fn(UnixStream)) -> SandboxEnd {
        let first = Pid::from_raw(self.owner.policy_sandbox.sandbox.host_pid().cast_signed());
        let first = first.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(first) = first else { return SandboxEnd::Stopped };
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return SandboxEnd::Expired;
            }
            let mut polled = vec![
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.woken, PollFlags::IN),
                PollFd::new(&first, PollFlags::IN),
            ];
            polled.extend(parent.map(|parent| PollFd::from_borrowed_fd(parent.as_fd(), PollFlags::IN)));
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut polled, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return SandboxEnd::Stopped,
            }
            let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            drop(polled);
            match ready[..] {
                [_, true, ..] => return SandboxEnd::Removed,
                [_, _, true, ..] if self.deadline <= Instant::now() => return SandboxEnd::Expired,
                [_, _, true, ..] => return SandboxEnd::Stopped,
                [_, _, _, true] => return SandboxEnd::ParentEnded,
                [true, ..] => {
                    if let Ok((stream, _)) = self.listener.accept() {
                        accept(stream);
                    }
                }
                _ => {}
            }
        }
    }
}
