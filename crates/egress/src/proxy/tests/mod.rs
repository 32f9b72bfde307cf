//! The proxy over real sockets: real TLS on both sides, the policy as people write it, and the caller identified by the
//! kernel as this process.

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
