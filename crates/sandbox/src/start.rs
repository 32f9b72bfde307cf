//! Starting a sandbox: what is made on the host, in order, and undone in reverse when a step fails.

use crate::channel;
use crate::check;
use crate::describe::Description;
use crate::error::StartError;
use crate::identity::{self, Mapping};
use crate::limits::{self, Cgroup, Watch};
use crate::running::{Sandbox, SandboxParts, Socket};
use crate::shared::Shared;
use crate::spec::{MountKind, SandboxSpec, SocketKind};
use crate::state_directory::{self, StateDirectory, UpperLayers};
use crate::step::{StartStep, StepContext};
use crate::supervisor::{self, SupervisorHandshake, SupervisorTask};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long everything may take to die after a failed start.
const FAILED_LIMIT: Duration = Duration::from_secs(5);

impl Sandbox {
    /// Builds the sandbox. When this returns an error, nothing of it is left.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a spec is used up by a start: its state directory is taken"
    )]
    pub fn start(spec: SandboxSpec) -> Result<Self, StartError> {
        spec.defences.reach(StartStep::CheckSpec)?;
        check::check(&spec)?;
        let mapping = identity::choose();
        let is_view = |kind: &MountKind| {
            matches!(
                kind,
                MountKind::CopyOnWrite(_) | MountKind::ReadOnlyView(_) | MountKind::ImageView { .. }
            )
        };
        let has_views = spec.mounts.iter().any(|mount| is_view(&mount.kind));
        let layers = if has_views { UpperLayers::Needed } else { UpperLayers::NotNeeded };
        let state = StateDirectory::make(&spec.state_directory, layers, mapping)?; // undone below or in `close`
        if let Err(e) = spec.defences.reach(StartStep::MakeState) {
            drop(state.remove());
            return Err(e.into());
        }
        let cgroup = Arc::new(Cgroup::create(&cgroup_name(), &spec.limits, |path| state.note_cgroup(path)));
        let sockets =
            UnixStream::pair().and_then(|(host, init)| channel::tell_senders(&host).map(|()| (host, init)));
        let shared = match sockets.at(StartStep::Handshake, "the control socket") {
            Ok((host, init)) => start_inside(&spec, mapping, host, init, &cgroup),
            Err(e) => Err(e.into()),
        };
        match shared {
            Ok((shared, started)) => Ok(finish(&spec, mapping, state, cgroup, shared, started)),
            Err(error) => {
                // Report the first error; a later sweep removes what is left.
                drop(cgroup.remove());
                drop(state.remove());
                Err(error)
            }
        }
    }
}

fn cgroup_name() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    format!("fullsend-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

fn start_inside(
    spec: &SandboxSpec,
    mapping: Mapping,
    host: UnixStream,
    init: UnixStream,
    cgroup: &Arc<Cgroup>,
) -> Result<(Arc<Shared>, SupervisorHandshake), StartError> {
    let shared = Arc::new(Shared::new(host));
    let (sender, receiver) = mpsc::channel();
    let work = SupervisorTask { spec: spec.clone(), mapping, cgroup: Arc::clone(cgroup), init_socket: init };
    let for_thread = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("sandbox".to_owned())
        .spawn(move || supervisor::supervise(work, &for_thread, &sender))
        .at(StartStep::Spawn, "the supervising thread")?;
    let lost = StartError::InitDied { after: StartStep::Spawn, how: "lost its supervisor".to_owned() };
    let outcome = receiver.recv().unwrap_or(Err(lost)).and_then(|mut started| {
        complete(spec, cgroup, &mut started.description)?;
        watch(spec, cgroup, &shared, &started)?;
        Ok(started)
    });
    match outcome {
        Ok(started) => Ok((shared, started)),
        Err(error) => {
            shared.kill();
            shared.wait_until_gone(FAILED_LIMIT);
            Err(error)
        }
    }
}

/// Adds the host side's limits to the description and refuses what is too weak.
fn complete(spec: &SandboxSpec, cgroup: &Cgroup, description: &mut Description) -> Result<(), StartError> {
    limits::describe(&spec.limits, cgroup, description);
    limits::check_floor(&spec.limits, &spec.accept_weaker, description)
}

fn watch(
    spec: &SandboxSpec,
    cgroup: &Cgroup,
    shared: &Arc<Shared>,
    started: &SupervisorHandshake,
) -> Result<(), StartError> {
    use crate::describe::Limit;
    let watch = Watch {
        pid: started.pid,
        layers: state_directory::layers(&spec.state_directory),
        memory_bytes: spec.limits.memory_bytes.filter(|_| cgroup.enforced_by(Limit::Memory).is_none()),
        disk_bytes: spec.limits.disk_bytes,
        wall_clock: spec.limits.wall_clock,
    };
    if watch.is_needed() {
        let shared = Arc::clone(shared);
        std::thread::Builder::new()
            .name("sandbox-watch".to_owned())
            .spawn(move || watch.run(&shared))
            .at(StartStep::Limits, "the watching thread")?;
    }
    Ok(())
}

fn finish(
    spec: &SandboxSpec,
    mapping: Mapping,
    state: StateDirectory,
    cgroup: Arc<Cgroup>,
    shared: Arc<Shared>,
    started: SupervisorHandshake,
) -> Sandbox {
    let SupervisorHandshake { pid, root, sockets, description } = started;
    let kinds = spec.network.sockets.iter().map(|socket| socket.kind);
    let make = |(kind, fd)| match kind {
        SocketKind::TcpListener => Socket::Tcp(std::net::TcpListener::from(fd)),
        SocketKind::Udp => Socket::Udp(std::net::UdpSocket::from(fd)),
    };
    let sockets = kinds.zip(sockets).map(make).collect();
    let environment = spec.environment.clone();
    let views =
        spec.mounts.iter().enumerate().filter(|(_, mount)| matches!(mount.kind, MountKind::CopyOnWrite(_)));
    let uppers = views.map(|(index, mount)| (mount.target.clone(), index)).collect();
    Sandbox::new(SandboxParts {
        uppers,
        shared,
        pid,
        mapping,
        root,
        sockets,
        description,
        environment,
        state,
        cgroup,
    })
}
