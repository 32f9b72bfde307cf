//! The level of Landlock that the kernel has. The crate that builds rulesets also finds it out, but only reports it
//! afterwards.

/// 0 if there is no Landlock or it is switched off.
pub(crate) fn landlock_level() -> i32 {
    const ASK_FOR_VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no ruleset: the pointer must be null and the size zero.
    let level = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, ASK_FOR_VERSION)
    };
    i32::try_from(level).unwrap_or(0).max(0)
}
