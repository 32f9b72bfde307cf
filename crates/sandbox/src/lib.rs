//! Linux isolation from a plain `SandboxSpec`.
