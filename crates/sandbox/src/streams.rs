//! The descriptors and the environment that a command gets, made on the host side.

use crate::error::ExecError;
use crate::process::Stdio;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;

/// The two ends of one standard stream: the command's, and ours if it is a pipe.
pub(crate) struct StreamEnds<T> {
    pub(crate) inside: Option<OwnedFd>,
    pub(crate) outside: Option<T>,
}

pub(crate) fn input(stdio: Stdio) -> Result<StreamEnds<PipeWriter>, ExecError> {
    match stdio {
        Stdio::Null => Ok(StreamEnds { inside: None, outside: None }),
        Stdio::Descriptor(fd) => Ok(StreamEnds { inside: Some(fd), outside: None }),
        Stdio::Pipe => {
            let (reader, writer) = io::pipe().map_err(|source| ExecError::Descriptor { source })?;
            Ok(StreamEnds { inside: Some(reader.into()), outside: Some(writer) })
        }
    }
}

pub(crate) fn output(stdio: Stdio) -> Result<StreamEnds<PipeReader>, ExecError> {
    match stdio {
        Stdio::Null => Ok(StreamEnds { inside: None, outside: None }),
        Stdio::Descriptor(fd) => Ok(StreamEnds { inside: Some(fd), outside: None }),
        Stdio::Pipe => {
            let (reader, writer) = io::pipe().map_err(|source| ExecError::Descriptor { source })?;
            Ok(StreamEnds { inside: Some(writer.into()), outside: Some(reader) })
        }
    }
}

/// The spec's environment with the command's on top.
pub(crate) fn merged(
    base: &[(OsString, OsString)],
    top: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let kept = base.iter().filter(|(name, _)| !top.iter().any(|(other, _)| other == name)).cloned();
    kept.chain(top.iter().cloned()).collect()
}
