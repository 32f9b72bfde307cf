//! What may leave the sandbox, and how: the model's door, the scripted model, and the wire formats of the vendors.
//! Served on sockets that were made inside the sandbox; decides nothing about policy by itself and never reads the
//! environment.

pub mod client;
pub mod credentials;
pub mod dial;
pub mod dns;
pub mod door;
pub mod event;
pub mod http1;
pub mod identity;
pub mod resolver;
pub mod scripted;
pub mod wire;
