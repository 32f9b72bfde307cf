//! The requests of `fullsend sandbox serve`, as they are on the wire: one type for each method. Unknown keys are refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value as Json;

/// One line from the client. Without an id there is no answer.
#[derive(Debug, Deserialize)]
pub struct RpcRequest {
    pub id: Option<Json>,
    pub method: String,
    #[serde(default)]
    pub params: Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitializeParameters {
    pub protocol: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CreateParameters {
    pub policy: Option<PathBuf>,
    pub policy_text: Option<String>,
    pub image: Option<String>,
    pub repo: Option<PathBuf>,
    pub name: Option<String>,
    pub ttl_seconds: Option<u64>,
    pub memory_mb: Option<u64>,
    pub pids: Option<u64>,
    pub disk_mb: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecParameters {
    pub sandbox: String,
    pub command: Vec<String>,
    pub cwd: Option<PathBuf>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub user: Option<String>,
    /// Base64.
    pub stdin: Option<String>,
    pub timeout_ms: Option<u64>,
    /// The most bytes that are kept of each output.
    pub max_output_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutParameters {
    pub sandbox: String,
    pub path: String,
    /// Base64: the contents of a file.
    pub data: Option<String>,
    /// A file or a directory of the host.
    pub from: Option<PathBuf>,
    pub mode: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetParameters {
    pub sandbox: String,
    pub path: String,
    /// A new path on the host; without it the bytes are in the answer.
    pub to: Option<PathBuf>,
    pub max_bytes: Option<u64>,
    /// Whether a directory is an error.
    #[serde(default)]
    pub file_only: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxParameter {
    pub sandbox: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListParameters {
    pub all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelParameters {
    /// The id of an `exec` that still runs.
    pub request: Json,
}
