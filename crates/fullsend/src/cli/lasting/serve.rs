//! `fullsend sandbox serve --stdio`: the verbs of a lasting sandbox for other programs, as JSON-RPC 2.0, one message a line.
//! Each request is answered by a thread of its own, so many commands run at once.

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use sandbox::{CommandExit, TransferCaps};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::super::exit::{Exit, Failure};
use super::super::pull_options::PullOptions;
use super::super::sandbox_options::code;
use super::serve_parameters::{
    CancelParameters, CreateParameters, ExecParameters, GetParameters, InitializeParameters, ListParameters,
    PutParameters, RpcRequest, SandboxParameter,
};
use super::{create, exec, inspect};
use crate::archive::inside_files::FilesProblem;
use crate::lasting::client::{SandboxClient, SandboxClientError};
use crate::lasting::collect;
use crate::lasting::directory::{LastingDirectory, LastingState};
use crate::lasting::protocol::{ExecPurpose, ExecSpec};
use crate::lasting::pump::CommandInput;
use crate::lasting::transfer::{self, FilesError, GotFiles, WantedFiles};

/// The version of the protocol that other programs speak.
const PROTOCOL: u32 = 1;
/// A line holds the contents of a file in base64.
const MAX_LINE_BYTES: u64 = 192 << 20;
const MAX_OUTPUT_BYTES: usize = 16 << 20;
const MAX_REQUESTS: usize = 256;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Use standard input and output, the only transport
    #[arg(long, required = true)]
    stdio: bool,
}

/// Why a request failed.
struct RpcError {
    code: i32,
    kind: &'static str,
    message: String,
}

impl RpcError {
    fn invalid(message: impl Into<String>) -> Self {
        Self { code: -32602, kind: "invalid_params", message: message.into() }
    }

    fn other(kind: &'static str, message: impl Into<String>) -> Self {
        Self { code: -32000, kind, message: message.into() }
    }
}

impl From<Failure> for RpcError {
    fn from(failure: Failure) -> Self {
        Self::other("unavailable", failure.message)
    }
}

impl From<SandboxClientError> for RpcError {
    fn from(error: SandboxClientError) -> Self {
        let kind = match &error {
            SandboxClientError::Refused { errno: Some(errno), .. } => {
                match rustix::io::Errno::from_raw_os_error(*errno) {
                    rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => "command_not_found",
                    rustix::io::Errno::ACCESS | rustix::io::Errno::PERM | rustix::io::Errno::NOEXEC => {
                        "permission_denied"
                    }
                    _ => "not_started",
                }
            }
            SandboxClientError::NotRunning { .. } => "not_running",
            SandboxClientError::OtherVersion { .. }
            | SandboxClientError::Connection { .. }
            | SandboxClientError::Refused { errno: None, .. }
            | SandboxClientError::Gone { .. } => "unavailable",
        };
        Self::other(kind, error.to_string())
    }
}

impl From<FilesError> for RpcError {
    fn from(error: FilesError) -> Self {
        let message = error.to_string();
        match error {
            FilesError::Client(error) => error.into(),
            FilesError::Inside { problem, .. } => Self::other(
                match problem {
                    FilesProblem::NotFound => "not_found",
                    FilesProblem::PermissionDenied => "permission_denied",
                    FilesProblem::IsADirectory => "is_a_directory",
                    FilesProblem::NotADirectory => "not_a_directory",
                    FilesProblem::TooLarge => "too_large",
                    FilesProblem::Other => "failed",
                },
                message,
            ),
            FilesError::Host { .. } => Self::other("host", message),
        }
    }
}

/// What all requests share.
#[derive(Default)]
struct Service {
    writing: Mutex<()>,
    /// Commands that can be cancelled, by the text of their request's id.
    running: Mutex<HashMap<String, UnixStream>>,
    requests: AtomicUsize,
}

pub fn run(_: &Arguments) -> Result<Exit, Failure> {
    let service = Arc::new(Service::default());
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(Exit::Done);
        }
        if line.last() != Some(&b'\n') && read as u64 == MAX_LINE_BYTES {
            return Err(Failure::new(
                Exit::Usage,
                format!("a request is longer than {MAX_LINE_BYTES} bytes"),
            ));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<RpcRequest>(&line) {
            Ok(request) => service.start(request),
            Err(error) => service.answer(
                &Json::Null,
                Err(RpcError { code: -32700, kind: "parse", message: error.to_string() }),
            ),
        }
    }
}

impl Service {
    fn start(self: &Arc<Self>, request: RpcRequest) {
        let service = Arc::clone(self);
        if self.requests.fetch_add(1, Ordering::SeqCst) >= MAX_REQUESTS {
            self.requests.fetch_sub(1, Ordering::SeqCst);
            return self.answer(
                &request.id.unwrap_or_default(),
                Err(RpcError::other("busy", format!("{MAX_REQUESTS} requests run already"))),
            );
        }
        std::thread::spawn(move || {
            let result = service.call(&request);
            if let Some(id) = &request.id {
                service.answer(id, result);
            }
            service.requests.fetch_sub(1, Ordering::SeqCst);
        });
    }

    fn answer(&self, id: &Json, result: Result<Json, RpcError>) {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(RpcError { code, kind, message }) => json!({
                "jsonrpc": "2.0", "id": id,
                "error": { "code": code, "message": message, "data": { "kind": kind } },
            }),
        };
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        // A client that is gone closes our input too, which ends us.
        drop(out.write_all(&line).and_then(|()| out.flush()));
    }

    fn call(&self, request: &RpcRequest) -> Result<Json, RpcError> {
        let params = &request.params;
        match request.method.as_str() {
            "initialize" => initialize(&parse(params)?),
            "create" => create_one(parse(params)?),
            "exec" => self.exec(&request.id.clone().unwrap_or_default().to_string(), parse(params)?),
            "cancel" => self.cancel(&parse(params)?),
            "put" => put(parse(params)?),
            "get" => get(parse(params)?),
            "list" => list(&parse(params)?),
            "show" => Ok(inspect::described(&super::find(&parse::<SandboxParameter>(params)?.sandbox)?)),
            "logs" => {
                let events = inspect::events(&super::find(&parse::<SandboxParameter>(params)?.sandbox)?)?;
                Ok(serde_json::to_value(events).unwrap_or_default())
            }
            "rm" => {
                super::client(&parse::<SandboxParameter>(params)?.sandbox)?.remove()?;
                Ok(json!({}))
            }
            method => Err(RpcError {
                code: -32601,
                kind: "method_not_found",
                message: format!("there is no method `{method}`"),
            }),
        }
    }

    fn exec(&self, id: &str, parameters: ExecParameters) -> Result<Json, RpcError> {
        let ExecParameters { sandbox, command, cwd, env, user, stdin, timeout_ms, max_output_bytes } =
            parameters;
        let found = super::find(&sandbox)?;
        exec::check_user(&found, user.as_deref())
            .map_err(|failure| RpcError::other("user_unsupported", failure.message))?;
        let client = SandboxClient::open(&found)?;
        let spec = ExecSpec {
            arguments: command.into_iter().map(Into::into).collect(),
            environment: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            working_directory: cwd,
            terminal: false,
            timeout_ms,
            purpose: ExecPurpose::Command,
        };
        let input =
            stdin.as_deref().map(decode).transpose()?.map_or(CommandInput::Nothing, CommandInput::Bytes);
        let most = max_output_bytes.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES);
        let collected = collect::run(&client, spec, input, most, |connection| {
            self.running().insert(id.to_owned(), connection);
        });
        self.running().remove(id);
        let collected = collected?;
        let signal = match collected.end.exit {
            CommandExit::Signal(signal) => Some(signal),
            CommandExit::Code(_) => None,
        };
        Ok(json!({
            "exit_code": code(collected.end.exit),
            "signal": signal,
            "timed_out": collected.end.timed_out,
            "stdout": STANDARD.encode(&collected.stdout),
            "stderr": STANDARD.encode(&collected.stderr),
            "truncated": collected.truncated,
        }))
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, UnixStream>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self, parameters: &CancelParameters) -> Result<Json, RpcError> {
        let cancelled = match self.running().get(&parameters.request.to_string()) {
            Some(connection) => connection.shutdown(std::net::Shutdown::Both).is_ok(),
            None => false,
        };
        Ok(json!({ "cancelled": cancelled }))
    }
}

fn parse<T: DeserializeOwned>(params: &Json) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params.clone() };
    serde_json::from_value(params).map_err(|error| RpcError::invalid(error.to_string()))
}

fn decode(text: &str) -> Result<Vec<u8>, RpcError> {
    STANDARD.decode(text).map_err(|error| RpcError::invalid(format!("not base64: {error}")))
}

fn initialize(parameters: &InitializeParameters) -> Result<Json, RpcError> {
    if parameters.protocol != PROTOCOL {
        return Err(RpcError::invalid(format!("this is protocol {PROTOCOL}, not {}", parameters.protocol)));
    }
    Ok(json!({ "protocol": PROTOCOL, "fullsend": env!("CARGO_PKG_VERSION") }))
}

/// The sandboxes of this server end with this process.
fn create_one(parameters: CreateParameters) -> Result<Json, RpcError> {
    let CreateParameters { policy, policy_text, image, repo, name, ttl_seconds, memory_mb, pids, disk_mb } =
        parameters;
    let limits = crate::lasting::protocol::LastingLimits::default();
    let arguments = create::Arguments {
        policy,
        image,
        pull: PullOptions::default(),
        repo,
        name,
        ttl: ttl_seconds.unwrap_or(3600),
        parent: Some(std::process::id()),
        memory_mb: memory_mb.unwrap_or(limits.memory_mb),
        pids: pids.unwrap_or(limits.pids),
        disk_mb: disk_mb.unwrap_or(limits.disk_mb),
    };
    let id = create::create_from(&arguments, policy_text)?;
    let found = super::find(&id)?;
    Ok(json!({ "sandbox": id, "workspace": found.manifest.workspace }))
}

fn put(parameters: PutParameters) -> Result<Json, RpcError> {
    let PutParameters { sandbox, path, data, from, mode } = parameters;
    let client = super::client(&sandbox)?;
    let counts = match (data, from) {
        (Some(data), None) => transfer::put(&client, &path, CommandInput::Bytes(decode(&data)?), mode)?,
        (None, Some(from)) if from.is_dir() => {
            transfer::put_tree(&client, &from, &path, TransferCaps::default())?
        }
        (None, Some(from)) => {
            let file = std::fs::File::open(&from)
                .map_err(|source| FilesError::Host { path: from.clone(), source })?;
            transfer::put(&client, &path, CommandInput::Descriptor(file.into()), mode)?
        }
        _ => return Err(RpcError::invalid("name one of `data` and `from`")),
    };
    Ok(json!({ "files": counts.files, "bytes": counts.bytes, "left_out": counts.left_out }))
}

fn get(parameters: GetParameters) -> Result<Json, RpcError> {
    let GetParameters { sandbox, path, to, max_bytes, file_only } = parameters;
    let wanted = if file_only { WantedFiles::FileOnly } else { WantedFiles::FileOrDirectory };
    let caps = TransferCaps::default();
    let caps = TransferCaps { bytes: max_bytes.unwrap_or(caps.bytes).min(caps.bytes), ..caps };
    let got = transfer::get(&super::client(&sandbox)?, &path, wanted, caps)?;
    if let Some(to) = to {
        let counts = got.save(&to, caps)?;
        return Ok(json!({ "files": counts.files, "bytes": counts.bytes, "left_out": counts.left_out }));
    }
    let (kind, mode, mut bytes) = match got {
        GotFiles::File { mode, contents } => ("file", Some(mode), contents),
        GotFiles::Directory { archive } => ("directory", None, archive),
    };
    let mut data = Vec::new();
    bytes.read_to_end(&mut data).map_err(|error| RpcError::other("host", error.to_string()))?;
    Ok(json!({ "kind": kind, "mode": mode, "data": STANDARD.encode(data) }))
}

fn list(parameters: &ListParameters) -> Result<Json, RpcError> {
    let all = LastingDirectory::open(&super::root()?).and_then(|all| all.list());
    let all = all.map_err(|error| super::not_found(&error))?;
    let wanted = all.iter().filter(|sandbox| parameters.all || sandbox.state == LastingState::Running);
    Ok(wanted.map(inspect::described).collect())
}
