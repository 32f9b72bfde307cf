//! How a command inside the sandbox ended.

use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandExit {
    Code(i32),
    Signal(i32),
}

impl CommandExit {
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}
