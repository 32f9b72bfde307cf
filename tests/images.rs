//! Images, honest and hostile, unpacked by the real code into a cache of their own.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fullsend::internal::image::{self, Caps, Image, ImageError};

use crate::image_builder::{Layer, Packing, archive_of, docker_archive, layout, layout_of, pack, sha256};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::Builder::new().prefix("fullsend-image-").tempdir().unwrap());
        fs::write(place.path("outside"), "untouched").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn prepare(&self, image: &str, caps: Caps) -> Result<Image, ImageError> {
        image::prepare(&self.path(image), &self.path("cache"), caps)
    }

    fn layout(&self, layers: &[Layer], packing: Packing) -> Image {
        layout(&self.path("image"), layers, packing, &[]);
        self.prepare("image", Caps::default()).unwrap()
    }

    /// What is said about an image of this one layer, which must be refused and leave nothing.
    fn refusal(&self, layer: Layer) -> String {
        layout(&self.path("image"), &[layer], Packing::Gzip, &[]);
        self.refused("image", Caps::default())
    }

    fn refused(&self, image: &str, caps: Caps) -> String {
        let error = self.prepare(image, caps).unwrap_err();
        assert!(matches!(error, ImageError::Refused { .. }), "{error:?}");
        self.nothing_left();
        error.to_string().rsplit("refused: ").next().unwrap().to_owned()
    }

    fn nothing_left(&self) {
        let left = fs::read_dir(self.path("cache")).unwrap().map(|entry| entry.unwrap());
        let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(fs::read_to_string(self.path("outside")).unwrap(), "untouched");
    }
}

/// A record of an extended header, which begins with its own length.
fn pax(record: &str) -> Vec<u8> {
    let length = record.len() + 4;
    assert!((10..100).contains(&length));
    format!("{length} {record}\n").into_bytes()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_layout_an_archive_and_one_of_docker_unpack_to_the_same_shared_layers() {
    let place = Place::new();
    let layers = [
        Layer::default()
            .directory("etc/")
            .file("etc/name", "one")
            .program("bin/run", "x")
            .link("lib", "usr/lib"),
        Layer::default().file("./etc/name", "two").hard_link("etc/again", "etc/name"),
    ];
    let mut all = Vec::new();
    for (name, packing) in [("plain", Packing::Plain), ("gzip", Packing::Gzip), ("zstd", Packing::Zstd)] {
        layout(&place.path(name), &layers, packing, &[]);
        fs::write(place.path(&format!("{name}.tar")), archive_of(&place.path(name))).unwrap();
        all.extend([name.to_owned(), format!("{name}.tar")]);
    }
    fs::write(place.path("docker.tar"), docker_archive(&layers)).unwrap();
    all.push("docker.tar".to_owned());
    let first = place.prepare("plain", Caps::default()).unwrap();
    for name in &all {
        let image = place.prepare(name, Caps::default()).unwrap();
        assert_eq!(image.layers, first.layers, "{name}");
    }
    let [upper, lower] = &first.layers[..] else { panic!("{first:?}") };
    assert_eq!((read(upper.join("etc/name")), read(upper.join("etc/again"))), ("two".into(), "two".into()));
    assert_eq!(read(lower.join("etc/name")), "one");
    assert_eq!(fs::read_link(lower.join("lib")).unwrap(), Path::new("usr/lib"));
    let modes =
        ["bin/run", "etc/name", "etc"].map(|path| fs::metadata(lower.join(path)).unwrap().mode() & 0o7777);
    assert_eq!(modes, [0o755, 0o644, 0o755]);
}

#[test]
fn a_layer_that_occurs_twice_in_an_archive_of_docker_is_one() {
    let place = Place::new();
    let one = Layer::default().file("a", "1");
    fs::write(place.path("d.tar"), docker_archive(&[one.clone(), Layer::default().file("b", "2"), one]))
        .unwrap();
    let image = place.prepare("d.tar", Caps::default()).unwrap();
    assert_eq!((image.layers.len(), &image.layers[0]), (3, &image.layers[2]));
}

#[test]
fn removals_become_marks_and_a_layer_keeps_what_it_brings_itself() {
    let place = Place::new();
    let layer = Layer::default()
        .file(".wh.gone", "")
        .file("etc/.wh..wh..opq", "")
        .file("both/.wh.kept", "")
        .file("both/kept", "new")
        .file(".wh.replaced", "")
        .directory("replaced/")
        .directory("late/")
        .file(".wh.late", "")
        .file(".wh..wh.plnk", "");
    let image = place.layout(&[Layer::default().file("gone", "x"), layer], Packing::Plain);
    let upper = &image.layers[0];
    let is_mark = |path: &str| fs::symlink_metadata(upper.join(path)).unwrap().file_type().is_char_device();
    let is_opaque = |path: &str| {
        let mut value = [0; 8];
        let got = rustix::fs::lgetxattr(upper.join(path), "user.overlay.opaque", &mut value[..]);
        got.is_ok_and(|count| value[..count] == *b"y")
    };
    assert!(is_mark("gone"));
    assert!(is_opaque("etc") && is_opaque("replaced") && is_opaque("late") && !is_opaque("both"));
    assert_eq!(read(upper.join("both/kept")), "new");
    assert!(!upper.join(".wh..wh.plnk").exists());
}

#[test]
fn nothing_is_setuid_nothing_is_a_device_and_no_attribute_is_kept() {
    let place = Place::new();
    let layer = Layer::default()
        .entry(b'0', "su", "", 0o6755, b"x")
        .entry(b'0', "secret", "", 0o000, b"x")
        .entry(b'3', "null", "", 0o666, b"")
        .entry(b'4', "disk", "", 0o666, b"")
        .entry(b'6', "pipe", "", 0o666, b"")
        .entry(b'x', "pax", "", 0o644, &pax("SCHILY.xattr.user.overlay.redirect=/"))
        .directory("there/");
    let image = place.layout(&[layer], Packing::Gzip);
    let root = &image.layers[0];
    assert_eq!(fs::metadata(root.join("su")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(root.join("secret")).unwrap().permissions().mode() & 0o7777, 0o644);
    for name in ["null", "disk", "pipe"] {
        assert!(fs::symlink_metadata(root.join(name)).is_err(), "{name}");
    }
    let mut names = [0; 256];
    assert_eq!(rustix::fs::llistxattr(root.join("there"), &mut names[..]).unwrap_or(0), 0);
}

#[test]
fn image_entry_outside_the_root_is_refused() {
    let place = Place::new();
    for name in ["../outside", "a/../../outside", "./../outside", "/../outside"] {
        let said = place.refusal(Layer::default().file(name, "owned"));
        assert_eq!(said, format!("its entry `{name}` leaves the image with `..`"));
    }
    let said = place.refusal(Layer::default().link("a", "/").file("a/etc/owned", "x"));
    assert_eq!(said, "its entry `a/etc/owned` goes through `a`, which is not a directory");
    let said = place.refusal(Layer::default().link("a", "..").link("b", "a").file("b/owned", "x"));
    assert_eq!(said, "its entry `b/owned` goes through `b`, which is not a directory");
    let outside = place.path("outside");
    for target in ["../outside", "../../outside", outside.to_str().unwrap(), "a/x", "."] {
        let said = place.refusal(Layer::default().link("a", "..").hard_link("h", target));
        assert!(
            said.contains("leaves the image") || said.contains("which is not in the layer"),
            "{target}: {said}"
        );
    }
    for name in [".wh...", ".wh..", ".wh.", "d/.wh..."] {
        let said = place.refusal(Layer::default().directory("d/").file(name, ""));
        assert!(said.contains("removes nothing that can have a name"), "{name}: {said}");
    }
    let said = place.refusal(Layer::default().file(".wh.x/y", ""));
    assert_eq!(said, "its entry `.wh.x/y` lies in a removed file");
    let said = place.refusal(Layer::default().file(".wh..wh..opq", ""));
    assert!(said.starts_with("it removes everything below it"), "{said}");
}

#[test]
fn an_absolute_name_means_the_root_of_the_image_and_the_last_entry_counts() {
    let place = Place::new();
    let name = place.path("outside");
    let layer = Layer::default()
        .file(name.to_str().unwrap(), "inside")
        .link("twice", "/etc/passwd")
        .file("twice", "a file")
        .directory("kind/")
        .file("kind/x", "x")
        .file("kind", "a file now");
    let image = place.layout(&[layer], Packing::Gzip);
    let root = &image.layers[0];
    assert_eq!(read(&name), "untouched");
    assert_eq!(read(root.join(name.strip_prefix("/").unwrap())), "inside");
    assert_eq!((read(root.join("twice")), read(root.join("kind"))), ("a file".into(), "a file now".into()));
}

#[test]
fn a_link_that_is_replaced_by_a_file_is_not_written_through() {
    let place = Place::new();
    let outside = place.path("outside");
    let image = place
        .layout(&[Layer::default().link("f", outside.to_str().unwrap()).file("f", "new")], Packing::Plain);
    assert_eq!((read(image.layers[0].join("f")), read(outside)), ("new".into(), "untouched".into()));
}

#[test]
fn names_may_be_long_but_not_longer_than_a_path() {
    let place = Place::new();
    let long = format!("{}/file", vec!["d".repeat(200); 10].join("/"));
    let layer = Layer::default()
        .entry(b'L', "././@LongLink", "", 0, format!("{long}\0").as_bytes())
        .file("short", "x");
    let image = place.layout(&[layer], Packing::Zstd);
    assert_eq!(read(image.layers[0].join(&long)), "x");
    drop(fs::remove_dir_all(place.path("cache")));
    for kind in [b'L', b'K', b'x'] {
        let said =
            place.refusal(Layer::default().entry(kind, "n", "", 0, &vec![b'a'; 2 << 20]).file("f", "x"));
        assert_eq!(said, "it has a name that is longer than any path may be");
    }
    assert!(
        place
            .refusal(Layer::default().entry(b'x', "n", "", 0, &pax("path=a/../../../b")).file("f", ""))
            .contains("leaves the image")
    );
    assert!(place.refusal(Layer::default().entry(b'S', "f", "", 0, b"")).contains("sparse"));
}

#[test]
fn a_bomb_is_bounded_in_bytes_and_in_files() {
    let place = Place::new();
    let zeros = vec![0; 8 << 20];
    for packing in [Packing::Gzip, Packing::Zstd] {
        layout(&place.path("image"), &[Layer::default().file("f", &zeros)], packing, &[]);
        let said = place.refused("image", Caps { bytes: 1 << 20, entries: 100 });
        assert_eq!(said, "it unpacks to more bytes than an image may have");
    }
    let many = (0..50).fold(Layer::default(), |layer, number| layer.directory(&format!("d{number}/")));
    layout(&place.path("many"), &[many], Packing::Gzip, &[]);
    let said = place.refused("many", Caps { bytes: 1 << 20, entries: 40 });
    assert_eq!(said, "it has more files than an image may have");
}

#[test]
fn contents_that_are_not_what_the_digests_say_are_refused() {
    let place = Place::new();
    let honest = Layer::default().file("f", "a");
    let other = Layer::default().file("f", "b");
    let digest = format!("sha256:{}", sha256(&honest.clone().bytes()));
    let config = format!(r#"{{"rootfs":{{"type":"layers","diff_ids":["{digest}"]}}}}"#);
    // The configuration names one layer, the manifest another.
    layout_of(&place.path("image"), config.as_bytes(), &[pack(&other.bytes(), Packing::Gzip)]);
    assert!(place.refused("image", Caps::default()).contains("does not match its digest"));
    // The blob was changed after its digest was taken; what it unpacks to is the same.
    let once = pack(&honest.clone().bytes(), Packing::Gzip);
    let again = pack(&honest.bytes(), Packing::Plain);
    layout_of(&place.path("blob"), config.as_bytes(), std::slice::from_ref(&once));
    fs::write(place.path("blob/blobs/sha256").join(sha256(&once)), again).unwrap();
    assert!(place.refused("blob", Caps::default()).contains("does not match its digest"));
    // So was a document.
    layout_of(&place.path("doc"), config.as_bytes(), std::slice::from_ref(&once));
    fs::write(place.path("doc/blobs/sha256").join(sha256(config.as_bytes())), "{}").unwrap();
    let error = place.prepare("doc", Caps::default()).unwrap_err().to_string();
    assert!(error.contains("does not match its digest"), "{error}");
}

#[test]
fn truncated_image_is_refused() {
    let place = Place::new();
    let whole = Layer::default().file("f", vec![7; 100_000]);
    layout(&place.path("image"), std::slice::from_ref(&whole), Packing::Gzip, &[]);
    let archive = archive_of(&place.path("image"));
    for length in [archive.len() / 2, 1536, 700, 100, 0] {
        fs::write(place.path("half.tar"), &archive[..length]).unwrap();
        let error = place.prepare("half.tar", Caps::default()).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
    let plain = whole.bytes();
    let short = &plain[..50_000];
    let config = format!(r#"{{"rootfs":{{"type":"layers","diff_ids":["sha256:{}"]}}}}"#, sha256(short));
    layout_of(&place.path("short"), config.as_bytes(), &[pack(short, Packing::Gzip)]);
    let said = place.refused("short", Caps::default());
    assert!(said.contains("unexpected EOF") || said.contains("cut off"), "{said}");
    let lying = Layer::default().entry_of_size(b'0', "f", "", 0o644, b"abc", u64::from(u32::MAX)).bytes();
    layout_of(&place.path("lying"), config.as_bytes(), &[lying]);
    place.refused("lying", Caps::default());
}

#[test]
fn invalid_images_have_different_errors() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    fs::write(place.path("text"), "not an archive at all".repeat(100)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let digest = format!("sha256:{}", "0".repeat(64));
    fs::create_dir(place.path("other")).unwrap();
    let index = format!(
        r#"{{"manifests":[{{"digest":"{digest}","platform":{{"os":"linux","architecture":"s390x"}}}}]}}"#
    );
    fs::write(place.path("other/index.json"), index).unwrap();
    fs::create_dir(place.path("sha512")).unwrap();
    fs::write(place.path("sha512/index.json"), r#"{"manifests":[{"digest":"sha512:00"}]}"#).unwrap();
    for (name, part) in [
        ("absent", "cannot be read: No such file"),
        ("empty", "neither an OCI layout nor an archive of docker"),
        ("text", "cannot be used"),
        ("pipe", "it is not a regular file"),
        ("other", "only for: linux/s390x"),
        ("sha512", "`sha512:00` is not a sha256 digest"),
    ] {
        let error = place.prepare(name, Caps::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn partial_unpack_is_removed_and_image_environment_is_filtered() {
    let place = Place::new();
    fs::create_dir_all(place.path("cache/partial/half")).unwrap();
    fs::set_permissions(place.path("cache"), fs::Permissions::from_mode(0o700)).unwrap();
    let environment =
        ["PATH=/a:/b", "JAVA_HOME=/j", "LD_PRELOAD=/x.so", "https_proxy=x", "CODEX_HOME=/", "A B=1", "=x"];
    layout(&place.path("image"), &[Layer::default().file("f", "x")], Packing::Gzip, &environment);
    let image = place.prepare("image", Caps::default()).unwrap();
    let names: Vec<&str> = image.environment.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["PATH", "JAVA_HOME"]);
    assert!(!place.path("cache/partial").exists());
    fs::set_permissions(place.path("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    let error = place.prepare("image", Caps::default()).unwrap_err().to_string();
    assert!(error.contains("others can write to it"), "{error}");
}
