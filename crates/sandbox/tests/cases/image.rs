//! Parts of an image in the root: its layers over each other, what the spec puts inside, and links that lead nowhere else.

use crate::runner::Case;
use crate::world::{World, shell};
use rustix::fs::{FileType, Mode};
use sandbox::{Mount, MountKind, SandboxSpec};
use std::path::PathBuf;

pub(crate) const CASES: &[Case] = &[
    Case { name: "an_image_is_its_layers_over_each_other_and_read_only", run: merged },
    Case { name: "what_the_spec_puts_into_an_image_is_never_redirected_by_it", run: not_redirected },
    Case { name: "a_view_of_an_image_leaves_the_image_as_it_is", run: view },
];

/// Two layers, the upper first: it removes a file, empties a directory and changes a file of the lower.
fn layers(world: &World) -> Vec<PathBuf> {
    let upper = world.make_directory("upper");
    let lower = world.make_directory("lower");
    for directory in ["upper/data/emptied", "lower/data/emptied", "lower/data/kept", "upper/opt", "lower/etc"]
    {
        world.make_directory(directory);
    }
    let write = |path: &str, text: &str| std::fs::write(world.directory.join(path), text).unwrap();
    write("lower/data/changed", "old");
    write("upper/data/changed", "new");
    write("lower/data/gone", "x");
    write("lower/data/emptied/old", "x");
    write("upper/data/emptied/new", "x");
    write("lower/data/kept/deep", "deep");
    write("lower/etc/passwd", "hostile");
    std::os::unix::fs::symlink("/tmp", lower.join("data/link")).unwrap();
    std::os::unix::fs::symlink("data", lower.join("alias")).unwrap();
    let mark = upper.join("data/gone");
    rustix::fs::mknodat(rustix::fs::CWD, mark, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    let emptied = upper.join("data/emptied");
    rustix::fs::setxattr(emptied, "user.overlay.opaque", b"y", rustix::fs::XattrFlags::empty()).unwrap();
    vec![upper, lower]
}

fn spec(world: &World, parts: &[&str]) -> SandboxSpec {
    let mut spec = world.spec();
    spec.image = layers(world);
    spec.mounts.extend(parts.iter().map(|part| Mount { target: part.into(), kind: MountKind::Image }));
    spec
}

fn merged(world: &World) {
    let sandbox = world.start(spec(world, &["/data", "/alias", "/absent"]));
    let said = shell(
        &sandbox,
        "cd /data; cat changed kept/deep; ls . emptied; readlink link /alias; ls -d /absent; echo x > new",
    );
    assert_eq!(
        said.stdout, "newdeep.:\nchanged\nemptied\nkept\nlink\n\nemptied:\nnew\n/tmp\ndata\n",
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("/absent") && said.stderr.contains("new: "), "{}", said.stderr);
    // The spec does not list the rest of the image.
    assert!(!shell(&sandbox, "cat /etc/passwd").exit.success());
    sandbox.close().unwrap();
}

fn not_redirected(world: &World) {
    let mut spec = spec(world, &["/data", "/opt", "/etc"]);
    let lower = world.directory.join("lower");
    for (path, to) in [("data/file", "/tmp/elsewhere"), ("data/mounted", "/"), ("opt", "/tmp")] {
        std::os::unix::fs::symlink(to, lower.join(path)).unwrap();
    }
    let mount = |target: &str, kind| Mount { target: target.into(), kind };
    let contents = b"ours".to_vec();
    spec.mounts.push(mount("/data/file", MountKind::File { contents: contents.clone(), mode: 0o444 }));
    spec.mounts.push(mount("/etc/passwd", MountKind::File { contents, mode: 0o444 }));
    spec.mounts.push(mount(
        "/data/mounted/deep",
        MountKind::Temporary { size_bytes: 1 << 20, inodes: 10, mode: 0o755 },
    ));
    spec.mounts.push(mount("/data/to", MountKind::Symlink { to: "/usr".into() }));
    spec.program = Some("/opt/fullsend/program".into());
    let sandbox = world.start(spec);
    let said = shell(
        &sandbox,
        "cat /data/file /etc/passwd; touch /data/mounted/deep/x && ls /data/mounted; test -x /opt/fullsend/program && echo yes; \
         readlink /data/to; ls /tmp; echo x > /data/file",
    );
    assert_eq!(said.stdout, "oursoursdeep\nyes\n/usr\n", "{}", said.stderr);
    assert!(!said.exit.success());
    sandbox.close().unwrap();
}

fn view(world: &World) {
    let mut spec = spec(world, &["/opt"]);
    for target in ["/data", "/made"] {
        spec.mounts
            .push(Mount { target: target.into(), kind: MountKind::ImageView { memory_bytes: 1 << 20 } });
    }
    let sandbox = world.start(spec);
    let script = "cd /data && echo mine > changed && rm kept/deep && echo x > gone && cat changed && touch /made/x && ls";
    let said = shell(&sandbox, script);
    assert_eq!(said.stdout, "mine\nchanged\nemptied\ngone\nkept\nlink\n", "{}", said.stderr);
    sandbox.close().unwrap();
    let read = |path: &str| std::fs::read_to_string(world.directory.join(path)).unwrap();
    assert_eq!((read("upper/data/changed"), read("lower/data/kept/deep")), ("new".into(), "deep".into()));
}
