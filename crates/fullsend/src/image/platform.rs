//! Which images this machine can run: the platform names of the image formats.

pub fn host_platform() -> String {
    format!("linux/{}", architecture())
}

pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
