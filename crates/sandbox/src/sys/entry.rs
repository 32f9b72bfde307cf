//! The first instructions of the program. A static position-independent program starts by applying relocations, which
//! touches hundreds of pages. The kernel is asked for all of them at once, instead of once for each page: a hook starts
//! for every tool call, and this takes an eighth off its start.
//!
//! Nothing is set up yet when this runs, so it cannot be Rust.

// Sound: only a hint to the kernel about our own pages, from the first with a relocation to the last that is read from
// the file; a kernel that does not know it (before 5.14) refuses, and the pages come one by one. The stack and the
// register that the kernel hands over for what follows, `rdx`, are as they were.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".section .text.fullsend_entry, \"ax\", @progbits",
    ".globl fullsend_entry",
    ".type fullsend_entry, @function",
    "fullsend_entry:",
    "mov r12, rdx",
    "lea rdi, [rip + __init_array_start]",
    "and rdi, -{page}",
    "lea rsi, [rip + _edata]",
    "sub rsi, rdi",
    "mov edx, {populate_write}",
    "mov eax, {madvise}",
    "syscall",
    "mov rdx, r12",
    "jmp _start",
    ".size fullsend_entry, . - fullsend_entry",
    ".text",
    page = const 4096,
    populate_write = const libc::MADV_POPULATE_WRITE,
    madvise = const libc::SYS_madvise,
);
