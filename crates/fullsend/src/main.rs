//! The `fullsend` program.

fn main() {}
