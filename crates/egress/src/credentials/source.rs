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

enum Last {
    Good { secret: Secret, until: Option<Instant> },
    Failed { at: Instant, reason: String },
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

impl SourceError {
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

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

    /// Fetches on this thread at once, so that a value that cannot be had is known before anything starts; and again,
    /// on a thread that may block, before it expires.
    pub fn fetched(
        fetch: impl Fn() -> Result<Fetched, String> + Send + Sync + 'static,
    ) -> Result<Self, SourceError> {
        let last = Last::new(fetch());
        last.usable().unwrap_or_else(expired)?;
        Ok(Self { kind: Kind::Fetched { fetch: Arc::new(fetch), last: Arc::new(Mutex::new(last)) } })
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
                last.usable().unwrap_or_else(expired)
            }
        }
    }
}

async fn fetch_once(fetch: Fetch) -> Last {
    let fetched = tokio::task::spawn_blocking(move || fetch()).await;
    Last::new(fetched.unwrap_or_else(|_| Err("its function panicked".to_owned())))
}

fn expired() -> Result<Secret, SourceError> {
    let least = REFRESH_BEFORE.as_secs();
    Err(SourceError { reason: format!("what came is good for less than {least} seconds") })
}

impl Last {
    fn new(fetched: Result<Fetched, String>) -> Self {
        let now = Instant::now();
        match fetched {
            // A life that no clock can hold is a life without end.
            Ok(Fetched { secret, good_for }) => {
                Self::Good { secret, until: good_for.and_then(|life| now.checked_add(life)) }
            }
            Err(reason) => Self::Failed { at: now, reason },
        }
    }

    fn usable(&self) -> Option<Result<Secret, SourceError>> {
        let now = Instant::now();
        match self {
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

    fn counting(good_for: &'static [u64]) -> (Source, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let source = Source::fetched(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let good_for = Some(Duration::from_secs(*good_for.get(number).ok_or("there is no more")?));
            Ok(Fetched { secret: Secret::new(format!("value-{number}")), good_for })
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

    #[test]
    fn what_cannot_be_had_is_known_at_once() {
        let short = Source::fetched(|| {
            Ok(Fetched { secret: Secret::new("v".into()), good_for: Some(Duration::ZERO) })
        });
        assert!(short.unwrap_err().to_string().contains("less than 60 seconds"));
        let broken = Source::fetched(|| Err("no such command".to_owned()));
        assert!(broken.unwrap_err().to_string().contains("no such command"));
        let endless = Some(Duration::from_secs(u64::MAX));
        assert!(
            Source::fetched(move || Ok(Fetched { secret: Secret::new("v".into()), good_for: endless }))
                .is_ok()
        );
    }

    #[test]
    fn nothing_shows_the_value() {
        let source = Source::fixed(Secret::new("hunter2".to_owned()));
        assert!(!format!("{source:?} {:?}", Secret::new("hunter2".to_owned())).contains("hunter2"));
    }
}
