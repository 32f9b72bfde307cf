//! Bytes in, findings out.
