//! The seccomp filter: the system calls that no process inside may make. It is one program with several answers,
//! written by hand because one filter is cheaper than a stack of them and because x32 call numbers must be refused too.
//! The deny list always applies. It refuses the calls that namespaces, mounts, capabilities and Landlock do not already
//! make harmless. With `SystemCalls::OnlyAllowed`, every call that is not on the allow list is refused too.

use super::allowed_calls::ALLOWED;
use crate::spec::SystemCalls;
use crate::sys::Instruction;
use libc::c_long;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the system call numbers and the architecture check below are for x86_64");

const AUDIT_ARCH_X86_64: u32 = 0xC000_003E;
/// Numbers from here up belong to the x32 interface; without this check they would pass every comparison below.
const X32_FIRST: u32 = 0x4000_0000;
const SYS_OPEN_TREE_ATTR: c_long = 467;

/// Offsets in the kernel's `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    // The low half of a 64-bit argument. The kernel ignores the high half of commands, families and protocols, and the flags
    // that are compared here are all in the low half.
    16 + 8 * index
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7FFF_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const fn error(number: i32) -> u32 {
    0x0005_0000 | number.cast_unsigned()
}

/// Denied whatever the arguments.
const DENIED: &[c_long] = &[
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Large attack surfaces of the kernel that no build tool needs; io_uring also bypasses this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_modify_ldt,
    // Keyrings are not namespaced: the user's keys would be there.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Mounts, roots and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // A file handle names any file of a file system, whatever is mounted.
    libc::SYS_open_by_handle_at,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

const NAMESPACE_FLAGS: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();
/// Only `unshare` takes it: in `clone` the same bit belongs to the exit signal.
const NEW_TIME_FLAG: u32 = 0x80;

const NETLINK_ROUTE: u32 = 0;

/// The program, ready to be installed.
pub(super) fn program(calls: SystemCalls) -> Vec<Instruction> {
    let mut program = vec![
        load(ARCHITECTURE),
        jump(JUMP_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        answer(KILL_PROCESS),
        load(NUMBER),
        jump(JUMP_AT_LEAST, X32_FIRST, 0, 1),
        answer(error(libc::ENOSYS)),
    ];
    for number in DENIED {
        program.extend(when(*number, &[answer(error(libc::EPERM))]));
    }
    // Its flags are behind a pointer, which a filter cannot look at; C libraries fall back to clone.
    program.extend(when(libc::SYS_clone3, &[answer(error(libc::ENOSYS))]));
    program.extend(when(libc::SYS_clone, &unless_bits(NAMESPACE_FLAGS)));
    program.extend(when(libc::SYS_unshare, &unless_bits(NAMESPACE_FLAGS | NEW_TIME_FLAG)));
    program.extend(when(libc::SYS_ioctl, &terminal_commands()));
    program.extend(when(libc::SYS_socket, &socket_families()));
    program.extend(when(libc::SYS_socketpair, &socket_families()));
    match calls {
        SystemCalls::AllButDenied => program.push(answer(ALLOW)),
        SystemCalls::OnlyAllowed => {
            for number in ALLOWED {
                program.extend(when(*number, &[answer(ALLOW)]));
            }
            // ENOSYS is what a kernel without the call answers, so programs fall back to an older call.
            program.push(answer(error(libc::ENOSYS)));
        }
    }
    program
}

/// `body` for this system call, else what follows. A body always ends in an answer.
fn when(number: c_long, body: &[Instruction]) -> Vec<Instruction> {
    let skip = u8::try_from(body.len()).unwrap_or(u8::MAX);
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mut all = vec![jump(JUMP_EQUAL, number, 0, skip)];
    all.extend(body);
    all
}

fn unless_bits(bits: u32) -> [Instruction; 4] {
    [load(argument(0)), jump(JUMP_ANY_BIT, bits, 0, 1), answer(error(libc::EPERM)), answer(ALLOW)]
}

/// Denies TIOCSTI and TIOCLINUX, which push characters into a terminal as if typed there.
fn terminal_commands() -> [Instruction; 5] {
    const TIOCSTI: u32 = 0x5412;
    const TIOCLINUX: u32 = 0x541C;
    [
        load(argument(1)),
        jump(JUMP_EQUAL, TIOCSTI, 1, 0),
        jump(JUMP_EQUAL, TIOCLINUX, 0, 1),
        answer(error(libc::EPERM)),
        answer(ALLOW),
    ]
}

/// Unix, IPv4, IPv6, and of netlink only what lists interfaces and routes. All others leave the network namespace
/// (vsock) or are attack surface.
fn socket_families() -> [Instruction; 9] {
    [
        load(argument(0)),
        jump(JUMP_EQUAL, libc::AF_UNIX.cast_unsigned(), 5, 0),
        jump(JUMP_EQUAL, libc::AF_INET.cast_unsigned(), 4, 0),
        jump(JUMP_EQUAL, libc::AF_INET6.cast_unsigned(), 3, 0),
        jump(JUMP_EQUAL, libc::AF_NETLINK.cast_unsigned(), 0, 3),
        load(argument(2)),
        jump(JUMP_EQUAL, NETLINK_ROUTE, 0, 1),
        answer(ALLOW),
        answer(error(libc::EAFNOSUPPORT)),
    ]
}

fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value: offset }
}

fn jump(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, if_true, if_false, value }
}

fn answer(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Call {
        architecture: u32,
        number: u32,
        arguments: [u64; 6],
    }

    fn call(number: c_long, arguments: &[u64]) -> Call {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        Call { architecture: AUDIT_ARCH_X86_64, number: u32::try_from(number).unwrap(), arguments: all }
    }

    /// What the kernel would answer: the five instructions that the program is made of.
    fn decide(program: &[Instruction], call: &Call) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let Instruction { code, if_true, if_false, value } = program[at];
            at += 1;
            let taken = match code {
                RETURN => return value,
                LOAD => {
                    accumulator = match value {
                        NUMBER => call.number,
                        ARCHITECTURE => call.architecture,
                        offset => {
                            let index = (offset - 16) / 8;
                            u32::try_from(call.arguments[index as usize] & 0xFFFF_FFFF).unwrap()
                        }
                    };
                    continue;
                }
                JUMP_EQUAL => accumulator == value,
                JUMP_AT_LEAST => accumulator >= value,
                JUMP_ANY_BIT => accumulator & value != 0,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if taken { if_true } else { if_false });
        }
    }

    fn check(call: &Call, expected: u32) {
        let found = decide(&program(SystemCalls::AllButDenied), call);
        assert_eq!(found, expected, "{} {:x?}", call.number, call.arguments);
    }

    #[test]
    fn denied_calls_are_refused_and_ordinary_ones_pass() {
        for number in DENIED {
            check(&call(*number, &[]), error(libc::EPERM));
        }
        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_futex, libc::SYS_pidfd_open, 9999] {
            check(&call(number, &[]), ALLOW);
        }
        check(&call(libc::SYS_clone3, &[]), error(libc::ENOSYS));
    }

    #[test]
    fn the_allow_list_keeps_the_floor_and_refuses_what_is_not_listed() {
        let floor = program(SystemCalls::AllButDenied);
        let strict = program(SystemCalls::OnlyAllowed);
        for number in (0..470).chain([9999]) {
            for first in [0, 1, 2, 0x11, 16, 40, 0x1000_0011] {
                for second in [0, 3, 0x5412] {
                    let call = call(number, &[first, second, 0]);
                    let before = decide(&floor, &call);
                    let now = decide(&strict, &call);
                    if before == ALLOW {
                        assert!(now == ALLOW || now == error(libc::ENOSYS), "{number}");
                    } else {
                        assert_eq!(now, before, "{number} is denied either way");
                    }
                }
            }
        }
        for number in [libc::SYS_io_setup, libc::SYS_name_to_handle_at, libc::SYS_personality, 9999] {
            assert_eq!(decide(&strict, &call(number, &[])), error(libc::ENOSYS), "{number}");
            assert_eq!(decide(&floor, &call(number, &[])), ALLOW, "{number}");
        }
        assert_eq!(decide(&strict, &call(libc::SYS_read, &[])), ALLOW);
        assert!(ALLOWED.iter().all(|number| !DENIED.contains(number)), "a listed call is denied anyway");
        assert!(strict.len() < 4096, "the kernel's limit is 4096 instructions");
    }

    #[test]
    fn foreign_architectures_and_x32_do_not_slip_past() {
        let i386 = Call { architecture: 0x4000_0003, number: 26, arguments: [0; 6] };
        check(&i386, KILL_PROCESS);
        check(&call(libc::SYS_ptrace | 0x4000_0000, &[]), error(libc::ENOSYS));
        check(&call(0xFFFF_FFFF, &[]), error(libc::ENOSYS));
    }

    #[test]
    fn namespaces_are_refused_in_clone_and_unshare() {
        check(&call(libc::SYS_clone, &[0x11]), ALLOW);
        check(&call(libc::SYS_clone, &[0x80 | 0x11]), ALLOW);
        check(&call(libc::SYS_clone, &[0x1000_0011]), error(libc::EPERM));
        check(&call(libc::SYS_unshare, &[0x400]), ALLOW);
        check(&call(libc::SYS_unshare, &[0x80]), error(libc::EPERM));
        check(&call(libc::SYS_unshare, &[0x0002_0000]), error(libc::EPERM));
    }

    #[test]
    fn terminal_commands_are_compared_as_the_kernel_does() {
        check(&call(libc::SYS_ioctl, &[0, 0x5412]), error(libc::EPERM));
        check(&call(libc::SYS_ioctl, &[0, 0xFFFF_FFFF_0000_5412]), error(libc::EPERM));
        check(&call(libc::SYS_ioctl, &[0, 0x541C]), error(libc::EPERM));
        check(&call(libc::SYS_ioctl, &[0, 0x5413]), ALLOW);
    }

    #[test]
    fn sockets_are_allowed_by_family() {
        for number in [libc::SYS_socket, libc::SYS_socketpair] {
            for family in [1, 2, 10] {
                check(&call(number, &[family, 1, 0]), ALLOW);
            }
            check(&call(number, &[16, 3, 0]), ALLOW);
            for protocol in [4, 9, 12, 15] {
                check(&call(number, &[16, 3, protocol]), error(libc::EAFNOSUPPORT));
            }
            for family in [0, 15, 17, 21, 30, 38, 40, 44] {
                check(&call(number, &[family, 1, 0]), error(libc::EAFNOSUPPORT));
            }
            check(&call(number, &[0xFFFF_FFFF_0000_0028, 1, 0]), error(libc::EAFNOSUPPORT));
        }
    }
}
