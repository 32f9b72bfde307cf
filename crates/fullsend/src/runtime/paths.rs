//! Paths and addresses inside the sandbox, the same for every runtime.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where the agent reaches its model: an address that only this sandbox's loopback answers for.
pub const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)), 80);
pub const GATEWAY_NAME: &str = "model.fullsend.internal";

/// Our own program.
pub const PROGRAM: &str = "/opt/fullsend/fullsend";

/// The directory of the runtime's program.
pub const RUNTIME_PROGRAM: &str = "/opt/fullsend/runtime";

/// The directory of files that a launch names on its command line.
pub const LAUNCH: &str = "/opt/fullsend/launch";

/// Plugin directories of the harness.
pub const PLUGINS: &str = "/opt/fullsend/plugins";

/// Where the agent's output is expected.
pub const OUTPUT: &str = "/sandbox/workspace/output";

/// The files that the caller gives to one run, read-only.
pub const INPUT: &str = "/sandbox/workspace/input";

/// The directory that `agent_input` names, read-only.
pub const AGENT_INPUT: &str = "/sandbox/workspace/agent-input";

pub const WORKSPACE: &str = "/sandbox/workspace";
