//! Identity maps for mounts: files of one user on the host belong to the sandbox's user inside, and stay that user's on
//! disk. Only root can make them; they are made before the sandbox's own namespaces are entered.

use crate::sys::{self, MountAttributes};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions};
use rustix::thread::UnshareFlags;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The user namespaces that describe the maps, one per owner that was met.
pub(super) struct IdentityMaps {
    fresh: u32,
    namespaces: Vec<((u32, u32), OwnedFd)>,
}

impl IdentityMaps {
    pub(super) fn new(fresh: u32) -> Self {
        Self { fresh, namespaces: Vec::new() }
    }

    /// Maps `owner` on the detached mount `tree` to the sandbox's identity.
    pub(super) fn apply(&mut self, tree: impl AsFd, owner: (u32, u32)) -> io::Result<()> {
        let namespace = match self.namespaces.iter().position(|(known, _)| *known == owner) {
            Some(index) => &self.namespaces[index].1,
            None => {
                self.namespaces.push((owner, describe_map(owner, self.fresh)?));
                &self.namespaces[self.namespaces.len() - 1].1
            }
        };
        let attributes = MountAttributes {
            set: libc::MOUNT_ATTR_IDMAP,
            user_namespace: Some(namespace.as_fd()),
            recursive: true,
            ..MountAttributes::default()
        };
        sys::set_mount_attributes(tree, attributes)
    }
}

/// A user namespace without processes: a child makes it, we write its maps, open it, and end the child.
fn describe_map(owner: (u32, u32), fresh: u32) -> io::Result<OwnedFd> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let Some(child) = sys::fork()? else {
        drop(ours);
        sys::exit_now(hold_namespace(theirs));
    };
    drop(theirs);
    let taken = take_namespace(&mut ours, child, owner, fresh);
    drop(ours);
    if let Some(pid) = Pid::from_raw(child) {
        rustix::process::waitpid(Some(pid), WaitOptions::empty())?;
    }
    taken
}

fn hold_namespace(mut socket: UnixStream) -> i32 {
    let ready = sys::unshare(UnshareFlags::NEWUSER).and_then(|()| socket.write_all(b"r"));
    // Ends when the other side has what it wants, or is gone.
    let released = ready.and_then(|()| socket.read(&mut [0]));
    i32::from(released.is_err())
}

fn take_namespace(
    socket: &mut UnixStream,
    child: i32,
    (uid, gid): (u32, u32),
    fresh: u32,
) -> io::Result<OwnedFd> {
    socket.read_exact(&mut [0])?;
    fs::write(format!("/proc/{child}/uid_map"), format!("{uid} {fresh} 1"))?;
    fs::write(format!("/proc/{child}/gid_map"), format!("{gid} {fresh} 1"))?;
    Ok(rustix::fs::open(format!("/proc/{child}/ns/user"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}
