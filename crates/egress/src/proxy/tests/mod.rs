//! The proxy over real sockets: real TLS on both sides, the policy as people write it, and the caller found by the
//! kernel's account of this very process.

mod attack_methods;
mod attacks;
mod bodies;
mod clients;
mod credentials;
mod faults;
mod held;
mod http2;
mod lab;
mod names;
mod outgoing_check;
mod passed_on;
mod paths;
mod readings;
mod reflection;
mod signing;
mod storms;
mod suite;
mod tunnels;
mod weak;
mod websockets;
