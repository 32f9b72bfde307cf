//! Copies in and out: complete, bounded, and safe from redirection.

use crate::runner::Case;
use crate::world::{World, shell};
use sandbox::{Command, SkipReason, TransferCaps, TransferError};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    Case { name: "trees_go_in_and_come_out", run: both_ways },
    Case { name: "links_and_special_files_do_not_come_out", run: links },
    Case { name: "copies_are_capped", run: capped },
    Case { name: "a_raced_link_redirects_nothing", run: raced },
];

fn both_ways(world: &World) {
    let source = world.make_directory("source/inner");
    std::fs::write(source.join("file"), "contents").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", source.join("link")).unwrap();
    let sandbox = world.start(world.spec());
    let from = world.directory.join("source");
    let up = sandbox.upload(&from, Path::new("/tmp/up"), TransferCaps::default()).unwrap();
    assert_eq!((up.files, up.bytes, up.skipped.len()), (4, 8, 1));
    let output = shell(
        &sandbox,
        "cat /tmp/up/inner/file && test -O /tmp/up/inner/file && echo more >>/tmp/up/inner/file",
    );
    assert_eq!((output.stdout.as_str(), output.exit.success()), ("contents", true), "{output:?}");
    let to = world.directory.join("back");
    let down = sandbox.download(Path::new("/tmp/up"), &to, TransferCaps::default()).unwrap();
    assert_eq!((down.files, down.bytes), (3, 13));
    assert_eq!(std::fs::read_to_string(to.join("inner/file")).unwrap(), "contentsmore\n");
    for target in ["/usr/new", "/tmp/up/inner/file", "/tmp/missing/file"] {
        let refused = sandbox.upload(&source.join("file"), Path::new(target), TransferCaps::default());
        assert!(matches!(refused, Err(TransferError::Target { .. })), "{target}");
    }
    let exists = sandbox.download(Path::new("/tmp/up"), &to, TransferCaps::default());
    assert!(matches!(exists, Err(TransferError::Target { .. })));
    sandbox.close().unwrap();
}

fn links(world: &World) {
    let sandbox = world.start(world.spec());
    let script = "mkdir -p /tmp/out/d && cd /tmp/out && ln -s /proc/1/environ a && ln -s / d/root && mkfifo pipe && \
                  echo x >plain && ln plain hard && chmod 4755 plain && ln -s /tmp/out /tmp/alias";
    assert!(shell(&sandbox, script).exit.success());
    let to = world.directory.join("out");
    let down = sandbox.download(Path::new("/tmp/out"), &to, TransferCaps::default()).unwrap();
    let mut skipped = down.skipped.clone();
    skipped.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("/tmp/out/a", SkipReason::SymbolicLink),
        ("/tmp/out/d/root", SkipReason::SymbolicLink),
        ("/tmp/out/pipe", SkipReason::SpecialFile),
    ];
    assert_eq!(skipped, expected.map(|(path, reason)| (path.into(), reason)));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(to.join("plain")).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o600);
    for path in
        ["/tmp/alias", "/tmp/alias/plain", "/tmp/out/pipe", "/tmp/../proc/1/environ", "/tmp/out/d/root/usr"]
    {
        let refused = sandbox.download(Path::new(path), &world.directory.join("no"), TransferCaps::default());
        assert!(matches!(refused, Err(TransferError::Source { .. })), "{path}");
    }
    sandbox.close().unwrap();
}

fn capped(world: &World) {
    let sandbox = world.start(world.spec());
    assert!(
        shell(&sandbox, "cd /tmp && mkdir many && for i in $(seq 20); do echo 12345 >many/$i; done")
            .exit
            .success()
    );
    let download =
        |name: &str, caps| sandbox.download(Path::new("/tmp/many"), &world.directory.join(name), caps);
    let files = download("files", TransferCaps { files: 10, bytes: 1 << 20 });
    assert!(matches!(files, Err(TransferError::TooManyFiles { cap: 10 })));
    let bytes = download("bytes", TransferCaps { files: 100, bytes: 100 });
    assert!(matches!(bytes, Err(TransferError::TooManyBytes { cap: 100 })));
    assert!(shell(&sandbox, "cd /tmp && for i in $(seq 100); do mkdir d && cd d; done").exit.success());
    let deep = sandbox.download(Path::new("/tmp/d"), &world.directory.join("deep"), TransferCaps::default());
    assert!(matches!(deep, Err(TransferError::TooDeep { .. })));
    sandbox.close().unwrap();
}

fn raced(world: &World) {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "host secret").unwrap();
    let sandbox = world.start(world.spec());
    let script = format!(
        "cd /tmp && mkdir good evil && echo fine >good/file && ln -s {secret} evil/file && while :; do \
         mv good out; mv out good; ln -s evil out; rm out; ln -s / out; rm out; done",
        secret = secret.display()
    );
    let process = sandbox.exec(Command::new(["sh", "-c", &script])).unwrap();
    let mut copied = 0;
    let begun = Instant::now();
    for round in 0.. {
        let enough = copied >= 5 && round >= 400;
        if enough || begun.elapsed() > Duration::from_secs(10) {
            break;
        }
        let to = world.directory.join(format!("race-{round}"));
        if sandbox.download(Path::new("/tmp/out"), &to, TransferCaps::default()).is_ok() {
            copied += 1;
        }
        if let Ok(text) = std::fs::read_to_string(to.join("file")) {
            assert_eq!(text, "fine\n");
        }
        assert!(!to.join("usr").exists());
    }
    assert!(copied > 0, "the honest directory never came out, so nothing was shown");
    process.signal(9).unwrap();
    sandbox.close().unwrap();
}
