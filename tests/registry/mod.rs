//! Images from registries, through the real program: Debian's own registry, and registries that lie.

mod hostile;
pub mod server;

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::image_builder::{Layer, Packing, architecture, pack};
use crate::sandboxes::busybox;
use crate::support::World;
use server::{FakeRegistry, INDEX, ImageParts, MANIFEST, RealRegistry, Reply, USER, digest};

/// An image of these layers, the lowest first.
fn parts(layers: &[Layer]) -> ImageParts {
    let plain: Vec<Vec<u8>> = layers.iter().cloned().map(Layer::bytes).collect();
    let packed = plain.iter().map(|layer| pack(layer, Packing::Gzip)).collect();
    ImageParts::new(&plain, packed)
}

fn small() -> ImageParts {
    parts(&[Layer::default().file("usr/share/mark", "from the registry\n")])
}

fn log_in(world: &World, host: &str, user: &str) {
    use base64::Engine as _;
    let auth = base64::engine::general_purpose::STANDARD.encode(user);
    world.write("home/.docker/config.json", json!({ "auths": { host: { "auth": auth } } }).to_string());
}

/// Pushed to a real registry, run by a harness, and from the cache when nobody may be asked.
#[test]
fn a_harness_runs_in_an_image_of_a_registry() {
    let Some(base) = busybox() else { return };
    let Some(registry) = RealRegistry::start(false) else { return };
    let image = parts(&[base, Layer::default().file("usr/share/mark", "from the registry\n")]);
    registry.push(&image, "1");
    let name = format!("{}/acme/tool:1", registry.host);
    let world = World::scripted(
        &format!("image: {name}\n"),
        r#"{"turns":[[{"shell":"cat /usr/share/mark; echo \"[$LD_PRELOAD]\" > /sandbox/workspace/repo/seen; cat /usr/share/mark >> /sandbox/workspace/repo/seen"}],[{"finish":{"summary":"done"}}]]}"#,
    );
    let offline = world.run(&["run", "triage", "--offline"]);
    assert_eq!(offline.code, 4, "{}", offline.all());
    let said = format!("the image {name} is not in the cache and must not be pulled");
    assert!(offline.err.contains(&said), "{}", offline.err);
    let checked = world.run(&["check", "triage", "--pull", "never"]);
    assert!(checked.code == 4 && checked.err.contains("error[image-not-cached]"), "{}", checked.all());
    assert_eq!(world.run(&["check", "triage"]).code, 0, "nobody is asked");

    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.err.contains(&format!("image     {name}: pulled ")), "{}", ran.err);
    let diff = world.run(&["runs", "diff", "latest"]).out;
    assert!(diff.contains("+[]\n+from the registry\n"), "without LD_PRELOAD: {diff}");
    let record = world.run(&["runs", "show", "latest", "--json"]).out;
    assert!(record.contains(digest(&image.manifest).trim_start_matches("sha256:")), "{record}");

    drop(registry);
    assert_eq!(world.run(&["check", "triage", "--offline"]).code, 0);
    let ran = world.run(&["run", "triage", "--offline"]);
    assert_eq!(ran.code, 0, "from the cache: {}", ran.all());
    let ran = world.run(&["run", "triage", "--pull", "always"]);
    assert!(ran.code == 4 && ran.err.contains("cannot connect to 127.0.0.1"), "{}", ran.all());
}

#[test]
fn a_tag_is_locked_to_its_digest() {
    let first = small();
    let second = parts(&[Layer::default().file("usr/share/mark", "another\n")]);
    let replies = Arc::new(Mutex::new(first.replies()));
    let served = Arc::clone(&replies);
    let registry = FakeRegistry::start(move |asked| {
        served.lock().unwrap().get(&asked.path).cloned().unwrap_or_else(|| Reply::new(404, ""))
    });
    let name = format!("{}/acme/tool:1", registry.host);
    let world =
        World::scripted(&format!("image: {name}\n"), r#"{"turns":[[{"finish":{"summary":"done"}}]]}"#);
    let missing = world.run(&["check", "triage", "--locked"]);
    assert!(missing.code == 3 && missing.err.contains("which is not in fullsend.lock"), "{}", missing.all());
    let lock = || fs::read_to_string(world.path("repo/.fullsend/fullsend.lock")).unwrap();
    let locked = world.run(&["lock"]);
    assert!(locked.code == 0 && locked.err.contains("triage: 0 resources, 1 image\n"), "{}", locked.all());
    let text = lock();
    assert!(text.contains(digest(&first.manifest).trim_start_matches("sha256:")), "{text}");
    replies.lock().unwrap().extend(second.replies());
    assert_eq!(world.run(&["check", "triage", "--locked", "--offline"]).code, 0, "{text}");
    assert_eq!(world.run(&["lock"]).code, 0);
    assert_eq!(lock(), text, "a locked tag stays");
    let updated = world.run(&["lock", "--update", "triage"]);
    assert_eq!(updated.code, 0, "{}", updated.all());
    assert!(lock().contains(digest(&second.manifest).trim_start_matches("sha256:")), "{}", lock());
    assert_eq!(world.run(&["check", "triage", "--locked", "--offline"]).code, 0);
}

#[test]
fn images_are_pulled_listed_removed_and_collected() {
    let Some(registry) = RealRegistry::start(false) else { return };
    let one = small();
    let shared = Layer::default().file("usr/share/mark", "from the registry\n");
    let two = parts(&[shared, Layer::default().file("second", "2")]);
    registry.push(&one, "one");
    registry.push(&two, "two");
    let foreign = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [
        { "mediaType": MANIFEST, "digest": digest(&one.manifest), "size": one.manifest.len(),
          "platform": { "os": "linux", "architecture": "s390x" } },
        { "mediaType": MANIFEST, "digest": digest(&two.manifest), "size": two.manifest.len(),
          "platform": { "os": "linux", "architecture": architecture() } } ]});
    let foreign = foreign.to_string().into_bytes();
    registry.push_document(&foreign, INDEX, "many");
    let world = World::new();
    let name = |tag: &str| format!("{}/acme/tool{tag}", registry.host);
    let index = format!("@{}", digest(&foreign));
    for tag in [":one", ":two", ":many", &index] {
        let ran = world.run(&["image", "pull", &name(tag)]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        let expected = match tag {
            ":one" => digest(&one.manifest),
            ":two" => digest(&two.manifest),
            _ => digest(&foreign),
        };
        assert_eq!(ran.out, format!("{} {expected}\n", name(tag)));
    }
    let blobs = || fs::read_dir(world.path("home/.cache/fullsend/registry/blobs/sha256")).unwrap().count();
    assert_eq!(blobs(), 6, "two manifests, two configurations, and layers that both share");
    let listed = world.run(&["image", "list"]).out;
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(listed.contains(&name(":many")), "{listed}");
    let unknown = world.run(&["image", "pull", &name(":none")]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("the registry answered 404: manifest unknown"), "{}", unknown.err);
    for tag in [":two", ":many", &index] {
        assert_eq!(world.run(&["image", "rm", &name(tag)]).code, 0);
    }
    let again = world.run(&["image", "rm", &name(":two")]);
    assert!(again.code == 4 && again.err.contains("is not in the cache"), "{}", again.all());
    let freed = world.run(&["image", "gc"]);
    assert!(freed.code == 0 && freed.out.starts_with("freed "), "{}", freed.all());
    assert_eq!(blobs(), 3);
    assert_eq!(world.run(&["image", "pull", "--offline", &name(":one")]).code, 0);
}

#[test]
fn a_registry_that_asks_for_a_password_gets_it_and_no_message_has_it() {
    let Some(registry) = RealRegistry::start(true) else { return };
    registry.push(&small(), "1");
    let name = format!("{}/acme/tool:1", registry.host);
    let world = World::new();
    let without = world.run(&["image", "pull", &name]);
    assert_eq!(without.code, 4, "{}", without.all());
    let said = format!("run `docker login {0}` or `podman login {0}`", registry.host);
    assert!(without.err.contains(&said), "{}", without.err);
    log_in(&world, &registry.host, "reader:wrong-password");
    let wrong = world.run(&["image", "pull", &name]);
    assert_eq!(wrong.code, 4, "{}", wrong.all());
    assert!(wrong.err.contains("401") && !wrong.err.contains("wrong-password"), "{}", wrong.err);
    log_in(&world, &registry.host, USER);
    let right = world.run(&["image", "pull", &name]);
    assert_eq!(right.code, 0, "{}", right.all());
    let kept = fs::read_to_string(world.path("home/.docker/config.json")).unwrap();
    assert!(!right.all().contains("open-sesame") && kept.contains(&registry.host), "nothing is written");
}

#[test]
fn the_organisation_decides_which_images_are_pulled() {
    let Some(registry) = RealRegistry::start(false) else { return };
    let image = small();
    registry.push(&image, "1");
    let world = World::with_harness();
    let pinned = format!("{}/acme/tool@{}", registry.host, digest(&image.manifest));
    let harness = |name: &str| {
        let text = "agent: agents/triage.md\noutput_schema: schemas/triage.json\nruntime: native\nproviders: [model]\n";
        world.write("repo/.fullsend/harness/triage.yaml", format!("{text}image: {name}\n"));
    };
    let check = |org: &str, name: &str| {
        world.write("org/config.yaml", org);
        harness(name);
        let org = world.path("org").to_string_lossy().into_owned();
        let checked = world.run(&["check", "triage", "--org-dir", &org]);
        let pulled = world.run(&["image", "pull", name, "--org-dir", &org]);
        assert_eq!(checked.code, pulled.code, "{}{}", checked.all(), pulled.all());
        (checked.code, checked.err)
    };
    let host = &registry.host;
    let tagged = format!("{host}/acme/tool:1");
    assert_eq!(check(&format!("images: {{allow: ['{host}/acme']}}"), &tagged).0, 0);
    let (code, said) = check(&format!("images: {{allow: ['{host}/acme/to']}}"), &tagged);
    assert!(code == 3 && said.contains("error[image-not-allowed]"), "{said}");
    assert_eq!(check("images: {allow: []}", &tagged).0, 3);
    let (code, said) = check("images: {require_digest: true}", &tagged);
    assert!(code == 3 && said.contains("NAME@sha256:DIGEST"), "{said}");
    assert_eq!(check("images: {require_digest: true}", &pinned).0, 0);
    // A repository cannot say more than its organisation.
    world.write(
        "repo/.fullsend/config.yaml",
        format!("images: {{mirrors: [{{of: {host}, at: evil.example}}]}}\n"),
    );
    let (code, said) = check(&format!("images: {{allow: ['{host}']}}"), &tagged);
    assert!(code == 3 && said.contains("the organisation sets `images`"), "{said}");
    // A mirror is asked first, and the registry itself if it has nothing.
    fs::remove_file(world.path("repo/.fullsend/config.yaml")).unwrap();
    let mirrored = format!("images: {{mirrors: [{{of: registry.invalid/team, at: '{host}/acme'}}]}}");
    assert_eq!(check(&mirrored, "registry.invalid/team/tool:1").0, 0);
}
