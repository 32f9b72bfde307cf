//! Entering fresh namespaces, and dying with the host side.

use crate::channel;
use crate::describe::IsolationMechanism;
use crate::identity::Mapping;
use crate::message::{InitReport, InitRequest};
use crate::spec::{SandboxIdentity, SandboxSpec};
use crate::step::{StartStep, StepContext, StepError};
use crate::sys;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Gid, Signal, Uid};
use rustix::thread::UnshareFlags;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;

/// The kernel kills this process when the thread that started it ends.
pub(super) fn die_with_parent(control: &UnixStream) -> Result<(), StepError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .at(StartStep::DieWithParent, "prctl")?;
    // The parent may have died just before; then its end of the socket is closed and no signal will come.
    let mut poll = [PollFd::new(control, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut poll, Some(&now)).at(StartStep::DieWithParent, "poll")?;
    if poll[0].revents().contains(PollFlags::HUP) {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe))
            .at(StartStep::DieWithParent, "the host side is gone");
    }
    Ok(())
}

/// Moves into new namespaces of every kind that confines, and takes on the spec's identity there.
pub(super) fn enter(spec: &SandboxSpec, mapping: Mapping, control: &UnixStream) -> Result<(), StepError> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    if uid == 0 {
        // An ordinary user may not drop its groups; root's would stay in force inside.
        rustix::thread::set_thread_groups(&[]).at(StartStep::MapIdentity, "dropping supplementary groups")?;
    }
    spec.defences.reach(StartStep::Unshare)?;
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    for (layer, flag) in [
        (IsolationMechanism::NetworkNamespace, UnshareFlags::NEWNET),
        (IsolationMechanism::IpcNamespace, UnshareFlags::NEWIPC),
    ] {
        if !spec.defences.has(layer) {
            flags -= flag;
        }
    }
    sys::unshare(flags).at(StartStep::Unshare, "namespaces")?;
    spec.defences.reach(StartStep::MapIdentity)?;
    match mapping {
        Mapping::Caller => map_caller(spec.identity, uid, gid),
        Mapping::Fresh { .. } => take_fresh(spec.identity, control),
    }
}

/// The host side writes the map, then this process becomes the identity that it maps. The capabilities in the new user
/// namespace stay: they only go when root of that namespace changes, and there is none.
fn take_fresh(identity: SandboxIdentity, control: &UnixStream) -> Result<(), StepError> {
    channel::send(control, &InitReport::Unshared, &[]).at(StartStep::MapIdentity, "asking for the map")?;
    match channel::receive(control).at(StartStep::MapIdentity, "waiting for the map")? {
        Some((InitRequest::Mapped, _)) => {}
        _ => {
            return Err(io::Error::from(io::ErrorKind::InvalidData)).at(StartStep::MapIdentity, "the answer");
        }
    }
    let uid = Uid::from_raw(identity.uid);
    let gid = Gid::from_raw(identity.gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).at(StartStep::MapIdentity, "the group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).at(StartStep::MapIdentity, "the user")
}

fn map_caller(identity: SandboxIdentity, uid: u32, gid: u32) -> Result<(), StepError> {
    // The kernel takes a group map from an ordinary user only after this.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{} {uid} 1", identity.uid))?;
    write("/proc/self/gid_map", &format!("{} {gid} 1", identity.gid))
}

fn write(path: &str, text: &str) -> Result<(), StepError> {
    fs::write(path, text).at(StartStep::MapIdentity, path)
}

pub(super) fn name_host(hostname: &str) -> Result<(), StepError> {
    rustix::system::sethostname(hostname.as_bytes()).at(StartStep::Hostname, hostname)?;
    rustix::system::setdomainname(b"(none)").at(StartStep::Hostname, "the domain name")
}
