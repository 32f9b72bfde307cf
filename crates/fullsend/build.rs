//! How the program is linked. It starts once for every hook and every agent. A static position-independent program
//! first reads its list of relocations: four megabytes, or a hundred kilobytes if the list is packed. Then it writes to
//! every page with a relocation, which is faster if the kernel maps these pages in advance.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if libc_reads_packed_lists() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if variable("CARGO_CFG_TARGET_ARCH") == "x86_64" {
        // In `crates/sandbox/src/sys/entry.rs`.
        println!("cargo:rustc-link-arg-bins=-Wl,-e,fullsend_entry");
    }
}

/// glibc supports this since 2.36; with an older one the program would not start. It is linked in, so the one of this
/// machine counts.
fn libc_reads_packed_lists() -> bool {
    let own = variable("HOST") == variable("TARGET") && variable("TARGET").ends_with("-linux-gnu");
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let minor =
        said.trim().strip_prefix("glibc 2.").and_then(|minor| minor.split('.').next()?.parse::<u32>().ok());
    own && minor.is_some_and(|minor| minor >= 36)
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
