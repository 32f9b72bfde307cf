//! Our own small agent loop. `launch` is the host's side; `agent` is the loop that runs inside, as the hidden `__agent`
//! command of this very program; `protocol` is what they say to each other over the agent's standard streams.

pub mod agent;
pub mod launch;
pub mod protocol;
pub mod tools;
