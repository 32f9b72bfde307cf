//! Files: an artifact of a run, and the bundle of a session. Only artifacts that the record lists are served, by their
//! exact paths and only if their digests match.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;

use hyper::Response;
use hyper::body::Bytes;
use rustix::fs::{CWD, Mode, OFlags};
use sandbox::open_beneath;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::Server;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::{query, runs, sessions};
use crate::record::store::StoredRun;

const CHUNK_BYTES: usize = 64 << 10;

pub(super) async fn get(server: &Arc<Server>, id: &str, path: &str) -> Result<Response<AnswerBody>, Problem> {
    let path = query::decoded(path).ok_or_else(|| Problem::bad_request("the path is not valid"))?;
    let id = id.to_owned();
    let file = server.blocking(move |server| open(&runs::find(server, &id)?, &path)).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(send(Arc::clone(server), file, sender));
    Ok(answer::file(receiver))
}

/// The bundle of a session, with the transcripts of its runs.
pub(super) async fn export(server: &Arc<Server>, id: &str) -> Result<Response<AnswerBody>, Problem> {
    let id = sessions::parse_id(id)?;
    let file = server.with_sessions(None, move |sessions, server| {
        sessions.session(id)?;
        let path = (server.backend.export_session)(sessions, id).map_err(Problem::unreadable)?;
        let opened = File::open(&path);
        // The open descriptor is enough; remove the name.
        drop(std::fs::remove_file(&path));
        opened.map_err(|error| Problem::unreadable(error.to_string()))
    });
    let file = file.await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(send(Arc::clone(server), file, sender));
    Ok(answer::file(receiver))
}

fn open(run: &StoredRun, path: &str) -> Result<File, Problem> {
    let record = run.record().map_err(|error| Problem::unreadable(error.to_string()))?;
    let unknown = || Problem::not_found("the run has no such artifact");
    let artifact = record.artifacts.iter().find(|artifact| artifact.path == path).ok_or_else(unknown)?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, &run.path, flags, Mode::empty()).map_err(|_| unknown())?;
    let opened = open_beneath(&root, &artifact.path, OFlags::RDONLY);
    let mut file = opened.map(File::from).map_err(|_| unknown())?;
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Err(unknown());
    }
    if digest(&mut file).map_err(|_| unknown())? != artifact.sha256 {
        return Err(Problem::unreadable("the artifact was changed after the run"));
    }
    Ok(file)
}

fn digest(file: &mut File) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            length => hasher.update(&chunk[..length]),
        }
    }
    file.rewind()?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Sends the file chunk by chunk: a slow reader holds one chunk, and no thread.
async fn send(server: Arc<Server>, mut file: File, sender: mpsc::Sender<answer::Chunk>) {
    loop {
        let read = server.blocking(move |_| {
            let mut chunk = vec![0; CHUNK_BYTES];
            let length = file.read(&mut chunk).map_err(|error| Problem::unreadable(error.to_string()))?;
            chunk.truncate(length);
            Ok((file, chunk))
        });
        let Ok((next, chunk)) = read.await else {
            // An error ends the connection, so that the caller notices that the file is incomplete.
            drop(sender.send(Err(std::io::Error::other("the artifact cannot be read"))).await);
            return;
        };
        file = next;
        if chunk.is_empty() || sender.send(Ok(Bytes::from(chunk))).await.is_err() {
            return;
        }
    }
}
