//! The tests of sessions: tables of the pure rules, one suite over every store, a model, and faults from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod certificates;
mod cluster;
mod connections;
mod directive;
mod faults;
mod fixture;
mod ingress;
mod kill;
mod machine;
mod model;
mod proxy;
mod server;
mod suite;
