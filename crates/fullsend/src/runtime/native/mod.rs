//! Our own small agent loop. `launch` is the host's side; `agent` is the loop that runs inside, as the hidden `__agent`
//! command of this very program; `protocol` is what they say to each other over the agent's
//! standard streams, and `stream` is how the host reads it. `tools` and what stands below it do the work; `servers` are tools that come from elsewhere.

pub mod agent;
mod compaction;
mod files;
pub mod launch;
pub mod protocol;
mod servers;
pub mod settings;
mod shell;
pub mod stream;
pub mod tools;
