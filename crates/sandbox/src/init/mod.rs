//! `__init`: the program inside. A straight list of privileged steps, in one thread, without async, each with the reason
//! why it stands where it stands; then PID 1, confined like everything it will start.

mod confine;
mod copy;
mod dev;
mod edits;
mod idmap;
mod image;
mod landlock_rules;
mod layout;
mod mount_point;
mod mounts;
mod namespaces;
mod network;
mod probe;
mod proc;
mod root;
mod seccomp;
mod serve;
mod sources;
mod staging;
mod views;

use crate::channel;
use crate::describe::{Description, IsolationLayer};
use crate::identity::Mapping;
use crate::message::{InitReport, InitRequest};
use crate::spec::SandboxSpec;
use crate::step::{AtStep, StartStep, StepError};
use crate::sys::{self, CloneOutcome};
use rustix::fs::{Mode, OFlags};
use sources::Sources;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What the hidden subcommand calls, before anything else is built. Never returns.
pub fn main() -> ! {
    let code = match take_control_socket() {
        Ok(control) => match run(&control) {
            Ok(never) => match never {},
            Err(error) => report_failure(&control, error),
        },
        Err(_) => 70,
    };
    sys::exit_now(code)
}

fn report_failure(control: &UnixStream, error: StepError) -> i32 {
    let StepError { step, on, source } = error;
    let errno = source.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
    let on = if source.raw_os_error().is_some() { on } else { format!("{on} ({source})") };
    // If the host side is gone there is nobody left to tell.
    drop(channel::send(control, &InitReport::Failed { step, on, errno }, &[]));
    1
}

fn run(control: &UnixStream) -> Result<Infallible, StepError> {
    // Before anything exists that could outlive the host side.
    namespaces::die_with_parent(control)?;
    let (spec, mapping, admissions) = read_spec(control)?;
    // Before it starts anything, so that nothing of the sandbox is ever outside.
    for file in admissions {
        std::fs::write(&file, "0").at(StartStep::Limits, file.to_string_lossy())?;
    }
    let at = |step| spec.defences.reach(step);
    at(StartStep::ReadSpec)?;
    let sources = match mapping {
        // Only in the new mount namespace may an ordinary user clone a mount; its eyes are the same there.
        Mapping::Caller => {
            namespaces::enter(&spec, mapping, control)?;
            sources::open(&spec, mapping)?
        }
        // Only before it is root still root, who may open everything and map identities.
        Mapping::Fresh { .. } => {
            let sources = sources::open(&spec, mapping)?;
            namespaces::enter(&spec, mapping, control)?;
            sources
        }
    };
    // The signal is lost with a change of identity.
    namespaces::die_with_parent(control)?;
    at(StartStep::BecomePidOne)?;
    become_pid_one(control)?;
    // And it is not inherited by a fork.
    namespaces::die_with_parent(control)?;
    at(StartStep::DieWithParent)?;
    build(&spec, mapping, sources, control)
}

/// What PID 1 does before it listens. From the pivot on there is no way back to the host.
fn build(
    spec: &SandboxSpec,
    mapping: Mapping,
    sources: Sources,
    control: &UnixStream,
) -> Result<Infallible, StepError> {
    let at = |step| spec.defences.reach(step);
    at(StartStep::Hostname)?;
    namespaces::name_host(&spec.hostname)?;
    at(StartStep::Network)?;
    // In the host's network nothing may be set up, and a listener there would be the host's.
    if spec.defences.has(IsolationLayer::NetworkNamespace) {
        network::set_up(&spec.network)?;
    }
    // Ports below 1024 need the capability that is dropped below.
    at(StartStep::Sockets)?;
    network::hand_out_sockets(&spec.network, control)?;
    at(StartStep::Root)?;
    let root = root::attach()?;
    at(StartStep::Proc)?;
    let nested = proc::mount(&root, &spec.defences)?;
    at(StartStep::NestedNamespaces)?;
    at(StartStep::Dev)?;
    dev::mount(&root)?;
    // After the fixed parts, so that the spec may place something inside them.
    at(StartStep::Mounts)?;
    let views = mounts::mount_all(&root, spec, sources)?;
    at(StartStep::Pivot)?;
    root::pivot(&root)?;
    let description = confine::confine(spec, mapping, &views, nested)?;
    at(StartStep::Serve)?;
    serve(control, root, description)
}

fn serve(control: &UnixStream, root: OwnedFd, description: Description) -> Result<Infallible, StepError> {
    let listener = serve::Listener::new().at(StartStep::Serve, "the signal descriptor")?;
    channel::send(control, &InitReport::Ready { description }, &[root.as_fd()])
        .at(StartStep::Serve, "reporting readiness")?;
    drop(root);
    listener.run(control)
}

/// The control socket arrives as standard input; the three standard descriptors become `/dev/null`, and whatever else
/// was inherited is closed.
fn take_control_socket() -> io::Result<UnixStream> {
    // The caller's directory is nobody's business in here.
    rustix::process::chdir("/")?;
    let inherited = sys::take_standard_input();
    sys::close_from(3)?;
    let control = rustix::io::fcntl_dupfd_cloexec(&inherited, 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // Dropping `inherited` would close descriptor 0, which std believes to be open for ever.
    rustix::stdio::dup2_stdin(&null)?;
    std::mem::forget(inherited);
    Ok(UnixStream::from(control))
}

fn read_spec(control: &UnixStream) -> Result<(SandboxSpec, Mapping, Vec<OsString>), StepError> {
    match channel::receive(control).at(StartStep::ReadSpec, "the spec")? {
        Some((InitRequest::Begin { spec, mapping, admissions }, _)) => Ok((*spec, mapping, admissions)),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)).at(StartStep::ReadSpec, "the first message"),
    }
}

/// Continues as PID 1 of the new pid namespace, a child of the host side, and says so; this process ends. Only one of
/// the two may write to the socket.
fn become_pid_one(control: &UnixStream) -> Result<(), StepError> {
    match sys::clone_as_sibling().at(StartStep::BecomePidOne, "fork")? {
        CloneOutcome::Original => sys::exit_now(0),
        CloneOutcome::Sibling => {
            channel::send(control, &InitReport::PidOne, &[]).at(StartStep::BecomePidOne, "saying so")
        }
    }
}
