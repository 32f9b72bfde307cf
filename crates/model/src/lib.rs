//! Models: the vendors' wire formats, the gateway between the sandbox and the model with its budget, prices and
//! recordings, the upstreams behind it, and the scripted model. It knows no policy and never reads the environment.

pub mod client;
pub mod event;
pub mod gateway;
pub mod scripted;
pub mod wire;
