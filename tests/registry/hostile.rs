//! Registries that lie, break off, redirect and ask for tokens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::server::{Asked, FakeRegistry, INDEX, ImageParts, MANIFEST, Reply, blob_path, digest};
use super::{log_in, parts, small};
use crate::image_builder::{Layer, architecture};
use crate::support::{Ran, World};

fn pull(world: &World, registry: &FakeRegistry, reference: &str) -> Ran {
    world.run(&["image", "pull", &format!("{}/acme/tool{reference}", registry.host)])
}

/// Nothing is in the cache that a later run would use.
fn nothing_cached(world: &World) {
    assert_eq!(world.run(&["image", "list"]).out, "");
}

/// What is said about a registry whose replies were changed; it must be refused as an attack.
fn refused(change: impl FnOnce(&ImageParts, &mut std::collections::HashMap<String, Reply>)) -> String {
    let image = small();
    let mut replies = image.replies();
    change(&image, &mut replies);
    let world = World::new();
    let ran = pull(&world, &FakeRegistry::of(replies), ":1");
    assert_eq!(ran.code, 6, "{}", ran.all());
    nothing_cached(&world);
    ran.err
}

const TAG: &str = "/v2/acme/tool/manifests/1";

fn manifest(text: impl Into<Vec<u8>>, kind: &str) -> Reply {
    Reply::new(200, text).with("content-type", kind)
}

#[test]
fn what_does_not_have_its_digest_is_refused() {
    let said = refused(|image, replies| {
        let mut other = image.blobs[0].clone();
        *other.last_mut().unwrap() ^= 1;
        replies.insert(blob_path(&image.blobs[0]), Reply::new(200, other));
    });
    assert!(said.contains("does not match its digest"), "{said}");
    let said = refused(|image, replies| {
        let mut longer = image.blobs[0].clone();
        longer.push(0);
        replies.insert(blob_path(&image.blobs[0]), Reply::new(200, longer));
    });
    assert!(said.contains("has more than"), "{said}");
    let said = refused(|image, replies| {
        let evil = parts(&[Layer::default().file("evil", "")]);
        let index = json!({ "schemaVersion": 2, "manifests": [{ "digest": digest(&image.manifest), "size": 1,
            "platform": { "os": "linux", "architecture": architecture() } }] });
        replies.insert(TAG.to_owned(), manifest(index.to_string(), INDEX));
        replies.insert(
            format!("/v2/acme/tool/manifests/{}", digest(&image.manifest)),
            manifest(evil.manifest, MANIFEST),
        );
    });
    assert!(said.contains("the registry sent a manifest with the digest"), "{said}");

    let image = small();
    let mut replies = image.replies();
    let evil = parts(&[Layer::default().file("evil", "")]);
    let asked = digest(&image.manifest);
    replies.insert(format!("/v2/acme/tool/manifests/{asked}"), manifest(evil.manifest, MANIFEST));
    let world = World::new();
    let ran = pull(&world, &FakeRegistry::of(replies), &format!("@{asked}"));
    assert!(
        ran.code == 6 && ran.err.contains("the registry sent a manifest with the digest"),
        "{}",
        ran.all()
    );
}

#[test]
fn hostile_indexes_and_manifests_are_refused() {
    let said = refused(|image, replies| {
        let mut both: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
        both["manifests"] = json!([]);
        both.as_object_mut().unwrap().remove("mediaType");
        replies.insert(TAG.to_owned(), manifest(both.to_string(), MANIFEST));
    });
    assert!(said.contains("both an index and an image"), "{said}");
    let said = refused(|image, replies| {
        replies.insert(TAG.to_owned(), manifest(image.manifest.clone(), INDEX));
    });
    assert!(said.contains("names another media type than the registry"), "{said}");
    let said = refused(|image, replies| {
        let mut large: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
        large["layers"][0]["size"] = json!(40_u64 << 30);
        replies.insert(TAG.to_owned(), manifest(large.to_string(), MANIFEST));
    });
    assert!(said.contains("more than 32 GiB"), "{said}");
    let said = refused(|_, replies| {
        // Each index has the digest that the one before it names, and none has an image.
        let mut inner = json!({ "schemaVersion": 2, "manifests": [] }).to_string();
        for _ in 0..8 {
            let digest = digest(inner.as_bytes());
            replies.insert(format!("/v2/acme/tool/manifests/{digest}"), manifest(inner.clone(), INDEX));
            inner = json!({ "schemaVersion": 2, "manifests": [{ "digest": digest, "size": 1,
                "platform": { "os": "linux", "architecture": architecture() } }] })
            .to_string();
        }
        replies.insert(TAG.to_owned(), manifest(inner, INDEX));
    });
    assert!(said.contains("too deep"), "{said}");

    // Too large to be read at all.
    let mut replies = small().replies();
    replies.insert(TAG.to_owned(), manifest(vec![b' '; (4 << 20) + 1], MANIFEST));
    let ran = pull(&World::new(), &FakeRegistry::of(replies), ":1");
    assert!(ran.code == 4 && ran.err.contains("has more than 4194304 bytes"), "{}", ran.all());
}

/// Unpacking has its own tests; here it gets layers that came from a registry.
#[test]
fn a_layer_that_climbs_out_is_refused_before_anything_runs() {
    let image = parts(&[Layer::default().file("../../evil", "x")]);
    let registry = FakeRegistry::of(image.replies());
    let world = World::new();
    let name = format!("{}/acme/tool:1", registry.host);
    let ran = world.run(&["sandbox", "run", "--image", &name, "--", "true"]);
    assert_eq!(ran.code, 8, "{}", ran.all());
    assert!(ran.err.contains("leaves the image"), "{}", ran.err);
    assert!(!world.path("home/.cache/evil").exists() && !world.path("evil").exists());
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_stopped() {
    // A file that cannot be compressed, so that the layer is large enough to break.
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(300_000)
    .collect();
    let image = parts(&[Layer::default().file("noise", noise)]);
    let layer = image.blobs[0].clone();
    let path = blob_path(&layer);
    let replies = image.replies();
    let times = AtomicUsize::new(0);
    let registry = FakeRegistry::start(move |asked: &Asked| {
        if asked.path != path {
            return replies[&asked.path].clone();
        }
        let start = asked.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let start: usize = start.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
        let rest = &layer[start..];
        let is_whole = times.fetch_add(1, Ordering::SeqCst) >= 2;
        let sent = if is_whole { rest } else { &rest[..rest.len() / 2] };
        let reply =
            Reply { said_length: Some(rest.len()), ..Reply::new(if start > 0 { 206 } else { 200 }, sent) };
        reply.with("content-range", format!("bytes {start}-{}/{}", layer.len() - 1, layer.len()))
    });
    let world = World::new();
    let ran = pull(&world, &registry, ":1");
    assert_eq!(ran.code, 0, "{}", ran.all());
    let ranges = registry.asked().into_iter().filter_map(|asked| asked.headers.get("range").cloned());
    let ranges: Vec<String> = ranges.collect();
    assert_eq!(ranges.len(), 2, "{ranges:?}");
    assert!(ranges.iter().all(|range| range != "bytes=0-"), "{ranges:?}");
}

/// What an earlier download left is checked like the rest.
#[test]
fn a_corrupt_start_of_a_download_is_fetched_again() {
    let image = small();
    let world = World::new();
    let layer = &image.blobs[0];
    let half = vec![b'x'; layer.len() / 2];
    let name = digest(layer);
    let name = name.trim_start_matches("sha256:");
    world.write(&format!("home/.cache/fullsend/registry/partial/{name}"), half);
    // This one sends everything whatever it is asked for.
    let ran = pull(&world, &FakeRegistry::of(image.replies()), ":1");
    assert_eq!(ran.code, 0, "{}", ran.all());
    let path = blob_path(layer);
    let replies = image.replies();
    let bytes = layer.clone();
    let ranged = FakeRegistry::start(move |asked| match asked.headers.get("range") {
        Some(range) if asked.path == path => {
            let start: usize = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
            let said = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
            Reply::new(206, &bytes[start..]).with("content-range", said)
        }
        _ => replies[&asked.path].clone(),
    });
    let world = World::new();
    world.write(&format!("home/.cache/fullsend/registry/partial/{name}"), vec![b'x'; layer.len() / 2]);
    let ran = pull(&world, &ranged, ":1");
    assert_eq!(ran.code, 0, "{}", ran.all());
}

#[test]
fn a_token_is_asked_for_with_the_login_and_sent_to_the_registry_alone() {
    let image = small();
    let replies = image.replies();
    let layer = image.blobs[0].clone();
    let path = blob_path(&layer);
    // Blobs are elsewhere, as at the large registries.
    let store = FakeRegistry::start(move |_| Reply::new(200, layer.clone()));
    let elsewhere = store.host.clone();
    let own: Arc<Mutex<String>> = Arc::default();
    let realm = Arc::clone(&own);
    let registry = FakeRegistry::start(move |asked| {
        let realm = realm.lock().unwrap().clone();
        let authorization = asked.headers.get("authorization").map(String::as_str);
        if asked.path.starts_with("/token?") {
            return Reply::new(200, json!({ "token": "secret-token" }).to_string());
        }
        if authorization != Some("Bearer secret-token") {
            let challenge = format!(
                "Bearer realm=\"http://{realm}/token\",service=\"test service\",scope=\"repository:other:push\""
            );
            return Reply::new(401, "").with("www-authenticate", challenge);
        }
        if asked.path == path {
            return Reply::new(307, "").with("location", format!("http://{elsewhere}/blob?signature=x"));
        }
        replies[&asked.path].clone()
    });
    own.lock().unwrap().clone_from(&registry.host);
    let world = World::new();
    log_in(&world, &registry.host, "me:secret-password");
    let ran = pull(&world, &registry, ":1");
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(!ran.all().contains("secret-"), "{}", ran.all());
    let asked = registry.asked();
    let token = asked.iter().find(|asked| asked.path.starts_with("/token?")).unwrap();
    assert_eq!(
        token.path, "/token?scope=repository%3Aacme%2Ftool%3Apull&service=test%20service",
        "no more than it needs"
    );
    assert_eq!(token.headers["authorization"], "Basic bWU6c2VjcmV0LXBhc3N3b3Jk");
    assert_eq!(store.asked().len(), 1);
    assert_eq!(store.asked()[0].headers.get("authorization"), None, "the other server gets no token");
}

/// The file has a token in place of a password; it is exchanged for one of the registry's.
#[test]
fn an_identity_token_is_exchanged_and_never_sent_to_the_registry() {
    let replies = small().replies();
    let tokens = FakeRegistry::start(|_| Reply::new(200, json!({ "access_token": "exchanged" }).to_string()));
    let realm = tokens.host.clone();
    let registry = FakeRegistry::start(move |asked| {
        if asked.headers.get("authorization").map(String::as_str) == Some("Bearer exchanged") {
            return replies[&asked.path].clone();
        }
        Reply::new(401, "").with("www-authenticate", format!("Bearer realm=\"http://{realm}/oauth2\""))
    });
    let world = World::new();
    let file = json!({ "auths": { &registry.host: { "identitytoken": "the-identity&token" } } });
    world.write("home/.config/containers/auth.json", file.to_string());
    let ran = pull(&world, &registry, ":1");
    assert_eq!(ran.code, 0, "{}", ran.all());
    let body = tokens.asked()[0].body.clone();
    assert!(
        body.contains("refresh_token=the-identity%26token&scope=repository%3Aacme%2Ftool%3Apull"),
        "{body}"
    );
    let sent = registry.asked().into_iter().filter_map(|asked| asked.headers.get("authorization").cloned());
    assert!(sent.into_iter().all(|sent| sent == "Bearer exchanged"));
}

#[test]
fn redirects_and_token_servers_to_other_networks_are_refused() {
    let image = small();
    let path = blob_path(&image.blobs[0]);
    for (place, said) in [
        ("http://169.254.169.254/latest/meta-data/", "is not allowed"),
        ("http://registry.invalid/blob", "plain http"),
        ("file:///etc/passwd", "must begin with https://"),
    ] {
        let mut replies = image.replies();
        replies.insert(path.clone(), Reply::new(307, "").with("location", place));
        let ran = pull(&World::new(), &FakeRegistry::of(replies), ":1");
        assert!(ran.code == 4 && ran.err.contains(said), "{place}: {}", ran.all());
        let challenge = format!("Bearer realm=\"{place}\"");
        let asks =
            FakeRegistry::start(move |_| Reply::new(401, "").with("www-authenticate", challenge.clone()));
        let ran = pull(&World::new(), &asks, ":1");
        assert!(ran.code == 4 && ran.err.contains(said), "{place}: {}", ran.all());
    }
    let endless = FakeRegistry::start(|asked| Reply::new(302, "").with("location", asked.path.clone()));
    let ran = pull(&World::new(), &endless, ":1");
    assert!(ran.code == 4 && ran.err.contains("redirects too often"), "{}", ran.all());
    assert!(endless.asked().len() <= 6);
}

/// Plain http is for this machine, and for hosts that the configuration names.
#[test]
fn plain_http_to_other_machines_needs_a_setting() {
    let world = World::new();
    world.write("repo/.fullsend/config.yaml", "images: {plain_http: ['registry.invalid:5000']}\n");
    let plain = world.run(&["image", "pull", "registry.invalid:5000/acme/tool:1"]);
    let secure = world.run(&["image", "pull", "other.invalid:5000/acme/tool:1"]);
    for ran in [&plain, &secure] {
        assert_eq!(ran.code, 4, "{}", ran.all());
    }
    let wrong = world.run(&["image", "pull", "not a name"]);
    assert!(wrong.code == 2 && wrong.err.contains("REGISTRY/NAME:TAG"), "{}", wrong.all());
}
