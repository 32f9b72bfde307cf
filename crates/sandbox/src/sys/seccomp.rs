//! Installs a seccomp program. `init::seccomp` builds it.

use std::io;

/// One classic BPF instruction, in the layout that the kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) value: u32,
}

#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// Installs `instructions` for this process and everything it will ever start. Needs `no_new_privs`.
pub(crate) fn install_filter(instructions: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(instructions.len()).map_err(io::Error::other)?;
    let program = Program { length, instructions: instructions.as_ptr() };
    // SAFETY: the kernel copies `length` instructions out of a slice that outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) };
    super::check(done).map(drop)
}
