//! The one integration-test binary. Each module tests one thing through the real program or the real tree.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod acp;
mod advice;
mod asked;
mod attack_rows;
mod attacked;
mod bad_input;
mod boundary_table;
mod canary;
mod changed;
mod ci_action;
mod ci_outside;
mod ci_render;
mod clients;
#[path = "session/cluster.rs"]
#[expect(dead_code, reason = "workers need less of it than the store's own tests")]
mod cluster;
mod commands;
mod completed;
mod credentials;
mod dispatch;
mod docs;
mod drop_in;
mod egress;
mod examples;
mod explained;
mod fields;
mod first_mistakes;
#[path = "session/fixture.rs"]
#[expect(dead_code, reason = "only the directory of a cluster is needed")]
mod fixture;
#[path = "../fuzz/targets.rs"]
mod fuzz_targets;
mod fuzzed;
mod gateway;
mod guarded;
mod guarded_places;
mod hook_socket;
mod host_memory;
mod hostile_output;
mod image_builder;
mod images;
mod init;
mod instructions;
mod kept;
mod killed;
mod lab;
mod large_input;
mod lasting;
mod learned;
mod leaving;
mod library;
mod live;
mod mcp;
mod merge;
mod merge_fields;
mod merge_layers;
mod message_cases;
mod messages;
mod mistakes_met;
mod networks;
mod openshell;
mod openshell_runs;
mod option_cases;
mod outcomes;
mod overrides;
mod packaged;
mod page;
mod parsing;
mod pictures;
mod pins;
mod policy_commands;
mod preflight;
mod profiles;
mod properties;
#[path = "session/proxy.rs"]
#[expect(dead_code, reason = "the store's own tests need more of it")]
mod proxy;
mod questions;
mod random_harness;
mod readable;
mod recorded;
mod registry;
mod remote;
mod report_schemas;
mod reports;
mod repository_view;
mod rules;
mod runtimes;
mod sandboxes;
mod scanned;
mod script_logs;
mod seeds;
mod served;
mod servers;
mod services;
mod session_commands;
mod session_stores;
mod session_upkeep;
mod signed;
mod skeleton;
mod steps;
mod stopped;
mod support;
mod svg;
mod telemetry;
mod tidy;
mod trusted;
mod upstream;
mod variables;
mod vendor;
mod wakes;
mod weaknesses;
mod workflow_commands;
mod wrong_refusals;
