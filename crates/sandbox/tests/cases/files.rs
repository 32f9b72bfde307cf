//! Files: listed paths exist as specified, everything else is absent, and the host's files stay unchanged.

use crate::runner::Case;
use crate::world::{World, read_only, shell};
use sandbox::{CopyOnWrite, Edit, Mount, MountKind};
use std::path::Path;

pub(crate) const CASES: &[Case] = &[
    Case { name: "what_is_not_listed_is_absent", run: absence },
    Case { name: "a_view_keeps_the_host_as_it_is", run: view },
    Case { name: "what_a_view_changed_is_what_its_layer_names", run: layer },
    Case { name: "a_view_may_be_edited_and_then_closed", run: closed_view },
    Case { name: "read_only_things_cannot_be_moved_away_with_their_directory", run: pinned },
    Case { name: "temporary_directories_are_bounded", run: temporary },
];

fn absence(world: &World) {
    let sandbox = world.start(world.spec());
    let output = shell(&sandbox, "ls -A /; ls -A /etc /home /root /var 2>/dev/null");
    let mut names: Vec<&str> = output.stdout.lines().collect();
    names.retain(|name| !["bin", "lib", "lib64", "sbin"].contains(name));
    assert_eq!(names, ["dev", "proc", "tmp", "usr"]);
    for script in ["echo x >/new", "echo x >/usr/new", "mkdir /proc/new", "rm /bin"] {
        assert!(!shell(&sandbox, script).exit.success(), "{script}");
    }
    sandbox.close().unwrap();
}

fn view(world: &World) {
    let lower = world.make_directory("lower");
    std::fs::create_dir(lower.join("hooks")).unwrap();
    for name in ["kept", "changed", "removed", "secret", "hooks/evil"] {
        std::fs::write(lower.join(name), name).unwrap();
    }
    let mut spec = world.spec();
    let edits = vec![
        Edit::Remove { path: "secret".into() },
        Edit::Remove { path: "not/there".into() },
        Edit::EmptyDirectory { path: "hooks".into() },
        Edit::Write { path: "new/file".into(), contents: b"put".to_vec(), mode: 0o600 },
    ];
    let view = CopyOnWrite { source: lower.clone(), edits, memory_bytes: 1 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    let sandbox = world.start(spec);
    let script = "cd /view && ls && ls hooks && cat new/file kept && echo more >>changed && rm removed && echo x >hooks/y \
                  && cat changed && ls";
    let output = shell(&sandbox, script);
    let expected = "changed\nhooks\nkept\nnew\nremoved\nputkeptchangedmore\nchanged\nhooks\nkept\nnew\n";
    assert_eq!(output.stdout, expected, "{}", output.stderr);
    sandbox.close().unwrap();
    for name in ["kept", "changed", "removed", "secret", "hooks/evil"] {
        assert_eq!(std::fs::read_to_string(lower.join(name)).unwrap(), name);
    }
    assert!(!lower.join("new").exists() && !lower.join("hooks/y").exists());
}

fn layer(world: &World) {
    let lower = world.make_directory("lower");
    std::fs::create_dir(lower.join("below")).unwrap();
    for name in ["kept", "changed", "removed", "below/kept", "below/changed"] {
        std::fs::write(lower.join(name), name).unwrap();
    }
    let mut spec = world.spec();
    let view = CopyOnWrite { source: lower, edits: Vec::new(), memory_bytes: 1 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    let sandbox = world.start(spec);
    let script = "cd /view && echo x >>changed && rm removed && echo x >>below/changed && mkdir new && : >new/file && cat kept below/kept";
    assert!(shell(&sandbox, script).exit.success());
    assert!(sandbox.changed_below(Path::new("/usr")).is_none(), "no view");
    let how = sandbox.describe().facts.iter().find(|fact| fact.reason.starts_with("/view: ")).unwrap();
    let layer = sandbox.changed_below(Path::new("/view"));
    assert_eq!(layer.is_some(), how.reason.contains("in the state directory"), "{}", how.reason);
    if let Some(layer) = layer {
        let place =
            std::path::PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&layer)));
        let names = |path: &str| {
            let entries = std::fs::read_dir(place.join(path)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(""), ["below", "changed", "new", "removed"]);
        assert_eq!((names("below"), names("new")), (vec!["changed".to_owned()], vec!["file".to_owned()]));
    }
    sandbox.close().unwrap();
}

fn closed_view(world: &World) {
    let lower = world.make_directory("lower");
    std::fs::write(lower.join("kept"), "kept").unwrap();
    std::fs::write(lower.join("secret"), "secret").unwrap();
    let mut spec = world.spec();
    let edits = vec![
        Edit::Remove { path: "secret".into() },
        Edit::Write { path: "new/file".into(), contents: b"put".to_vec(), mode: 0o644 },
    ];
    let view = CopyOnWrite { source: lower.clone(), edits, memory_bytes: 1 << 20 };
    let temporary = MountKind::Temporary { size_bytes: 1 << 20, inodes: 100, mode: 0o755 };
    spec.mounts.push(Mount { target: "/place".into(), kind: temporary });
    spec.mounts.push(Mount { target: "/place/in/view".into(), kind: MountKind::ReadOnlyView(view) });
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "cd /place/in/view && ls && cat new/file kept");
    assert_eq!(output.stdout, "kept\nnew\nputkept", "{}", output.stderr);
    let attempts = [
        "cd /place/in/view && echo x >>kept",
        "rm /place/in/view/kept",
        ": >/place/in/view/new/x",
        "mv /place/in /place/z",
    ];
    for attempt in attempts {
        assert!(!shell(&sandbox, attempt).exit.success(), "{attempt}");
    }
    sandbox.close().unwrap();
    assert_eq!(std::fs::read_to_string(lower.join("secret")).unwrap(), "secret");
}

fn pinned(world: &World) {
    let source = world.make_directory("source");
    std::fs::write(source.join("rules"), "host").unwrap();
    let mut spec = world.spec();
    let temporary = MountKind::Temporary { size_bytes: 1 << 20, inodes: 100, mode: 0o755 };
    spec.mounts.push(Mount { target: "/work".into(), kind: temporary });
    let file = MountKind::File { contents: b"given".to_vec(), mode: 0o444 };
    spec.mounts.push(Mount { target: "/work/a/b/settings".into(), kind: file });
    spec.mounts.push(read_only(&source.join("rules"), Path::new("/work/a/c/rules")));
    let sandbox = world.start(spec);
    let attempts = [
        "mv /work/a /work/z",
        "mv /work/a/b /work/z",
        "rm -rf /work/a/b",
        "rm /work/a/b/settings",
        "echo x >/work/a/b/settings",
        "mv /work/a/b/settings /work/z",
        "ln -f /work/a/b/settings /work/z",
        "echo x >/work/a/c/rules",
        "mv /work/a/c /work/z",
    ];
    for attempt in attempts {
        assert!(!shell(&sandbox, attempt).exit.success(), "{attempt}");
    }
    let output = shell(&sandbox, "cat /work/a/b/settings /work/a/c/rules && echo x >/work/a/b/other");
    assert_eq!((output.stdout.as_str(), output.exit.success()), ("givenhost", true), "{}", output.stderr);
    sandbox.close().unwrap();
}

fn temporary(world: &World) {
    let mut spec = world.spec();
    let kind = MountKind::Temporary { size_bytes: 1 << 20, inodes: 20, mode: 0o700 };
    spec.mounts.push(Mount { target: "/small".into(), kind });
    let sandbox = world.start(spec);
    let bytes = shell(&sandbox, "head -c 4000000 /dev/zero >/small/file");
    assert!(bytes.stderr.contains("No space left"), "{bytes:?}");
    let inodes = shell(&sandbox, "rm /small/file; for i in $(seq 40); do : >/small/$i || exit 3; done");
    assert!(!inodes.exit.success(), "{inodes:?}");
    sandbox.close().unwrap();
}
