//! The attack suite: one file per attack, each a real attempt from inside, once against the whole sandbox, where it
//! must fail, and once without the layer that stops it, where it must work; otherwise the layer's effect is not shown.
//! If the kernel or plain permissions make an attack impossible, its cell says so.

mod a01_new_settings_file;
mod a02_symlink_then_host_write;
mod a03_symlink_to_denied_file;
mod a04_predictable_temporary_file;
mod a05_nested_repository_hook;
mod a06_git_configuration;
mod a07_environment_file;
mod a08_first_creation;
mod a09_key_to_another_address;
mod a10_nested_secret;
mod a11_writable_hiding_place;
mod a12_in_process_tools;
mod a13_hard_link;
mod a14_upload_through_symlink;
mod a15_swapped_mount_source;
mod a16_swapped_output;
mod a17_proc_aliases;
mod a18_leaked_descriptor;
mod a19_launcher_overwrite;
mod a20_silent_landlock;
mod a21_mount_point_artefacts;
mod a22_terminal_injection;
mod a23_other_processes;
mod a24_seccomp_in_every_mode;
mod a25_setuid_program;
mod a26_nested_namespaces;
mod a27_fileless_program;
mod a28_other_entries;
mod a29_kernel_surfaces;
mod a30_host_switches;
mod a31_devices;
mod a32_inherited_environment;
mod a33_survivors;
mod a34_unix_sockets;
mod a35_shared_ipc;
mod a36_around_the_wrapper;
mod a37_around_the_proxy;
mod a41_names_as_messages;
mod a51_other_protocols;
mod a52_other_listeners;
mod a53_other_memory;
mod a56_unlisted_call;
mod abstract_socket;
mod forbidden_calls;
mod host_network;
mod workspace;

pub(crate) use abstract_socket::connect as connect_abstract;
pub(crate) use forbidden_calls::make as make_attempt;
pub(crate) use workspace::Workspace;

use crate::world::World;
use sandbox::{Defences, IsolationMechanism, SandboxPart, SandboxSpec};

/// Where this binary is inside.
pub(crate) const PROGRAM: &str = "/opt/attack";

#[derive(Clone, Copy)]
pub(crate) struct Attack {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    /// Panics if the attack works.
    pub(crate) held: fn(&World) -> Cell,
    /// Panics if it does not work without its layer.
    pub(crate) works_without_layer: fn(&World) -> Cell,
}

pub(crate) enum Cell {
    Yes,
    /// Cannot be shown here, and why.
    Reason(&'static str),
}

impl Cell {
    pub(crate) const NO_MAPS: Self = Self::Reason("the file system of /tmp does not support identity maps");

    /// `None` where a writable mount was needed and root cannot have one.
    pub(crate) fn bit(outcome: Option<bool>) -> Self {
        match outcome {
            Some(bit) => assert!(bit, "the attack does not work even without its layer"),
            None => return Self::NO_MAPS,
        }
        Self::Yes
    }
}

/// Starts without these layers, knowingly.
pub(crate) fn leave_out(spec: &mut SandboxSpec, layers: &[IsolationMechanism]) {
    spec.defences = Defences::without(layers.iter().copied());
    spec.accept_weaker.extend(layers.iter().copied().map(SandboxPart::Mechanism));
}

pub(crate) const ALL: &[Attack] = &[
    a01_new_settings_file::ATTACK,
    a02_symlink_then_host_write::ATTACK,
    a03_symlink_to_denied_file::ATTACK,
    a04_predictable_temporary_file::ATTACK,
    a05_nested_repository_hook::ATTACK,
    a06_git_configuration::ATTACK,
    a07_environment_file::ATTACK,
    a08_first_creation::ATTACK,
    a09_key_to_another_address::ATTACK,
    a10_nested_secret::ATTACK,
    a11_writable_hiding_place::ATTACK,
    a12_in_process_tools::ATTACK,
    a13_hard_link::ATTACK,
    a14_upload_through_symlink::ATTACK,
    a15_swapped_mount_source::ATTACK,
    a16_swapped_output::ATTACK,
    a17_proc_aliases::ATTACK,
    a18_leaked_descriptor::ATTACK,
    a19_launcher_overwrite::ATTACK,
    a20_silent_landlock::ATTACK,
    a21_mount_point_artefacts::ATTACK,
    a22_terminal_injection::ATTACK,
    a23_other_processes::ATTACK,
    a24_seccomp_in_every_mode::ATTACK,
    a25_setuid_program::ATTACK,
    a26_nested_namespaces::ATTACK,
    a27_fileless_program::ATTACK,
    a28_other_entries::ATTACK,
    a29_kernel_surfaces::ATTACK,
    a30_host_switches::ATTACK,
    a31_devices::ATTACK,
    a32_inherited_environment::ATTACK,
    a33_survivors::ATTACK,
    a34_unix_sockets::ATTACK,
    a35_shared_ipc::ATTACK,
    a36_around_the_wrapper::ATTACK,
    a37_around_the_proxy::ATTACK,
    a41_names_as_messages::ATTACK,
    a51_other_protocols::ATTACK,
    a52_other_listeners::ATTACK,
    a53_other_memory::ATTACK,
    a56_unlisted_call::ATTACK,
];
