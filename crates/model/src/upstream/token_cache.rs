//! A short-lived credential, renewed before it expires. Requests that need it at the same time
//! wait for one fetch.

use super::token_error::TokenError;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A credential is renewed when it expires in less than this.
const REFRESH_BEFORE: Duration = Duration::from_secs(300);

/// Is called with every credential before it is used, so that the run masks it.
pub type LearnSecret = Arc<dyn Fn(&str) + Send + Sync>;

pub(super) struct TokenCache<T> {
    last: Mutex<Option<IssuedToken<T>>>,
}

#[derive(Clone)]
pub(super) struct IssuedToken<T> {
    pub(super) value: T,
    /// `None`: it does not expire.
    pub(super) until: Option<Instant>,
}

impl<T: Clone> TokenCache<T> {
    pub(super) fn new() -> Self {
        Self { last: Mutex::new(None) }
    }

    /// The last one, or a new one from `make`. A token with a short life is used until it ends.
    pub(super) async fn get<F, M>(&self, make: F) -> Result<T, TokenError>
    where
        F: FnOnce() -> M,
        M: Future<Output = Result<IssuedToken<T>, TokenError>>,
    {
        let mut last = self.last.lock().await;
        if let Some(made) = last.as_ref().filter(|made| made.is_fresh(REFRESH_BEFORE)) {
            return Ok(made.value.clone());
        }
        match make().await {
            Ok(made) => Ok(last.insert(made).value.clone()),
            // The service may be down while the last one is still valid.
            Err(why) => match last.as_ref().filter(|made| made.is_fresh(Duration::ZERO)) {
                Some(made) => Ok(made.value.clone()),
                None => Err(why),
            },
        }
    }
}

impl<T> TokenCache<T> {
    /// The service refused this token: the next request makes another, once for all that used it. Returns whether tokens are
    /// kept here; one that is made for each request is not.
    pub(super) async fn forget(&self, is_refused: impl Fn(&T) -> bool) -> bool {
        let mut last = self.last.lock().await;
        let Some(made) = last.as_ref() else { return true };
        if !made.is_fresh(Duration::ZERO) {
            return false;
        }
        if is_refused(&made.value) {
            *last = None;
        }
        true
    }
}

impl<T> IssuedToken<T> {
    fn is_fresh(&self, margin: Duration) -> bool {
        self.until.is_none_or(|until| until > Instant::now() + margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    async fn get(cache: &TokenCache<u32>, count: &AtomicU32, life: u64) -> Result<u32, TokenError> {
        cache
            .get(|| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let value = count.fetch_add(1, Ordering::SeqCst);
                Ok(IssuedToken { value, until: Some(Instant::now() + Duration::from_secs(life)) })
            })
            .await
    }

    #[tokio::test]
    async fn one_fetch_serves_all_waiters_and_is_repeated_ahead_of_expiry() {
        let cache = TokenCache::new();
        let count = AtomicU32::new(0);
        let (a, b, c) =
            tokio::join!(get(&cache, &count, 3600), get(&cache, &count, 3600), get(&cache, &count, 3600));
        assert_eq!((a, b, c), (Ok(0), Ok(0), Ok(0)));
        let short = TokenCache::new();
        assert_eq!(get(&short, &count, 200).await, Ok(1));
        assert_eq!(get(&short, &count, 200).await, Ok(2), "200 s are less than the margin");
        let failed: Result<u32, TokenError> = short.get(|| async { Err("down".into()) }).await;
        assert_eq!(failed, Ok(2), "the last one is still valid");
        assert!(cache.forget(|token| *token == 0).await);
        assert_eq!(get(&cache, &count, 3600).await, Ok(3), "another one");
        assert!(cache.forget(|token| *token == 0).await);
        assert_eq!(get(&cache, &count, 3600).await, Ok(3), "it is not the one that was refused");
        let each_time = TokenCache::new();
        assert_eq!(get(&each_time, &count, 0).await, Ok(4));
        assert!(!each_time.forget(|_| true).await);
        let never: Result<u32, TokenError> = TokenCache::new().get(|| async { Err("down".into()) }).await;
        assert_eq!(never, Err("down".into()));
    }
}
