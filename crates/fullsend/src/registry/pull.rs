//! Pulls one image: its manifest, then all blobs that the cache does not have, several at a time. Each blob is checked
//! while it is downloaded; an interrupted download continues where it stopped.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_RANGE, RETRY_AFTER};

use super::client::{RegistryClient, RegistrySession};
use super::documents::{Blob, RegistryDocument};
use super::error::PullError;
use super::store::{ImageStore, PartialBlob};
use crate::cancel::Cancel;
use crate::harness::image::ImageName;
use crate::image::BlobDigest;

/// Indexes in indexes.
const MAX_DEPTH: usize = 4;
/// The most compressed bytes of one image.
const MAX_BYTES: u64 = 32 << 30;
/// The configuration is text of a few kilobytes.
const MAX_CONFIG_BYTES: u64 = 8 << 20;
const WORKERS: usize = 4;
/// How many requests for one blob may bring no new byte.
const TRIES: u32 = 5;
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// A download slower than this is given up.
const BYTES_PER_SECOND: u64 = 64 << 10;
const LEAST_TIME: Duration = Duration::from_secs(600);
/// Between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How far a pull is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullProgress {
    pub bytes: u64,
    pub total_bytes: u64,
}

pub type OnPullProgress<'a> = &'a (dyn Fn(PullProgress) + Sync);

/// Pulls what `session` names into the store, under the name that was asked for.
pub fn pull(
    asked: &ImageName,
    session: &RegistrySession,
    store: &ImageStore,
    cancel: &Cancel,
    on_progress: OnPullProgress<'_>,
) -> Result<PathBuf, PullError> {
    let client = session.client()?;
    let refused = |why: &str| PullError::Refused { name: asked.to_string(), why: why.to_owned() };
    let failed = |source| PullError::Store { path: store.path().to_owned(), source };
    let named =
        asked.sha256.as_ref().and_then(|digits| BlobDigest::try_from(format!("sha256:{digits}")).ok());
    let mut served = client.document(named.as_ref())?;
    let top = served.digest.clone();
    let mut depth = 0;
    let (config, layers) = loop {
        match served.document {
            RegistryDocument::Manifest { config, layers } => break (config, layers),
            RegistryDocument::Index(_) if depth == MAX_DEPTH => {
                return Err(refused("its indexes are too deep"));
            }
            RegistryDocument::Index(chosen) => {
                served = client.document(Some(&chosen.digest))?;
                depth += 1;
            }
        }
    };
    if config.size > MAX_CONFIG_BYTES {
        return Err(refused("its configuration is larger than 8 MiB"));
    }
    let mut blobs: Vec<Blob> = Vec::new();
    for blob in [config].into_iter().chain(layers) {
        if !blobs.iter().any(|known| known.digest == blob.digest) {
            blobs.push(blob);
        }
    }
    let total = blobs.iter().try_fold(0_u64, |sum, blob| sum.checked_add(blob.size));
    let total =
        total.filter(|total| *total <= MAX_BYTES).ok_or_else(|| refused("it has more than 32 GiB"))?;
    let _lock = store.share().map_err(failed)?;
    let download = Download::new(asked, session, store, cancel, total, on_progress);
    download.all(&blobs)?;
    store.put(&served.digest, &served.bytes).map_err(failed)?;
    let manifest = Blob::of(served.digest, served.bytes.len() as u64);
    store.publish(asked, &top, &manifest, &blobs).map_err(failed)
}

struct Download<'a> {
    asked: &'a ImageName,
    session: &'a RegistrySession,
    store: &'a ImageStore,
    cancel: &'a Cancel,
    deadline: Instant,
    total: u64,
    done: AtomicU64,
    reported: Mutex<Instant>,
    on_progress: OnPullProgress<'a>,
    is_stopped: AtomicBool,
}

/// Why one attempt at a blob ended.
enum Attempt {
    Whole,
    /// It may continue after a pause.
    Broken(PullError, Duration),
    Failed(PullError),
}

impl<'a> Download<'a> {
    fn new(
        asked: &'a ImageName,
        session: &'a RegistrySession,
        store: &'a ImageStore,
        cancel: &'a Cancel,
        total: u64,
        on_progress: OnPullProgress<'a>,
    ) -> Self {
        let deadline = Instant::now() + LEAST_TIME + Duration::from_secs(total / BYTES_PER_SECOND);
        let done = AtomicU64::default();
        let reported = Mutex::new(Instant::now());
        let is_stopped = AtomicBool::default();
        Self { asked, session, store, cancel, deadline, total, done, reported, on_progress, is_stopped }
    }

    /// All blobs, a few at a time. The first failure stops the others.
    fn all(&self, blobs: &[Blob]) -> Result<(), PullError> {
        self.report(0, true);
        let next = Mutex::new(blobs.iter());
        let work = || -> Result<(), PullError> {
            let client = self.session.client()?;
            loop {
                let blob = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                match blob {
                    Some(blob) if !self.is_stopped.load(Ordering::SeqCst) => self.blob(&client, blob)?,
                    _ => return Ok(()),
                }
            }
        };
        let stopping = || work().inspect_err(|_| self.is_stopped.store(true, Ordering::SeqCst));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS.min(blobs.len())).map(|_| scope.spawn(stopping)).collect();
            let ended = workers.into_iter().map(|worker| worker.join());
            let ended = ended.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            // The first failure; it cancelled the other downloads.
            let failures = ended.filter_map(Result::err);
            let failures: Vec<PullError> = failures.collect();
            let cause = failures.iter().position(|error| !matches!(error, PullError::Cancelled { .. }));
            failures.into_iter().nth(cause.unwrap_or(0)).map_or(Ok(()), Err)
        })?;
        self.report(0, true);
        Ok(())
    }

    fn blob(&self, client: &RegistryClient<'_>, blob: &Blob) -> Result<(), PullError> {
        let failed = |source| self.store_failed(source);
        let Some(mut partial) = self.store.start(blob).map_err(failed)? else {
            self.report(blob.size, false);
            return Ok(());
        };
        self.report(partial.bytes, false);
        let mut resumed = partial.bytes > 0;
        let mut tries = 0;
        loop {
            let before = partial.bytes;
            match self.attempt(client, blob, &mut partial) {
                Attempt::Whole if partial.matches(&blob.digest) => return partial.finish().map_err(failed),
                // The bytes from an earlier download may be wrong.
                Attempt::Whole if resumed => {
                    resumed = false;
                    self.restart(&mut partial)?;
                }
                Attempt::Whole => {
                    partial.discard().map_err(failed)?;
                    let why =
                        format!("the blob sha256:{} does not match its digest", blob.digest.hexadecimal());
                    return Err(self.refused(why));
                }
                Attempt::Failed(error) => return Err(error),
                Attempt::Broken(error, pause) => {
                    tries = if partial.bytes > before { 1 } else { tries + 1 };
                    resumed = resumed || partial.bytes > 0;
                    if tries >= TRIES || Instant::now() + pause > self.deadline {
                        return Err(error);
                    }
                    self.pause(pause)?;
                }
            }
        }
    }

    fn attempt(&self, client: &RegistryClient<'_>, blob: &Blob, partial: &mut PartialBlob) -> Attempt {
        if partial.bytes == blob.size {
            return Attempt::Whole;
        }
        let start = partial.bytes;
        let mut answer = match client.blob(blob, start) {
            Ok(answer) => answer,
            Err(error) => return of_failure(error),
        };
        let pause = answer.header(&RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
        match answer.status.as_u16() {
            206 if is_continued(answer.header(&CONTENT_RANGE), start) => {}
            // Some servers send everything again.
            200 => {
                if let Err(error) = self.restart(partial) {
                    return Attempt::Failed(error);
                }
            }
            206 | 416 => {
                let error = client.answered(answer);
                return match self.restart(partial) {
                    Ok(()) => Attempt::Broken(error, Duration::ZERO),
                    Err(error) => Attempt::Failed(error),
                };
            }
            status => {
                let error = client.answered(answer);
                let again = status == 429 || status >= 500;
                let pause = pause.unwrap_or(Duration::from_millis(300)).min(MAX_PAUSE);
                return if again { Attempt::Broken(error, pause) } else { Attempt::Failed(error) };
            }
        }
        loop {
            if let Err(error) = self.check() {
                return Attempt::Failed(error);
            }
            let part = match answer.next() {
                Ok(Some(part)) => part,
                Ok(None) if partial.bytes == blob.size => return Attempt::Whole,
                Ok(None) => {
                    return Attempt::Broken(self.cut_off(blob, partial.bytes), Duration::from_millis(300));
                }
                Err(source) => return of_failure(self.unreachable(source)),
            };
            if partial.bytes + part.len() as u64 > blob.size {
                // Nothing of it can be trusted. A failure to empty the file shows in the next download.
                drop(partial.restart());
                let why = format!(
                    "the blob sha256:{} has more than {} bytes",
                    blob.digest.hexadecimal(),
                    blob.size
                );
                return Attempt::Failed(self.refused(why));
            }
            if let Err(source) = partial.append(&part) {
                return Attempt::Failed(self.store_failed(source));
            }
            self.report(part.len() as u64, false);
        }
    }

    fn restart(&self, partial: &mut PartialBlob) -> Result<(), PullError> {
        self.done.fetch_sub(partial.bytes, Ordering::SeqCst);
        partial.restart().map_err(|source| self.store_failed(source))
    }

    /// Whether to go on.
    fn check(&self) -> Result<(), PullError> {
        let name = || self.asked.to_string();
        if self.cancel.is_cancelled() || self.is_stopped.load(Ordering::SeqCst) {
            return Err(PullError::Cancelled { name: name() });
        }
        if Instant::now() > self.deadline {
            let why = "the download is slower than 64 KiB a second";
            return Err(PullError::Unusable { name: name(), why: why.to_owned() });
        }
        Ok(())
    }

    fn pause(&self, time: Duration) -> Result<(), PullError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        self.check()
    }

    fn report(&self, more: u64, always: bool) {
        let bytes = self.done.fetch_add(more, Ordering::SeqCst) + more;
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if always || reported.elapsed() >= REPORT_INTERVAL {
            *reported = Instant::now();
            (self.on_progress)(PullProgress { bytes, total_bytes: self.total });
        }
    }

    fn cut_off(&self, blob: &Blob, bytes: u64) -> PullError {
        let why = format!(
            "the blob sha256:{} ended after {bytes} of {} bytes",
            blob.digest.hexadecimal(),
            blob.size
        );
        self.refused(why)
    }

    fn refused(&self, why: String) -> PullError {
        PullError::Refused { name: self.asked.to_string(), why }
    }

    fn unreachable(&self, source: crate::fetch::FetchError) -> PullError {
        PullError::Unreachable { name: self.asked.to_string(), source }
    }

    fn store_failed(&self, source: io::Error) -> PullError {
        PullError::Store { path: self.store.path().to_owned(), source }
    }
}

fn of_failure(error: PullError) -> Attempt {
    match error {
        PullError::Unreachable { source, name } if source.is_transient() => {
            Attempt::Broken(PullError::Unreachable { source, name }, Duration::from_millis(300))
        }
        error => Attempt::Failed(error),
    }
}

/// Whether `bytes START-END/TOTAL` continues where we stopped.
fn is_continued(range: Option<&str>, start: u64) -> bool {
    let range = range.and_then(|range| range.trim().strip_prefix("bytes "));
    range.and_then(|range| range.split_once('-')).is_some_and(|(first, _)| first.trim().parse() == Ok(start))
}
