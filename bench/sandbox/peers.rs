//! Other programs that run a command in a sandbox, each with as much isolation as it offers for `true`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Peer {
    /// Runs `command` in it. Whether it ran.
    pub(crate) fn run(&self, command: &[&str]) -> bool {
        self.command(command).status().is_ok_and(|status| status.success())
    }

    pub(crate) fn command(&self, command: &[&str]) -> Command {
        let mut whole = Command::new(&self.program);
        whole.args(&self.arguments).args(command);
        whole.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        whole
    }
}

/// With the namespaces that ours has, and the same files.
pub(crate) fn bubblewrap() -> Option<Peer> {
    let flags = "--unshare-all --die-with-parent --new-session --cap-drop ALL --ro-bind /usr /usr --symlink usr/bin /bin \
                 --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --dir /etc --tmpfs /sandbox";
    found("bwrap", "bwrap", flags)
}

/// All that are installed and work here; the others are listed.
pub(crate) fn all(place: &Path) -> Vec<Peer> {
    let settings = place.join("srt.json");
    let text = r#"{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}"#;
    std::fs::write(&settings, text).unwrap();
    let candidates = [
        ("bwrap", bubblewrap()),
        (
            "firejail",
            found("firejail", "firejail", "--quiet --noprofile --net=none --private-dev --private-tmp"),
        ),
        ("codex", found("codex", "codex", "sandbox --")),
        ("sandbox-runtime", found("sandbox-runtime", "srt", &format!("--settings {}", settings.display()))),
        ("podman", podman(place)),
    ];
    let mut peers = Vec::new();
    for (name, peer) in candidates {
        match peer.filter(|peer| peer.run(&["true"])) {
            Some(peer) => peers.push(peer),
            None => println!("# {name} is not installed or does not run here"),
        }
    }
    peers
}

/// A root with nothing but a static `true`, so that nothing is pulled.
fn podman(place: &Path) -> Option<Peer> {
    let root = place.join("rootfs");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists())?;
    std::fs::copy(busybox, root.join("bin/true")).unwrap();
    let flags = format!("run --cgroups=disabled --network none --rm --rootfs {}", root.display());
    found("podman", "podman", &flags)
}

fn found(name: &'static str, program: &str, flags: &str) -> Option<Peer> {
    let path = std::env::var_os("PATH")?;
    let program =
        std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())?;
    Some(Peer { name, program, arguments: flags.split_whitespace().map(str::to_owned).collect() })
}
