//! `__init`: the program inside. It is a straight list of privileged steps, in one thread, without async; where the order
//! matters, the step says why. At the end it is PID 1, confined like everything that it will start.

mod allowed_calls;
mod command_tree;
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
use crate::describe::{Description, IsolationMechanism};
use crate::identity::Mapping;
use crate::message::{InitReport, InitRequest};
use crate::spec::SandboxSpec;
use crate::step::{StartStep, StepContext, StepError};
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
    // If the host side is gone, no one reads this.
    drop(channel::send(control, &InitReport::Failed { step, on, errno }, &[]));
    1
}

fn run(control: &UnixStream) -> Result<Infallible, StepError> {
    // First: nothing exists yet that could outlive the host side.
    namespaces::die_with_parent(control)?;
    let (spec, mapping, admissions) = read_spec(control)?;
    // Before the first child: a child would start outside of the cgroups and stay there.
    for file in admissions {
        std::fs::write(&file, "0").at(StartStep::Limits, file.to_string_lossy())?;
    }
    let at = |step| spec.defences.reach(step);
    at(StartStep::ReadSpec)?;
    let sources = match mapping {
        // Namespaces first: an ordinary user may clone a mount only in a mount namespace of its own. It sees the
        // same files there.
        Mapping::Caller => {
            namespaces::enter(&spec, mapping, control)?;
            sources::open(&spec, mapping)?
        }
        // Sources first: in the new user namespace this process is not root any more, and only root may open
        // everything and map identities.
        Mapping::Fresh { .. } => {
            let sources = sources::open(&spec, mapping)?;
            namespaces::enter(&spec, mapping, control)?;
            sources
        }
    };
    // Again: the kernel clears the signal when the identity changes.
    namespaces::die_with_parent(control)?;
    at(StartStep::BecomePidOne)?;
    become_pid_one(control)?;
    // Again: a fork does not inherit the signal.
    namespaces::die_with_parent(control)?;
    at(StartStep::DieWithParent)?;
    build(&spec, mapping, sources, control)
}

/// What PID 1 does before it listens. After the pivot no path leads back to the host.
fn build(
    spec: &SandboxSpec,
    mapping: Mapping,
    sources: Sources,
    control: &UnixStream,
) -> Result<Infallible, StepError> {
    let at = |step| spec.defences.reach(step);
    // Name and network need capabilities that `confine` drops.
    at(StartStep::Hostname)?;
    namespaces::name_host(&spec.hostname)?;
    at(StartStep::Network)?;
    // Not in the host's network: what is set up there would be the host's.
    if spec.defences.has(IsolationMechanism::NetworkNamespace) {
        network::set_up(&spec.network)?;
    }
    // After the network: an address can be bound only once it is local. Before `confine`: port 53 needs a capability.
    at(StartStep::Sockets)?;
    network::hand_out_sockets(&spec.network, control)?;
    // Before everything that is mounted below it.
    at(StartStep::Root)?;
    let root = root::attach()?;
    // Before the pivot: the masks come from the host's /dev/null.
    at(StartStep::Proc)?;
    let nested = proc::mount(&root, &spec.defences)?;
    at(StartStep::NestedNamespaces)?;
    // Before the pivot: the nodes are those of the host.
    at(StartStep::Dev)?;
    dev::mount(&root)?;
    // After the fixed parts, so that the spec may mount something inside them.
    at(StartStep::Mounts)?;
    let views = mounts::mount_all(&root, spec, sources)?;
    // After the last mount: it makes the root read-only and detaches the host's files.
    at(StartStep::Pivot)?;
    root::pivot(&root)?;
    // Last: it takes away what every step above needs.
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
    // The caller's directory must not stay open in here.
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

/// Continues as PID 1 of the new pid namespace, a child of the host side, and reports it; this process ends. Only one of
/// the two may write to the socket.
fn become_pid_one(control: &UnixStream) -> Result<(), StepError> {
    match sys::clone_as_sibling().at(StartStep::BecomePidOne, "fork")? {
        CloneOutcome::Original => sys::exit_now(0),
        CloneOutcome::Sibling => {
            channel::send(control, &InitReport::PidOne, &[]).at(StartStep::BecomePidOne, "reporting it")
        }
    }
}
