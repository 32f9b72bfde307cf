//! Codex. `settings` is what we put around it so that nothing in the repository can bend it, `launch` starts it and brings
//! its result back, `stream` reads what it prints.

pub mod launch;
pub mod settings;
pub mod stream;
