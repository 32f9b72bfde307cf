//! Which program opened a connection, and which programs started it, according to the kernel. Names that a process
//! gives itself (argv, comm) are ignored. A program that cannot be identified for certain has no identity, and without
//! one nothing passes.

mod digest;
mod process;
mod socket;
#[cfg(test)]
mod tests;

pub use digest::Sha256;

use digest::{DigestError, Digests};
use process::ProcessTree;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One program file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFile {
    /// As the sandbox sees it.
    pub path: String,
    pub sha256: Sha256,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentifiedCaller {
    /// As the host numbers it.
    pub pid: u32,
    pub program: ProgramFile,
    /// Nearest first.
    pub ancestors: Vec<ProgramFile>,
}

/// A process that holds a connection, and its program's path as the sandbox sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOwner {
    /// As the host numbers it.
    pub pid: u32,
    pub path: String,
}

#[derive(Debug)]
pub enum IdentityError {
    /// The socket is not in the sandbox's table: already closed.
    NoSocket,
    NoOwner,
    /// Several programs hold the socket.
    Ambiguous {
        paths: Vec<String>,
    },
    Swapped {
        path: String,
    },
    /// Another program holds the socket than the one that it was admitted for.
    Passed {
        from: String,
        to: String,
    },
    Proc {
        what: &'static str,
        source: io::Error,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket => f.write_str("the connection is no longer open"),
            Self::NoOwner => f.write_str("no process of the sandbox holds the connection"),
            Self::Ambiguous { paths } => {
                write!(f, "the connection is held by several programs: {}", paths.join(", "))
            }
            Self::Swapped { path } => write!(f, "{path} is not the file that it was at its first connection"),
            Self::Passed { from, to } => {
                write!(f, "the connection was opened by {from} and is held by {to} now")
            }
            Self::Proc { what, source } => write!(f, "cannot read {what}: {source}"),
        }
    }
}

impl std::error::Error for IdentityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Proc { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Finds the program behind a connection. Injectable, so that tests can show what a weaker answer would allow.
pub trait Identify: Send + Sync {
    /// `peer` and `local` as the accepting side sees them. May block.
    fn identify(&self, peer: SocketAddr, local: SocketAddr) -> Result<IdentifiedCaller, IdentityError>;

    /// Whether the program that opened the connection holds it still, alone or with programs that it started: a rule
    /// for a program covers those too. May block.
    fn check_holder(
        &self,
        opener: &ProgramFile,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<(), IdentityError> {
        let holder = self.identify(peer, local)?;
        if holder.program == *opener || holder.ancestors.contains(opener) {
            return Ok(());
        }
        Err(IdentityError::Passed { from: opener.path.clone(), to: holder.program.path })
    }
}

/// Identifies callers in one sandbox by the proc filesystem.
pub struct ProcIdentifier {
    proc: PathBuf,
    /// The sandbox's first process, as the host numbers it.
    root: u32,
    digests: Digests,
}

impl Identify for ProcIdentifier {
    fn identify(&self, peer: SocketAddr, local: SocketAddr) -> Result<IdentifiedCaller, IdentityError> {
        let callers = self.callers(peer, local)?;
        let Some((pid, programs)) = callers.first().cloned() else { return Err(IdentityError::NoOwner) };
        if callers.iter().any(|(_, others)| others.first() != programs.first()) {
            let paths =
                callers.iter().filter_map(|(_, programs)| Some(programs.first()?.path.clone())).collect();
            return Err(IdentityError::Ambiguous { paths });
        }
        let mut programs = programs.into_iter();
        let program = programs.next().ok_or(IdentityError::NoOwner)?;
        Ok(IdentifiedCaller { pid, program, ancestors: programs.collect() })
    }

    fn check_holder(
        &self,
        opener: &ProgramFile,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<(), IdentityError> {
        let callers = self.callers(peer, local)?;
        if callers.is_empty() {
            return Err(IdentityError::NoOwner);
        }
        let strange = callers.into_iter().find(|(_, programs)| !programs.contains(opener));
        match strange.and_then(|(_, programs)| programs.into_iter().next()) {
            None => Ok(()),
            Some(to) => Err(IdentityError::Passed { from: opener.path.clone(), to: to.path }),
        }
    }
}

impl ProcIdentifier {
    pub fn new(root: u32) -> Self {
        Self { proc: PathBuf::from("/proc"), root, digests: Digests::default() }
    }

    /// Every process that holds a connection. The programs are not hashed: that takes long for a large one.
    pub fn owners(&self, peer: SocketAddr, local: SocketAddr) -> Result<Vec<SocketOwner>, IdentityError> {
        let inode = socket::find_inode(&self.proc, self.root, peer, local)?;
        let tree = ProcessTree::load(&self.proc, self.root)?;
        let owner = |pid: u32| {
            let exe = self.proc.join(pid.to_string()).join("exe");
            // A process that has ended meanwhile holds no socket.
            let path = std::fs::read_link(exe).ok()?;
            Some(SocketOwner { pid, path: path.to_string_lossy().into_owned() })
        };
        let owners: Vec<SocketOwner> =
            tree.owners(&self.proc, inode)?.into_iter().filter_map(owner).collect();
        if owners.is_empty() { Err(IdentityError::NoOwner) } else { Ok(owners) }
    }

    /// The processes that hold a connection, each with its own program first, then those of its ancestors.
    fn callers(
        &self,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Vec<(u32, Vec<ProgramFile>)>, IdentityError> {
        let inode = socket::find_inode(&self.proc, self.root, peer, local)?;
        let tree = ProcessTree::load(&self.proc, self.root)?;
        let mut callers = Vec::new();
        for pid in tree.owners(&self.proc, inode)? {
            // A process that has ended meanwhile holds no socket.
            if let Some(programs) = self.programs(&tree, pid)? {
                callers.push((pid, programs));
            }
        }
        Ok(callers)
    }

    /// The process's own program first, then those of its ancestors. `None`: the process has ended.
    fn programs(&self, tree: &ProcessTree, pid: u32) -> Result<Option<Vec<ProgramFile>>, IdentityError> {
        let mut programs: Vec<ProgramFile> = Vec::new();
        for (distance, one) in tree.ancestry_of(pid).into_iter().enumerate() {
            let found = match self.program(one) {
                // The sandbox's own processes, above all programs.
                Err(IdentityError::Proc { source, .. })
                    if distance > 0 && source.kind() == io::ErrorKind::PermissionDenied =>
                {
                    None
                }
                found => found?,
            };
            match found {
                Some(program) if distance == 0 || programs.last() != Some(&program) => programs.push(program),
                Some(_) => {}
                None if distance == 0 => return Ok(None),
                None => break,
            }
        }
        Ok(Some(programs))
    }

    fn program(&self, pid: u32) -> Result<Option<ProgramFile>, IdentityError> {
        let exe = self.proc.join(pid.to_string()).join("exe");
        let path = match std::fs::read_link(&exe) {
            Ok(path) => path,
            Err(error) if process::has_ended(&error) => return Ok(None),
            Err(source) => return Err(IdentityError::Proc { what: "a program", source }),
        };
        let path = path.to_string_lossy();
        let path = path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned();
        match self.digests.of(&path, &exe) {
            Ok(sha256) => Ok(Some(ProgramFile { path, sha256 })),
            Err(DigestError::Gone) => Ok(None),
            Err(DigestError::Swapped) => Err(IdentityError::Swapped { path }),
            Err(DigestError::Io(source)) => Err(IdentityError::Proc { what: "a program", source }),
        }
    }
}
