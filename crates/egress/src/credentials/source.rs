//! Where a value comes from: known from the start, or fetched when it is needed and again before it expires. The program
//! provides the function that fetches (a file, a command): nothing is spawned or opened here.

use super::Secret;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A value is fetched again when it expires in less than this.
const REFRESH_BEFORE: Duration = Duration::from_secs(60);
/// After a failed fetch the next one waits: a broken command is not run for every request.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct FetchedSecret {
    pub secret: Secret,
    /// `None`: valid for the whole run.
    pub valid_for: Option<Duration>,
}

type Fetch = Arc<dyn Fn() -> Result<FetchedSecret, String> + Send + Sync>;

#[derive(Clone)]
pub struct CredentialSource {
    kind: SourceKind,
}

#[derive(Clone)]
enum SourceKind {
    Fixed(Secret),
    Fetched { fetch: Fetch, last: Arc<Mutex<LastFetch>> },
}

enum LastFetch {
    Good { secret: Secret, until: Option<Instant> },
    Failed { at: Instant, reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialFetchError {
    reason: String,
}

impl fmt::Display for CredentialFetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the credential could not be fetched: {}", self.reason)
    }
}

impl std::error::Error for CredentialFetchError {}

impl CredentialFetchError {
    pub(super) fn new(reason: &str) -> Self {
        Self { reason: reason.to_owned() }
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SourceKind::Fixed(_) => "CredentialSource(fixed)",
            SourceKind::Fetched { .. } => "CredentialSource(fetched)",
        })
    }
}

impl CredentialSource {
    pub fn fixed(secret: Secret) -> Self {
        Self { kind: SourceKind::Fixed(secret) }
    }

    /// The value, if it is available without fetching or waiting.
    pub(super) fn known(&self) -> Option<Secret> {
        match &self.kind {
            SourceKind::Fixed(secret) => Some(secret.clone()),
            SourceKind::Fetched { last, .. } => match &*last.try_lock().ok()? {
                LastFetch::Good { secret, .. } => Some(secret.clone()),
                LastFetch::Failed { .. } => None,
            },
        }
    }

    /// Fetches at once on this thread, so that a failure is known before the sandbox starts; and again, on a thread that
    /// may block, before the value expires.
    pub fn fetched(
        fetch: impl Fn() -> Result<FetchedSecret, String> + Send + Sync + 'static,
    ) -> Result<Self, CredentialFetchError> {
        let last = LastFetch::new(fetch());
        last.usable().unwrap_or_else(expired)?;
        Ok(Self { kind: SourceKind::Fetched { fetch: Arc::new(fetch), last: Arc::new(Mutex::new(last)) } })
    }

    /// The last fetched value, without fetching again. Blocks while another thread fetches; not for asynchronous code.
    pub fn last(&self) -> Option<Secret> {
        match &self.kind {
            SourceKind::Fixed(secret) => Some(secret.clone()),
            SourceKind::Fetched { last, .. } => match &*last.blocking_lock() {
                LastFetch::Good { secret, .. } => Some(secret.clone()),
                LastFetch::Failed { .. } => None,
            },
        }
    }

    /// The server refused this value: it is fetched again before it is used again, once for all who used it. Returns whether
    /// another value can be had.
    pub async fn forget(&self, is_refused: impl Fn(&Secret) -> bool) -> bool {
        let SourceKind::Fetched { last, .. } = &self.kind else { return false };
        if let LastFetch::Good { secret, until } = &mut *last.lock().await
            && is_refused(secret)
        {
            *until = Some(Instant::now());
        }
        true
    }

    pub async fn secret(&self) -> Result<Secret, CredentialFetchError> {
        match &self.kind {
            SourceKind::Fixed(secret) => Ok(secret.clone()),
            SourceKind::Fetched { fetch, last } => {
                // Locked during the fetch: concurrent callers wait for its result instead of fetching too.
                let mut last = last.lock().await;
                if let Some(known) = last.usable() {
                    return known;
                }
                *last = fetch_once(Arc::clone(fetch)).await;
                last.usable().unwrap_or_else(expired)
            }
        }
    }
}

async fn fetch_once(fetch: Fetch) -> LastFetch {
    let fetched = tokio::task::spawn_blocking(move || fetch()).await;
    LastFetch::new(fetched.unwrap_or_else(|_| Err("its function panicked".to_owned())))
}

fn expired() -> Result<Secret, CredentialFetchError> {
    let least = REFRESH_BEFORE.as_secs();
    Err(CredentialFetchError { reason: format!("the fetched value expires in less than {least} seconds") })
}

impl LastFetch {
    fn new(fetched: Result<FetchedSecret, String>) -> Self {
        let now = Instant::now();
        match fetched {
            // A time that the clock cannot represent counts as no expiry.
            Ok(FetchedSecret { secret, valid_for }) => {
                Self::Good { secret, until: valid_for.and_then(|life| now.checked_add(life)) }
            }
            Err(reason) => Self::Failed { at: now, reason },
        }
    }

    fn usable(&self) -> Option<Result<Secret, CredentialFetchError>> {
        let now = Instant::now();
        match self {
            Self::Good { secret, until } => {
                until.is_none_or(|until| until > now + REFRESH_BEFORE).then(|| Ok(secret.clone()))
            }
            Self::Failed { at, reason } => (now < *at + PAUSE_AFTER_FAILURE)
                .then(|| Err(CredentialFetchError { reason: reason.clone() })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn counting(valid_for: &'static [u64]) -> (CredentialSource, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let source = CredentialSource::fetched(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let valid_for = Some(Duration::from_secs(*valid_for.get(number).ok_or("there is no more")?));
            Ok(FetchedSecret { secret: Secret::new(format!("value-{number}")), valid_for })
        });
        (source.unwrap(), count)
    }

    #[tokio::test]
    async fn a_value_is_fetched_once_while_it_is_good() {
        let (source, count) = counting(&[3600]);
        let (first, second) = tokio::join!(source.secret(), source.secret());
        assert_eq!((first.unwrap().reveal(), second.unwrap().reveal()), ("value-0", "value-0"));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_value_near_its_end_is_fetched_again_once_for_all_who_wait() {
        let (source, count) = counting(&[61, 3600]);
        std::thread::sleep(Duration::from_millis(1100));
        let (first, second) = tokio::join!(source.secret(), source.secret());
        assert_eq!((first.unwrap().reveal(), second.unwrap().reveal()), ("value-1", "value-1"));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_refresh_that_fails_is_refused_and_remembered_for_a_while() {
        let (source, count) = counting(&[61]);
        std::thread::sleep(Duration::from_millis(1100));
        for _ in 0..3 {
            assert!(source.secret().await.unwrap_err().to_string().contains("there is no more"));
        }
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_refused_value_is_fetched_again_once_for_all_who_used_it() {
        let (source, count) = counting(&[3600, 3600, 3600]);
        for _ in 0..3 {
            assert!(source.forget(|secret| secret.reveal() == "value-0").await);
            assert_eq!(source.secret().await.unwrap().reveal(), "value-1");
        }
        assert_eq!(count.load(Ordering::Relaxed), 2);
        let fixed = CredentialSource::fixed(Secret::new("v".to_owned()));
        assert!(!fixed.forget(|_| true).await, "no other value can be had");
    }

    #[test]
    fn unusable_credential_is_reported_at_once() {
        let short = CredentialSource::fetched(|| {
            Ok(FetchedSecret { secret: Secret::new("v".into()), valid_for: Some(Duration::ZERO) })
        });
        assert!(short.unwrap_err().to_string().contains("less than 60 seconds"));
        let broken = CredentialSource::fetched(|| Err("no such command".to_owned()));
        assert!(broken.unwrap_err().to_string().contains("no such command"));
        let endless = Some(Duration::from_secs(u64::MAX));
        assert!(
            CredentialSource::fetched(move || Ok(FetchedSecret {
                secret: Secret::new("v".into()),
                valid_for: endless
            }))
            .is_ok()
        );
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let source = CredentialSource::fixed(Secret::new("hunter2".to_owned()));
        assert!(!format!("{source:?} {:?}", Secret::new("hunter2".to_owned())).contains("hunter2"));
    }
}
