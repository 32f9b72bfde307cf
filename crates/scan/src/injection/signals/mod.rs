//! The tables of signs, one file per family, and two for other languages than English.

mod authority;
mod concealment;
mod execution;
mod exfiltration;
mod inclusion;
mod instruction;
mod languages;
mod more_languages;
mod persona;
mod tampering;
mod tool;

use super::signal::Signal;

pub(crate) fn all() -> impl Iterator<Item = &'static Signal> {
    [
        instruction::SIGNALS,
        persona::SIGNALS,
        authority::SIGNALS,
        concealment::SIGNALS,
        exfiltration::SIGNALS,
        execution::SIGNALS,
        tampering::SIGNALS,
        tool::SIGNALS,
        inclusion::SIGNALS,
        languages::SIGNALS,
        more_languages::SIGNALS,
    ]
    .into_iter()
    .flatten()
}
