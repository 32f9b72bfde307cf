//! One request for a run, as a line of JSON: a harness and its inputs. It becomes the arguments of `fullsend run`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const MAX_REQUESTS: usize = 100_000;
const MAX_LINE_BYTES: u64 = 1 << 20;

/// A run to dispatch. The fields are those of the options of `fullsend run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DispatchRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PathBuf>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_minutes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<PathBuf>,
}

/// Why requests cannot be used.
#[derive(Debug)]
pub enum RequestError {
    Read { source: io::Error },
    Line { line: usize, source: serde_json::Error },
    Empty { line: usize },
    TooLong { line: usize },
    TooMany,
    None,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { source } => write!(f, "cannot read the requests: {source}"),
            Self::Line { line, source } => write!(f, "line {line} is not a request: {source}"),
            Self::Empty { line } => write!(f, "line {line} names neither a harness nor a prompt"),
            Self::TooLong { line } => write!(f, "line {line} is longer than 1 MiB"),
            Self::TooMany => write!(f, "there are more than {MAX_REQUESTS} requests"),
            Self::None => f.write_str("there are no requests; write one JSON object per line"),
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source } => Some(source),
            Self::Line { source, .. } => Some(source),
            Self::Empty { .. } | Self::TooLong { .. } | Self::TooMany | Self::None => None,
        }
    }
}

/// Reads requests, one per line. Relative paths start from `here`; without it they stay as they are.
pub fn read(mut from: impl BufRead, here: Option<&Path>) -> Result<Vec<DispatchRequest>, RequestError> {
    let mut requests = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let read = io::Read::take(&mut from, MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|source| RequestError::Read { source })? == 0 {
            break;
        }
        if line.len() as u64 == MAX_LINE_BYTES {
            return Err(RequestError::TooLong { line: number });
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let request: DispatchRequest =
            serde_json::from_slice(&line).map_err(|source| RequestError::Line { line: number, source })?;
        if request.harness.is_none() && request.prompt.is_none() {
            return Err(RequestError::Empty { line: number });
        }
        if requests.len() == MAX_REQUESTS {
            return Err(RequestError::TooMany);
        }
        requests.push(match here {
            Some(here) => request.at(here),
            None => request,
        });
    }
    if requests.is_empty() { Err(RequestError::None) } else { Ok(requests) }
}

impl DispatchRequest {
    fn at(mut self, here: &Path) -> Self {
        self.inputs = self.inputs.iter().map(|input| here.join(input)).collect();
        self.repo = Some(here.join(self.repo.unwrap_or_default()));
        self
    }

    /// The arguments of `fullsend run`, without the program.
    pub fn arguments(&self) -> Vec<String> {
        let Self { harness, prompt, inputs, vars, model, runtime, max_usd, timeout_minutes, repo } = self;
        let mut words = vec!["run".to_owned()];
        words.extend(harness.clone());
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")));
        };
        option("prompt", prompt.clone());
        option("model", model.clone());
        option("runtime", runtime.clone());
        option("max-usd", max_usd.map(|dollars| dollars.to_string()));
        option("timeout", timeout_minutes.map(|minutes| minutes.to_string()));
        option("repo", repo.as_ref().map(|path| path.display().to_string()));
        for input in inputs {
            option("input", Some(input.display().to_string()));
        }
        for (name, value) in vars {
            option("var", Some(format!("{name}={value}")));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_become_arguments() {
        let text =
            "{\"harness\":\"triage\",\"vars\":{\"A\":\"b c\"},\"inputs\":[\"x\"]}\n\n{\"prompt\":\"-p\"}\n";
        let requests = read(text.as_bytes(), Some(Path::new("/here"))).unwrap();
        assert_eq!(
            requests[0].arguments(),
            ["run", "triage", "--repo=/here/", "--input=/here/x", "--var=A=b c"]
        );
        assert_eq!(requests[1].arguments(), ["run", "--prompt=-p", "--repo=/here/"]);
        for (text, message) in [
            ("", "there are no requests; write one JSON object per line"),
            ("{}\n", "line 1 names neither a harness nor a prompt"),
            ("{\"harnes\":1}\n", "line 1 is not a request: unknown field `harnes`"),
        ] {
            let error = read(text.as_bytes(), None).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
