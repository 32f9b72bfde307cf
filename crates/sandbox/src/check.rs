//! What is wrong with a spec before anything is touched: relative paths, two things in one place, numbers out of range.

use crate::describe::IsolationMechanism;
use crate::error::StartError;
use crate::spec::{Edit, MountKind, SandboxSpec};
use crate::step::StartStep;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::{Component, Path};

const MAX_MOUNTS: usize = 20_000;
/// The other parts are required.
const CAN_BE_LEFT_OUT: [IsolationMechanism; 6] = [
    IsolationMechanism::NetworkNamespace,
    IsolationMechanism::IpcNamespace,
    IsolationMechanism::Proc,
    IsolationMechanism::NestedNamespaces,
    IsolationMechanism::Landlock,
    IsolationMechanism::Seccomp,
];
/// The kernel takes 500; images have at most 127.
const MAX_LAYERS: usize = 128;
const MAX_SOCKETS: usize = 4_000;
/// The kernel's own limit.
const MAX_HOSTNAME_BYTES: usize = 64;

/// Refuses a spec that cannot work as written.
pub(crate) fn check(spec: &SandboxSpec) -> Result<(), StartError> {
    absolute(&spec.state_directory)?;
    if let Some(program) = &spec.program {
        absolute(program)?;
    }
    if spec.image.len() > MAX_LAYERS {
        return Err(wrong("the image", &format!("more than {MAX_LAYERS} layers")));
    }
    for layer in &spec.image {
        absolute(layer)?;
    }
    let mut targets = BTreeSet::new();
    for mount in &spec.mounts {
        absolute(&mount.target)?;
        if mount.target == Path::new("/") {
            return Err(wrong("/", "the root is made of what the spec lists; mount below it"));
        }
        if !targets.insert(&mount.target) {
            return Err(wrong(mount.target.display(), "two mounts have this target"));
        }
        check_kind(&mount.kind)?;
        if matches!(mount.kind, MountKind::Image | MountKind::ImageView { .. }) && spec.image.is_empty() {
            return Err(wrong(mount.target.display(), "a part of an image, and the spec has none"));
        }
    }
    if spec.mounts.len() > MAX_MOUNTS {
        return Err(wrong("the mounts", &format!("more than {MAX_MOUNTS}")));
    }
    if spec.network.sockets.len() > MAX_SOCKETS {
        return Err(wrong("the sockets", &format!("more than {MAX_SOCKETS}")));
    }
    for mechanism in spec.defences.missing() {
        if !CAN_BE_LEFT_OUT.contains(&mechanism) {
            return Err(wrong(mechanism, "this mechanism cannot be left out"));
        }
    }
    for range in &spec.network.local_ranges {
        let bits = if range.address.is_ipv4() { 32 } else { 128 };
        if range.prefix_bits == 0 || range.prefix_bits > bits {
            return Err(wrong(range.address, "the prefix length is out of range"));
        }
    }
    if spec.hostname.is_empty() || spec.hostname.len() > MAX_HOSTNAME_BYTES {
        return Err(wrong("the hostname", "must have 1 to 64 bytes"));
    }
    Ok(())
}

fn check_kind(kind: &MountKind) -> Result<(), StartError> {
    match kind {
        MountKind::ReadOnly { source } | MountKind::ReadWrite { source } | MountKind::Socket { source } => {
            absolute(source)
        }
        MountKind::CopyOnWrite(view) | MountKind::ReadOnlyView(view) => {
            for edit in &view.edits {
                let (Edit::Remove { path } | Edit::Write { path, .. } | Edit::EmptyDirectory { path }) = edit;
                beneath(path)?;
            }
            absolute(&view.source)
        }
        MountKind::Image
        | MountKind::ImageView { .. }
        | MountKind::Temporary { .. }
        | MountKind::File { .. }
        | MountKind::Directory { .. }
        | MountKind::Symlink { .. } => Ok(()),
    }
}

fn absolute(path: &Path) -> Result<(), StartError> {
    let plain = path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    // `components` hides `.` and doubled slashes, which would make two spellings of one target.
    let exact = path.as_os_str() == path.components().as_path().as_os_str() && !has_dot(path);
    if path.is_absolute() && plain && exact {
        Ok(())
    } else {
        Err(wrong(path.display(), "not an absolute path without `.`, `..` and trailing slash"))
    }
}

fn has_dot(path: &Path) -> bool {
    path.as_os_str()
        .as_encoded_bytes()
        .split(|byte| *byte == b'/')
        .skip(1)
        .any(|part| part == b"." || part.is_empty())
        && path != Path::new("/")
}

fn beneath(path: &Path) -> Result<(), StartError> {
    let mut parts = path.components();
    let plain = parts.clone().all(|part| matches!(part, Component::Normal(_)));
    if plain && parts.next().is_some() {
        Ok(())
    } else {
        Err(wrong(path.display(), "not a relative path without `.` and `..`"))
    }
}

fn wrong(on: impl Display, why: &str) -> StartError {
    let source = io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    StartError::Step { step: StartStep::CheckSpec, on: on.to_string(), source }
}
