//! The cases, one idea per file.

mod commands;
mod deaths;
mod doctor;
mod faults;
mod files;
mod identity;
mod image;
mod leftovers;
mod limits;
mod network;
mod proof;
mod refusals;
mod transfer;

use crate::runner::Case;
pub(crate) use faults::live_on_full_disk;

pub(crate) fn all() -> Vec<Case> {
    [
        commands::CASES,
        deaths::CASES,
        doctor::CASES,
        faults::CASES,
        files::CASES,
        identity::CASES,
        image::CASES,
        leftovers::CASES,
        limits::CASES,
        network::CASES,
        proof::CASES,
        refusals::CASES,
        transfer::CASES,
    ]
    .concat()
}
