//! Where a value comes from: known from the start, or fetched when it is needed and again before it expires. Fetching
//! (a file, a command) is a function of the program's: nothing is spawned or opened here.

use super::Secret;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A value is fetched again when less than this is left of its life.
const REFRESH_BEFORE: Duration = Duration::from_secs(60);
/// After a failed fetch the next one waits: a broken command is not run for every request.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct Fetched {
    pub secret: Secret,
    /// `None`: good for the whole run.
    pub good_for: Option<Duration>,
}

type Fetch = Arc<dyn Fn() -> Result<Fetched, String> + Send + Sync>;

#[derive(Clone)]
pub struct Source {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Fixed(Secret),
    Fetched { fetch: Fetch, last: Arc<Mutex<Last>> },
}

#[derive(Default)]
enum Last {
    #[default]
    Never,
    Good {
        secret: Secret,
        until: Option<Instant>,
    },
    Failed {
        at: Instant,
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    reason: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the credential could not be fetched: {}", self.reason)
    }
}

impl std::error::Error for SourceError {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Fixed(_) => "Source(fixed)",
            Kind::Fetched { .. } => "Source(fetched)",
        })
    }
}

impl Source {
    pub fn fixed(secret: Secret) -> Self {
        Self { kind: Kind::Fixed(secret) }
    }

    /// `fetch` may block.
    pub fn fetched(fetch: impl Fn() -> Result<Fetched, String> + Send + Sync + 'static) -> Self {
        Self { kind: Kind::Fetched { fetch: Arc::new(fetch), last: Arc::default() } }
    }

    pub async fn secret(&self) -> Result<Secret, SourceError> {
        match &self.kind {
            Kind::Fixed(secret) => Ok(secret.clone()),
            Kind::Fetched { fetch, last } => {
                // Held over the fetch: those who come meanwhile wait for its result instead of fetching too.
                let mut last = last.lock().await;
                if let Some(known) = last.usable() {
                    return known;
                }
                *last = fetch_once(Arc::clone(fetch)).await;
                last.usable()
                    .unwrap_or_else(|| Err(SourceError { reason: "it had expired when it came".to_owned() }))
            }
        }
    }
}

async fn fetch_once(fetch: Fetch) -> Last {
    let fetched = tokio::task::spawn_blocking(move || fetch()).await;
    let now = Instant::now();
    match fetched {
        Ok(Ok(Fetched { secret, good_for })) => Last::Good { secret, until: good_for.map(|life| now + life) },
        Ok(Err(reason)) => Last::Failed { at: now, reason },
        Err(_) => Last::Failed { at: now, reason: "its function panicked".to_owned() },
    }
}

impl Last {
    fn usable(&self) -> Option<Result<Secret, SourceError>> {
        let now = Instant::now();
        match self {
            Self::Never => None,
            Self::Good { secret, until } => {
                until.is_none_or(|until| until > now + REFRESH_BEFORE).then(|| Ok(secret.clone()))
            }
            Self::Failed { at, reason } => {
                (now < *at + PAUSE_AFTER_FAILURE).then(|| Err(SourceError { reason: reason.clone() }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn counting(good_for: Option<Duration>) -> (Source, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let source = Source::fetched(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            Ok(Fetched { secret: Secret::new(format!("value-{number}")), good_for })
        });
        (source, count)
    }

    #[tokio::test]
    async fn a_value_is_fetched_once_while_it_is_good() {
        let (source, count) = counting(Some(Duration::from_secs(3600)));
        let (first, second) = tokio::join!(source.secret(), source.secret());
        assert_eq!((first.unwrap().reveal(), second.unwrap().reveal()), ("value-0", "value-0"));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_value_near_its_end_is_refused_rather_than_used() {
        let (source, count) = counting(Some(Duration::from_secs(30)));
        assert!(source.secret().await.is_err());
        assert!(source.secret().await.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_failure_is_remembered_for_a_while_and_a_panic_is_one() {
        let source = Source::fetched(|| Err("no such command".to_owned()));
        assert!(source.secret().await.unwrap_err().to_string().contains("no such command"));
        let source = Source::fetched(|| panic!("broken"));
        assert!(source.secret().await.unwrap_err().to_string().contains("panicked"));
    }

    #[test]
    fn nothing_shows_the_value() {
        let source = Source::fixed(Secret::new("hunter2".to_owned()));
        assert!(!format!("{source:?} {:?}", Secret::new("hunter2".to_owned())).contains("hunter2"));
    }
}
