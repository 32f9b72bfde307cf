//! The proxy: everything that leaves the sandbox, except what goes to the model gateway. It identifies the calling
//! program, asks the policy, checks the resolved addresses, and then tunnels the bytes unchanged. It inspects requests
//! only where a rule or a bound credential needs it. Each connection or request is one event. A policy refusal
//! names the rule that would allow the request.
//!
//! `accept` takes connections, `forward` and `direct` find out where they want to go, `admission` asks the policy,
//! `inspect` chooses between a tunnel and reading requests, `requests` is the loop over HTTP/1.1 requests.

mod accept;
mod admission;
mod body_rules;
mod charset;
mod client;
mod config;
mod content_encoding;
mod decide;
mod defences;
mod destination;
mod direct;
mod exchange;
mod form_method;
mod forward;
mod held_bodies;
mod http2;
mod inspect;
mod outgoing_check;
mod outgoing_request;
mod readings;
mod record;
mod refusal;
mod requests;
mod response_mask;
mod route;
mod signing;
mod stream;
mod suggest;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;
mod websocket;

pub use accept::{RunningProxy, ServedSocket, start};
pub use config::{Proxy, ProxyConfig, ProxyLimits};
pub use forward::service;
pub use outgoing_check::{LeakWatcher, MessageWatcher};
pub use refusal::LocateRule;
pub use stream::{BoxStream, ByteStream, GatewayConnection, GatewayService};
pub use suggest::suggest;
