//! Which memory files a commit may write.

use super::limits::SessionLimits;
use super::refusal::SessionRefusal;
use crate::log::memory::{CHECKPOINT, MemoryAuthor, MemoryFile, MemoryWrite};

const MAX_NAME_BYTES: usize = 200;

pub(crate) fn check_memory_writes(
    writes: &[MemoryWrite],
    limits: &SessionLimits,
) -> Result<(), SessionRefusal> {
    for (at, MemoryWrite { author, file: MemoryFile { name, content } }) in writes.iter().enumerate() {
        let twice = writes[..at].iter().any(|earlier| earlier.file.name == *name);
        if twice || !is_plain_path(name) {
            return Err(SessionRefusal::MemoryName { name: name.clone() });
        }
        if *author == MemoryAuthor::Agent && name == CHECKPOINT {
            return Err(SessionRefusal::MemoryReserved { name: name.clone() });
        }
        let size = content.len();
        let limit = limits.memory_file_bytes;
        if size > limit {
            return Err(SessionRefusal::TooLarge { what: "memory file", size, limit });
        }
    }
    Ok(())
}

/// The name becomes a path in the session's directory: it must stay below it, on every file system.
fn is_plain_path(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    name.len() <= MAX_NAME_BYTES && name.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::memory::{SESSION_STATE, WORKING_BUFFER};

    fn verdict(author: MemoryAuthor, name: &str, size: usize) -> Result<(), SessionRefusal> {
        let file = MemoryFile { name: name.to_owned(), content: "x".repeat(size) };
        check_memory_writes(&[MemoryWrite { author, file }], &SessionLimits::default())
    }

    #[test]
    fn names_and_sizes() {
        for good in [SESSION_STATE, WORKING_BUFFER, "notes/2026-plan.md", "a"] {
            assert_eq!(verdict(MemoryAuthor::Agent, good, 10), Ok(()), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".git/config", "a\0b", "ä.md", "a b"]
        {
            assert!(
                matches!(verdict(MemoryAuthor::Agent, bad, 1), Err(SessionRefusal::MemoryName { .. })),
                "{bad}"
            );
        }
        let long = "x".repeat(201);
        assert!(matches!(verdict(MemoryAuthor::Agent, &long, 1), Err(SessionRefusal::MemoryName { .. })));
        assert!(matches!(
            verdict(MemoryAuthor::Agent, CHECKPOINT, 1),
            Err(SessionRefusal::MemoryReserved { .. })
        ));
        assert_eq!(verdict(MemoryAuthor::Fullsend, CHECKPOINT, 1), Ok(()));
        assert!(matches!(
            verdict(MemoryAuthor::Agent, "a", (256 << 10) + 1),
            Err(SessionRefusal::TooLarge { .. })
        ));
    }
}
