//! The folder of one dispatch: the requests, the engine, and the results. Every file appears under its name in one
//! step.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::request::DispatchRequest;

const MANIFEST: &str = "dispatch.json";
pub const REQUESTS: &str = "requests.jsonl";
const RESULT: &str = "result.json";
const VERSION: u32 = 1;

/// Where the runs of a dispatch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    Local,
    Slurm,
    Kubernetes,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DispatchManifest {
    pub v: u32,
    pub id: String,
    pub engine: EngineName,
    pub count: usize,
    /// The engine's own number of the job.
    pub job: Option<String>,
    pub created: String,
}

/// How one run of a dispatch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    pub v: u32,
    pub index: usize,
    /// The first is 1; each time that the engine starts the job again, the number grows.
    pub attempt: u32,
    pub exit: i32,
    /// The directory of the run's record.
    pub run: Option<PathBuf>,
    /// The accepted result, as the run printed it.
    pub output: PathBuf,
}

/// Why a folder cannot be used.
#[derive(Debug)]
pub struct FolderError {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the dispatch folder {} cannot be used: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A folder on disk.
#[derive(Clone, Debug)]
pub struct DispatchFolder {
    path: PathBuf,
}

impl DispatchFolder {
    /// Makes a new folder. It must not exist.
    pub fn create(
        path: &Path,
        engine: EngineName,
        requests: &[DispatchRequest],
        created: String,
    ) -> Result<Self, FolderError> {
        let make = || {
            if path.exists() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let id = uuid::Uuid::now_v7().to_string();
            // It gets its name only when it is complete, because several jobs may try to create it.
            let new = path.with_extension(&id);
            fs::create_dir(&new)?;
            write(&new.join(REQUESTS), &lines(requests)?)?;
            let manifest =
                DispatchManifest { v: VERSION, id, engine, count: requests.len(), job: None, created };
            write(&new.join(MANIFEST), &serde_json::to_vec_pretty(&manifest)?)?;
            fs::rename(&new, path)?;
            Ok(Self { path: path.canonicalize()? })
        };
        make().map_err(|source| FolderError { path: path.to_owned(), source })
    }

    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = Self { path: path.to_owned() };
        folder.manifest()?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self) -> impl Fn(io::Error) -> FolderError {
        let path = self.path.clone();
        move |source| FolderError { path: path.clone(), source }
    }

    pub fn manifest(&self) -> Result<DispatchManifest, FolderError> {
        let read = || Ok(serde_json::from_slice(&fs::read(self.path.join(MANIFEST))?)?);
        read().map_err(self.failed())
    }

    /// Writes down the engine's number of the job.
    pub fn set_job(&self, job: &str) -> Result<(), FolderError> {
        let mut manifest = self.manifest()?;
        manifest.job = Some(job.to_owned());
        let text = serde_json::to_vec_pretty(&manifest).map_err(io::Error::from);
        text.and_then(|text| write(&self.path.join(MANIFEST), &text)).map_err(self.failed())
    }

    /// The request with this number; the first is 0.
    pub fn request(&self, index: usize) -> Result<DispatchRequest, FolderError> {
        let read = || {
            let file = BufReader::new(fs::File::open(self.path.join(REQUESTS))?);
            let missing = || io::Error::other(format!("there is no request {index}"));
            let line = file.lines().nth(index).ok_or_else(missing)??;
            Ok(serde_json::from_str(&line)?)
        };
        read().map_err(self.failed())
    }

    /// The directory of a job, which is made if it is not there.
    pub fn job(&self, index: usize) -> Result<PathBuf, FolderError> {
        let path = self.path.join("jobs").join(index.to_string());
        fs::create_dir_all(&path).map_err(self.failed())?;
        Ok(path)
    }

    /// Where an engine writes what a job prints.
    pub fn log(&self, index: usize) -> PathBuf {
        self.path.join("jobs").join(index.to_string()).join("log.txt")
    }

    /// `None` while the job has not ended.
    pub fn result(&self, index: usize) -> Result<Option<JobResult>, FolderError> {
        let path = self.path.join("jobs").join(index.to_string()).join(RESULT);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed()(error)),
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|error| self.failed()(error.into()))
            }
        }
    }

    pub fn set_result(&self, result: &JobResult) -> Result<(), FolderError> {
        let path = self.job(result.index)?.join(RESULT);
        let text = serde_json::to_vec(result).map_err(io::Error::from);
        text.and_then(|text| write(&path, &text)).map_err(self.failed())
    }
}

/// The version that results carry.
pub const RESULT_VERSION: u32 = VERSION;

/// One request a line.
pub fn lines(requests: &[DispatchRequest]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for request in requests {
        serde_json::to_writer(&mut text, request)?;
        text.push(b'\n');
    }
    Ok(text)
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}
