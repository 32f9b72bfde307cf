//! Sends the spans and metrics of an ended run to an OpenTelemetry collector, by OTLP over HTTP. It uses OTLP's JSON form, which
//! collectors take beside protobuf and which needs no generated code. All requests of a run share one deadline. Whether they
//! arrive changes nothing about the run.

pub mod settings;

use std::fmt;
use std::path::Path;
use std::time::Instant;

use hyper::header::HeaderName;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::event::log::{self, LogError};
use crate::fetch::{FetchError, FetchRequest, Fetcher, HostNetwork, Post, WebAddress};
use crate::record::conversation;
use crate::render::otlp::{self, BatchLimit};
use settings::{SettingsError, TelemetrySettings};

/// One request stays small enough for the limits of collectors, unless one span alone is larger.
const BATCH: BatchLimit = BatchLimit { spans: 1000, bytes: 4 << 20 };
/// Longer answers are not read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// How much of a collector's message is shown.
const MAX_MESSAGE_CHARS: usize = 200;

/// Where one kind of telemetry goes. The values of headers may be credentials.
pub struct CollectorEndpoint {
    pub address: WebAddress,
    pub headers: Vec<(HeaderName, String)>,
}

#[derive(Debug)]
pub enum TelemetryError {
    Settings(SettingsError),
    Log(LogError),
    Send(FetchError),
    /// The collector answered with an error.
    Status {
        address: String,
        status: u16,
    },
    /// The collector accepted only a part.
    Rejected {
        address: String,
        count: u64,
        message: String,
    },
    Timeout {
        address: String,
    },
}

impl fmt::Display for TelemetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Status { address, status } => write!(f, "{address} answered with status {status}"),
            Self::Rejected { address, count, message } => {
                let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
                write!(f, "{address} rejected {count} items: {message}")
            }
            Self::Timeout { address } => write!(f, "{address} did not respond in time"),
        }
    }
}

impl std::error::Error for TelemetryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Settings(error) => Some(error),
            Self::Log(error) => Some(error),
            Self::Send(error) => Some(error),
            Self::Status { .. } | Self::Rejected { .. } | Self::Timeout { .. } => None,
        }
    }
}

/// Sends the telemetry of the run in this directory, if the variables name a collector.
pub fn send(run: &Path, variables: &dyn Fn(&str) -> Option<String>) -> Result<(), TelemetryError> {
    let Some(settings) = TelemetrySettings::from_variables(variables).map_err(TelemetryError::Settings)?
    else {
        return Ok(());
    };
    let TelemetrySettings { traces, metrics, timeout, options } = settings;
    let events = log::read(&run.join("events.jsonl")).map_err(TelemetryError::Log)?;
    let plain =
        [&traces, &metrics].into_iter().flatten().map(|endpoint| endpoint.address.authority()).collect();
    let network = HostNetwork::of_host(variables, plain).map_err(TelemetryError::Send)?;
    let fetcher = Fetcher::new(network).map_err(TelemetryError::Send)?;
    let deadline = Instant::now() + timeout;
    if let Some(endpoint) = &traces {
        let conversations = if options.captures_content { conversation::load(run) } else { Vec::new() };
        for request in otlp::traces(&events, &conversations, &options, BATCH) {
            post(&fetcher, endpoint, &request, deadline)?;
        }
    }
    if let Some(endpoint) = &metrics {
        post(&fetcher, endpoint, &otlp::metrics(&events, &options), deadline)?;
    }
    Ok(())
}

/// A collector's answer: how much it rejected, and why.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportAnswer {
    partial_success: Option<PartialSuccess>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccess {
    #[serde(alias = "rejectedDataPoints")]
    rejected_spans: Option<Json>,
    #[serde(default)]
    error_message: String,
}

fn post(
    fetcher: &Fetcher,
    endpoint: &CollectorEndpoint,
    request: &Json,
    deadline: Instant,
) -> Result<(), TelemetryError> {
    let address = endpoint.address.to_string();
    let timeout = deadline.saturating_duration_since(Instant::now());
    if timeout.is_zero() {
        return Err(TelemetryError::Timeout { address });
    }
    let bytes = request.to_string().into_bytes();
    let answer = fetcher.send(&FetchRequest {
        headers: &endpoint.headers,
        post: Some(Post { content_type: "application/json", bytes: &bytes }),
        timeout,
        ..FetchRequest::new(&endpoint.address)
    });
    let answer = answer.map_err(TelemetryError::Send)?;
    if !answer.status.is_success() {
        return Err(TelemetryError::Status { address, status: answer.status.as_u16() });
    }
    // An answer that is cut off or in another form still means that the request was accepted.
    let answer = answer
        .whole_before(MAX_ANSWER_BYTES, deadline)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<ExportAnswer>(&bytes).ok());
    let Some(part) = answer.and_then(|answer| answer.partial_success) else { return Ok(()) };
    // OTLP's JSON writes 64-bit numbers as texts; some collectors do not.
    let count = match &part.rejected_spans {
        Some(Json::String(text)) => text.parse().unwrap_or(0),
        Some(Json::Number(number)) => number.as_u64().unwrap_or(0),
        _ => 0,
    };
    if count == 0 {
        Ok(())
    } else {
        Err(TelemetryError::Rejected { address, count, message: part.error_message })
    }
}
