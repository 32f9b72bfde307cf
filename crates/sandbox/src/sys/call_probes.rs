//! Calls that must fail inside a sandbox, each with fixed, harmless arguments, so that trying them is sound. The proof
//! at the start uses some; the attack tests use all. They judge nothing: they return the kernel's answer.

use std::io;

/// One forbidden action, as a direct system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForbiddenCall {
    AddKey,
    Bpf,
    Clone3NewUser,
    CloneNewUser,
    Foreign32BitCall,
    FsOpen,
    InitModule,
    IoUringSetup,
    KexecLoad,
    KeyctlUserKeyring,
    MemfdCreate,
    Mount,
    MountSetattr,
    NewUserNamespace,
    OpenByHandle,
    OpenTree,
    OpenTreeAttr,
    PerfEventOpen,
    PidfdGetfd,
    PivotRoot,
    ProcessVmReadv,
    PtraceParent,
    PtracePidOne,
    RaiseAmbientCapability,
    SetAllCapabilities,
    SetHostname,
    SetNamespace,
    SetUidZero,
    SocketAlg,
    SocketNetlinkDiag,
    SocketPacket,
    SocketRawIcmp,
    SocketVsock,
    SocketXdp,
    TerminalInject,
    TerminalLinux,
    Userfaultfd,
    X32Ptrace,
}

impl ForbiddenCall {
    pub const ALL: [Self; 38] = [
        Self::AddKey,
        Self::Bpf,
        Self::Clone3NewUser,
        Self::CloneNewUser,
        Self::Foreign32BitCall,
        Self::FsOpen,
        Self::InitModule,
        Self::IoUringSetup,
        Self::KexecLoad,
        Self::KeyctlUserKeyring,
        Self::MemfdCreate,
        Self::Mount,
        Self::MountSetattr,
        Self::NewUserNamespace,
        Self::OpenByHandle,
        Self::OpenTree,
        Self::OpenTreeAttr,
        Self::PerfEventOpen,
        Self::PidfdGetfd,
        Self::PivotRoot,
        Self::ProcessVmReadv,
        Self::PtraceParent,
        Self::PtracePidOne,
        Self::RaiseAmbientCapability,
        Self::SetAllCapabilities,
        Self::SetHostname,
        Self::SetNamespace,
        Self::SetUidZero,
        Self::SocketAlg,
        Self::SocketNetlinkDiag,
        Self::SocketPacket,
        Self::SocketRawIcmp,
        Self::SocketVsock,
        Self::SocketXdp,
        Self::TerminalInject,
        Self::TerminalLinux,
        Self::Userfaultfd,
        Self::X32Ptrace,
    ];
}

/// Makes the call. A success returns what the kernel returned.
pub fn attempt(what: ForbiddenCall) -> io::Result<i64> {
    use ForbiddenCall as A;
    let call = |number: libc::c_long, arguments: [usize; 5]| {
        let [a, b, c, d, e] = arguments;
        // SAFETY: every call below passes integers, null, or pointers to static data that the kernel only reads; none
        // writes to our memory.
        super::check(unsafe { libc::syscall(number, a, b, c, d, e) })
    };
    let path = c"/tmp".as_ptr() as usize;
    let tmpfs = c"tmpfs".as_ptr() as usize;
    let new_user = libc::CLONE_NEWUSER as usize;
    match what {
        A::AddKey => call(
            libc::SYS_add_key,
            [c"user".as_ptr() as usize, c"probe".as_ptr() as usize, path, 4, keyring()],
        ),
        A::Bpf => call(libc::SYS_bpf, [0, 0, 0, 0, 0]),
        A::Clone3NewUser => {
            call(libc::SYS_clone3, [(&raw const CLONE_ARGUMENTS) as usize, 64, 0, 0, 0]).map(end_child)
        }
        A::CloneNewUser => {
            call(libc::SYS_clone, [new_user | libc::SIGCHLD as usize, 0, 0, 0, 0]).map(end_child)
        }
        A::Foreign32BitCall => foreign_call(),
        A::FsOpen => call(libc::SYS_fsopen, [tmpfs, 1, 0, 0, 0]),
        A::InitModule => call(libc::SYS_init_module, [0, 0, path, 0, 0]),
        A::IoUringSetup => call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        A::KeyctlUserKeyring => call(libc::SYS_keyctl, [0, keyring(), 0, 0, 0]),
        A::KexecLoad => call(libc::SYS_kexec_load, [0, 0, 0, 0, 0]),
        A::MemfdCreate => call(libc::SYS_memfd_create, [path, 1, 0, 0, 0]),
        A::Mount => call(libc::SYS_mount, [tmpfs, path, tmpfs, 0, 0]),
        A::MountSetattr => {
            call(libc::SYS_mount_setattr, [usize::MAX, path, 0, (&raw const NO_ATTRIBUTES) as usize, 32])
        }
        A::NewUserNamespace => call(libc::SYS_unshare, [new_user, 0, 0, 0, 0]),
        A::OpenByHandle => call(libc::SYS_open_by_handle_at, [0, (&raw const NO_HANDLE) as usize, 0, 0, 0]),
        A::OpenTree => call(libc::SYS_open_tree, [AT_CWD, path, 1, 0, 0]),
        A::OpenTreeAttr => call(467, [AT_CWD, path, 1, (&raw const NO_ATTRIBUTES) as usize, 32]),
        A::PerfEventOpen => {
            call(libc::SYS_perf_event_open, [(&raw const NO_EVENT) as usize, 0, usize::MAX, usize::MAX, 0])
        }
        A::PidfdGetfd => call(libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0]),
        A::PivotRoot => call(libc::SYS_pivot_root, [path, path, 0, 0, 0]),
        A::ProcessVmReadv => call(libc::SYS_process_vm_readv, [1, 0, 0, 0, 0]),
        A::PtraceParent => {
            // SAFETY: takes nothing, returns a number.
            let parent = unsafe { libc::getppid() };
            call(libc::SYS_ptrace, [0x4206, parent.cast_unsigned() as usize, 0, 0, 0])
        }
        A::PtracePidOne => call(libc::SYS_ptrace, [0x4206, 1, 0, 0, 0]),
        A::RaiseAmbientCapability => call(libc::SYS_prctl, [47, 2, 21, 0, 0]),
        A::SetAllCapabilities => call(
            libc::SYS_capset,
            [(&raw const CAPABILITY_HEADER) as usize, (&raw const ALL_CAPABILITIES) as usize, 0, 0, 0],
        ),
        A::SetHostname => call(libc::SYS_sethostname, [path, 4, 0, 0, 0]),
        A::SetNamespace => call(libc::SYS_setns, [0, new_user, 0, 0, 0]),
        A::SetUidZero => call(libc::SYS_setuid, [0, 0, 0, 0, 0]),
        A::SocketAlg => socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        A::SocketNetlinkDiag => socket(libc::AF_NETLINK, libc::SOCK_RAW, 4),
        A::SocketPacket => socket(libc::AF_PACKET, libc::SOCK_RAW, 0),
        A::SocketRawIcmp => socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        A::SocketVsock => socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        A::SocketXdp => socket(libc::AF_XDP, libc::SOCK_RAW, 0),
        A::TerminalInject => call(libc::SYS_ioctl, [0, 0x5412, c"x".as_ptr() as usize, 0, 0]),
        A::TerminalLinux => call(libc::SYS_ioctl, [0, 0x541C, c"\x02".as_ptr() as usize, 0, 0]),
        A::Userfaultfd => call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
        A::X32Ptrace => call(0x4000_0000 | 521, [0x4206, 1, 0, 0, 0]),
    }
}

const AT_CWD: usize = libc::AT_FDCWD as usize;
static CLONE_ARGUMENTS: [u64; 8] = [0x1000_0000, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
static NO_ATTRIBUTES: [u64; 4] = [0; 4];
static NO_HANDLE: [u32; 4] = [8, 1, 2, 0];
/// A software clock, which needs no hardware: type 1, size 112, configuration 0.
static NO_EVENT: [u32; 28] = {
    let mut event = [0; 28];
    event[0] = 1;
    event[1] = 112;
    event
};
static CAPABILITY_HEADER: [u32; 2] = [0x2008_0522, 0];
static ALL_CAPABILITIES: [u32; 6] = [u32::MAX, u32::MAX, 0, u32::MAX >> 23, u32::MAX >> 23, 0];

/// The keyring that all processes of a user share.
fn keyring() -> usize {
    (-4_isize).cast_unsigned()
}

/// Ends the child of a clone that should have failed.
fn end_child(pid: i64) -> i64 {
    if pid == 0 {
        super::exit_now(0);
    }
    pid
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<i64> {
    // SAFETY: three integers; the descriptor of a success is closed at once.
    let fd = super::check(unsafe { libc::socket(family, kind, protocol) }.into())?;
    // SAFETY: the kernel just gave us this descriptor; no one else owns it.
    unsafe { libc::close(i32::try_from(fd).unwrap_or(-1)) };
    Ok(fd)
}

/// `getpid` through the kernel's 32-bit entry, which numbers the system calls differently.
fn foreign_call() -> io::Result<i64> {
    let result: i64;
    // SAFETY: system call 20 of the 32-bit table takes no arguments and touches no memory; the kernel keeps all
    // registers but the result and those that are named here.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") 20_i64 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    if result < 0 {
        Err(io::Error::from_raw_os_error(-i32::try_from(result).unwrap_or(0)))
    } else {
        Ok(result)
    }
}
