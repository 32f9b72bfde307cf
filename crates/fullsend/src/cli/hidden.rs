//! Hidden commands, which fullsend starts itself. They are dispatched before anything else is set up.

use std::ffi::OsString;
use std::process::ExitCode;

use super::{check_output, hidden_hook};
use crate::archive::inside_files;
use crate::backend::openshell::tunnel;
use crate::bootstrap::scan_inside;
use crate::lasting::owner;
use crate::provision::servers::supervise;
use crate::runtime::native::agent;
use crate::runtime::state;

/// Runs the hidden command that the first argument names, if it names one.
pub fn dispatch(arguments: &[OsString]) -> Option<ExitCode> {
    if arguments.first().is_some_and(|program| check_output::is_name(program)) {
        return Some(check_output::main(&arguments[1..]));
    }
    match arguments.get(1)?.to_str()? {
        "__init" => sandbox::init::main(),
        "__hook" => Some(hidden_hook::main(&arguments[2..])),
        owner::COMMAND => Some(owner::main()),
        inside_files::COMMAND => Some(inside_files::main(&arguments[2..])),
        "__state" => Some(state::main(&arguments[2..])),
        tunnel::COMMAND => Some(tunnel::inside::main()),
        supervise::COMMAND => Some(supervise::main(&arguments[2..])),
        "__agent" => Some(agent::main()),
        scan_inside::COMMAND => {
            let words = ["fullsend", "scan", "context"].map(OsString::from);
            Some(super::main(words.into_iter().chain(arguments[2..].iter().cloned())))
        }
        _ => None,
    }
}
