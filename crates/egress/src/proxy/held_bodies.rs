//! Memory for bodies that are held until they are hashed, shared by all connections of a proxy: what programs inside send must
//! not fill the host's memory.

use super::refusal::Refusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For all bodies together.
const MAX_KIB: u32 = 128 << 10;

/// From the first byte of a body to its last, however its bytes are spread.
pub(super) const BODY_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(super) struct HeldBodies {
    free_kib: Arc<Semaphore>,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    _kib: OwnedSemaphorePermit,
}

impl Default for HeldBodies {
    fn default() -> Self {
        Self { free_kib: Arc::new(Semaphore::new(MAX_KIB as usize)) }
    }
}

impl HeldBodies {
    /// Memory for a body of at most so many bytes. Refused at once where it is taken: who waits would hold a connection.
    pub(super) fn reserve(&self, most: u64) -> Result<HeldBody, Refusal> {
        let kib = u32::try_from(most.div_ceil(1024)).unwrap_or(u32::MAX);
        let reserved = Arc::clone(&self.free_kib).try_acquire_many_owned(kib);
        let kib = reserved.map_err(|_| {
            Refusal::upstream("other large bodies are being signed at the moment; try again".to_owned())
        })?;
        Ok(HeldBody { _kib: kib })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_together_are_bounded_and_memory_comes_back() {
        let bodies = HeldBodies::default();
        let held: Vec<HeldBody> = (0..8).map(|_| bodies.reserve(16 << 20).unwrap()).collect();
        assert!(bodies.reserve(1).unwrap_err().detail.contains("try again"));
        drop(held);
        assert!(bodies.reserve(16 << 20).is_ok());
    }
}
