//! Servers on the host that the agent may call. Each is started before the agent with its own environment and token, is
//! checked until it is ready, is never restarted, and ends with the run, however the run ends.

mod health;
mod output;
pub(crate) mod supervise;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use egress::credentials::Secret;
use egress::dial::HostService;

use super::RunContext;
use crate::event::log::Emitter;
use crate::event::{RunEvent, ServerState};
use crate::harness::{ApiServer, Harness};
use crate::scripts::{self, memory};
use output::Output;
use sandbox::HostPrograms;

/// The variable in which a server finds the token that it must ask for.
pub const TOKEN: &str = "FULLSEND_API_TOKEN";

/// The domain of their names inside.
const DOMAIN: &str = "api.fullsend.internal";

/// Longer than the supervisor takes to end everything.
const END_TIME: Duration = Duration::from_secs(5);

/// The servers of one run. Dropping it ends them.
#[derive(Default)]
pub struct ApiServers {
    running: Vec<Running>,
}

struct Running {
    service: HostService,
    token: Secret,
    /// The supervisor ends everything when this closes; the kernel closes it when this process dies.
    lifeline: Option<ChildStdin>,
    supervisor: u32,
    watcher: Option<JoinHandle<()>>,
    /// Set before the lifeline is closed, so that an exit that we caused is not reported.
    stopping: Arc<OnceLock<()>>,
}

#[derive(Debug)]
pub struct ServerError {
    name: String,
    why: String,
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the api server `{}` {}", self.name, self.why)
    }
}

impl std::error::Error for ServerError {}

/// The name by which the sandbox reaches a server.
pub fn host(server: &ApiServer) -> String {
    format!("{}.{DOMAIN}", server.name.value)
}

/// Starts all of them, then waits until each is ready.
pub fn start(
    harness: &Harness,
    deadline: Instant,
    around: &RunContext<'_>,
) -> Result<ApiServers, ServerError> {
    let mut servers = ApiServers::default();
    for server in &harness.api_servers {
        let wrong = |why: String| ServerError { name: server.name.to_string(), why };
        servers.running.push(start_one(server, around).map_err(wrong)?);
    }
    for (server, running) in harness.api_servers.iter().zip(&servers.running) {
        let wrong = |why: String| ServerError { name: server.name.to_string(), why };
        health::wait(server, &running.service, &running.token, deadline).map_err(wrong)?;
        around.emit.emit(RunEvent::ApiServer {
            name: server.name.to_string(),
            state: ServerState::Ready,
            detail: format!("http://{}:{}", running.service.host, running.service.port),
        });
    }
    Ok(servers)
}

fn start_one(server: &ApiServer, around: &RunContext<'_>) -> Result<Running, String> {
    let found = around.library.find(&server.script.value, server.script.at, "script").ok();
    let program = found.and_then(|found| around.library.layers.host_path(&found));
    let program = program.ok_or_else(|| format!("has no program `{}`", server.script.as_str()))?;
    let token = Secret::new(format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()));
    around.guard.add_known_value(TOKEN, token.reveal()).map_err(|error| error.to_string())?;
    let address = free_address().map_err(|error| format!("finds no free port: {error}"))?;
    let environment = environment(server, around, address.port(), &token)?;
    let path = around.directory.join(format!("api-{}.log", server.name.value));
    let mut output =
        Output::create(&path, around.guard).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut child, group) = spawn(&program, environment, around.repository)
        .map_err(|error| format!("cannot be started: {error}"))?;
    output.keep(child.stdout.take());
    output.keep(child.stderr.take());
    let ended = Arc::new(OnceLock::new());
    let stopping = Arc::new(OnceLock::new());
    let port = u16::try_from(server.port.get()).map_err(|_| "has an invalid port".to_owned())?;
    let service = HostService { host: host(server), port, address, ended: Arc::clone(&ended) };
    let lifeline = child.stdin.take();
    let supervisor = child.id();
    let name = server.name.to_string();
    let watched = Watched { name, path, ended, stopping: Arc::clone(&stopping), group };
    let emit = around.emit.clone();
    let watcher = std::thread::spawn(move || watched.watch(child, output, &emit));
    Ok(Running { service, token, lifeline, supervisor, watcher: Some(watcher), stopping })
}

/// Closed again at once: the server binds it. If another process takes it first, the server exits, which is reported.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The base of a script's environment, then the server's own, then what fullsend says.
fn environment(
    server: &ApiServer,
    around: &RunContext<'_>,
    port: u16,
    token: &Secret,
) -> Result<BTreeMap<String, String>, String> {
    let mut all = scripts::base_environment(around.environment);
    for (name, value) in server.env.0.iter() {
        let value =
            value.expand(around.variables).map_err(|unset| format!("needs {unset}, which is not set"))?;
        // The server's output must not reveal the secrets that the server keeps from the agent.
        if redact::find_secret_in_field(&name.value, &value).is_some() {
            around.guard.add_known_value(&name.value, &value).map_err(|error| error.to_string())?;
        }
        all.insert(name.value.clone(), value);
    }
    all.insert("PORT".to_owned(), port.to_string());
    all.insert(TOKEN.to_owned(), token.reveal().to_owned());
    Ok(all)
}

/// Through a supervisor: this program again, which ends with us and leaves no process behind.
fn spawn(
    program: &Path,
    environment: BTreeMap<String, String>,
    place: &Path,
) -> std::io::Result<(Child, Arc<HostPrograms>)> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(supervise::COMMAND)
        .arg(program)
        .current_dir(place)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let group = memory::admit(&mut command)?;
    Ok((command.spawn()?, group))
}

/// Waits for the exit of one server, and reports it if we did not cause it.
struct Watched {
    name: String,
    path: PathBuf,
    ended: Arc<OnceLock<String>>,
    stopping: Arc<OnceLock<()>>,
    group: Arc<HostPrograms>,
}

impl Watched {
    fn watch(self, mut child: Child, output: Output, emit: &Emitter) {
        let killed_before = self.group.killed();
        let how = match child.wait() {
            Ok(status) => scripts::exit_code(status).to_string(),
            Err(error) => error.to_string(),
        };
        output.finish();
        if self.stopping.get().is_some() {
            return;
        }
        let log = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut detail = format!("has ended with {how} and is not started again (see {log})");
        if self.group.killed() > killed_before {
            detail.push_str(&format!(": {}", memory::exceeded(self.group.memory_bytes())));
        }
        let _first = self.ended.set(format!("the api server `{}` {detail}", self.name));
        emit.emit(RunEvent::ApiServer { name: self.name, state: ServerState::Ended, detail });
    }
}

impl ApiServers {
    pub fn services(&self) -> Vec<HostService> {
        self.running.iter().map(|running| running.service.clone()).collect()
    }

    /// The tokens that the proxy sends to each server, and no other program can.
    pub fn tokens(&self) -> impl Iterator<Item = (&HostService, &Secret)> {
        self.running.iter().map(|running| (&running.service, &running.token))
    }
}

impl Drop for ApiServers {
    fn drop(&mut self) {
        for running in &mut self.running {
            let _said = running.stopping.set(());
            drop(running.lifeline.take());
        }
        for running in &mut self.running {
            running.wait();
        }
    }
}

impl Running {
    /// The supervisor ends by itself; one that was stopped from outside is ended here.
    fn wait(&mut self) {
        let Some(watcher) = self.watcher.take() else { return };
        let deadline = Instant::now() + END_TIME;
        while !watcher.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !watcher.is_finished()
            && let Some(pid) = i32::try_from(self.supervisor).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _gone = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        drop(watcher.join());
    }
}
