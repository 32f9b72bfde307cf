//! Memory for bodies that are held whole, shared by all connections of a proxy: bodies that rules read, decompressed ones, those
//! that get credentials and those that are signed. What programs inside send must not fill the host's memory.

use super::refusal::Refusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For all bodies together.
const MAX_KIB: u32 = 128 << 10;

/// From the first byte of a body that is signed to its last, however its bytes are spread.
pub(super) const BODY_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(super) struct HeldBodies {
    free_kib: Arc<Semaphore>,
}

/// The memory of one body. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    bodies: HeldBodies,
    bytes: u64,
    reserved: Option<OwnedSemaphorePermit>,
}

impl Default for HeldBodies {
    fn default() -> Self {
        Self { free_kib: Arc::new(Semaphore::new(MAX_KIB as usize)) }
    }
}

impl HeldBodies {
    /// Memory for a body that has not come yet.
    pub(super) fn empty(&self) -> HeldBody {
        HeldBody { bodies: self.clone(), bytes: 0, reserved: None }
    }

    /// Memory for a body of at most so many bytes.
    pub(super) fn reserve(&self, most: u64) -> Result<HeldBody, Refusal> {
        let mut held = self.empty();
        held.grow(most)?;
        Ok(held)
    }

    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> u64 {
        (self.free_kib.available_permits() as u64) << 10
    }
}

impl HeldBody {
    /// Memory for so many bytes more. Refused at once if there is none left: a client that waits would hold a
    /// connection.
    pub(super) fn grow(&mut self, more: u64) -> Result<(), Refusal> {
        let bytes = self.bytes.saturating_add(more);
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        if kib > MAX_KIB {
            return Err(Refusal::body_over_memory(u64::from(MAX_KIB) << 10));
        }
        let has = self.reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needed = kib - u32::try_from(has).unwrap_or(u32::MAX);
        if needed > 0 {
            let further = Arc::clone(&self.bodies.free_kib)
                .try_acquire_many_owned(needed)
                .map_err(|_| Refusal::memory_taken())?;
            match &mut self.reserved {
                Some(reserved) => reserved.merge(further),
                None => self.reserved = Some(further),
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_together_are_bounded_and_memory_comes_back() {
        let bodies = HeldBodies::default();
        let held: Vec<HeldBody> = (0..8).map(|_| bodies.reserve(16 << 20).unwrap()).collect();
        let refusal = bodies.reserve(1).unwrap_err();
        assert!(refusal.status == 503 && refusal.detail.contains("try again"), "{refusal:?}");
        drop(held);
        assert!(bodies.reserve(16 << 20).is_ok());
        assert_eq!(bodies.reserve(129 << 20).unwrap_err().status, 413);
    }

    #[test]
    fn a_body_takes_memory_as_it_comes() {
        let bodies = HeldBodies::default();
        let all = bodies.free_bytes();
        let mut held = bodies.empty();
        assert_eq!(bodies.free_bytes(), all);
        (0..2048).for_each(|_| held.grow(1).unwrap());
        assert_eq!(bodies.free_bytes(), all - 2048);
        held.grow(1 << 20).unwrap();
        assert_eq!(bodies.free_bytes(), all - 2048 - (1 << 20));
        drop(held);
        assert_eq!(bodies.free_bytes(), all);
    }
}
