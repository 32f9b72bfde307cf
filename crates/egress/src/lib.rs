//! What may leave the sandbox, and how.
