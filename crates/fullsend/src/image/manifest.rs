//! The manifest and configuration of an image: which layers it has, what their digests are, and what its programs expect in their
//! environment. Every document is checked against the digest that names it.

use std::io;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::platform::{architecture, host_platform};
use super::source::ImageSource;
use super::stream::hexadecimal;

/// Manifests and configurations are text of a few kilobytes.
const MAX_DOCUMENT_BYTES: u64 = 8 << 20;
const MAX_LAYERS: usize = 127;
/// Indexes in indexes.
const MAX_DEPTH: usize = 4;

/// An image that was chosen, before any layer was read.
#[derive(Debug)]
pub struct Manifest {
    /// The digest of the manifest, or of the configuration if the archive has no manifest.
    pub digest: BlobDigest,
    /// The lowest first.
    pub layers: Vec<ImageLayer>,
    pub environment: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct ImageLayer {
    /// Where its blob is in the source.
    pub name: String,
    /// The digest of the blob as it is stored; docker archives do not contain it.
    pub blob: Option<BlobDigest>,
    /// Of what it unpacks to.
    pub plain: BlobDigest,
}

/// A SHA-256 digest, as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BlobDigest(String);

impl BlobDigest {
    pub fn hexadecimal(&self) -> &str {
        &self.0
    }

    pub fn of(bytes: &[u8]) -> Self {
        Self(hexadecimal(&Sha256::digest(bytes)))
    }

    pub fn of_hash(hash: Sha256) -> Self {
        Self(hexadecimal(&hash.finalize()))
    }

    fn blob(&self) -> String {
        format!("blobs/sha256/{}", self.0)
    }
}

impl TryFrom<String> for BlobDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").unwrap_or("");
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == 64 && digits.bytes().all(is_digit) {
            Ok(Self(digits.to_owned()))
        } else {
            Err(format!("`{}` is not a sha256 digest", text.chars().take(80).collect::<String>()))
        }
    }
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: BlobDigest,
    platform: Option<Platform>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Deserialize)]
struct OciManifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerManifest {
    config: String,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct ImageConfiguration {
    rootfs: RootFiles,
    os: Option<String>,
    architecture: Option<String>,
    config: Option<Settings>,
}

#[derive(Deserialize)]
struct RootFiles {
    diff_ids: Vec<BlobDigest>,
}

#[derive(Deserialize)]
struct Settings {
    #[serde(rename = "Env")]
    environment: Option<Vec<String>>,
}

/// The one image of this source for this machine.
pub fn choose(source: &ImageSource) -> io::Result<Manifest> {
    if source.has("index.json") {
        return of_layout(source);
    }
    if source.has("manifest.json") {
        return of_docker(source);
    }
    Err(wrong(
        "it is neither an OCI layout nor an archive of docker: it has no index.json and no manifest.json",
    ))
}

fn of_layout(source: &ImageSource) -> io::Result<Manifest> {
    let index: Index = parse("index.json", &source.read_small("index.json", MAX_DOCUMENT_BYTES)?)?;
    let mut candidates = Vec::new();
    let mut platforms = Vec::new();
    collect(source, index, 0, &mut candidates, &mut platforms)?;
    match &candidates[..] {
        [] => Err(wrong(&format!(
            "it has no image for {}, only for: {}",
            host_platform(),
            platforms.join(", ")
        ))),
        [one] => of_oci(source, one),
        many => Err(wrong(&format!(
            "it holds {} images for {}: save the one you mean on its own",
            many.len(),
            host_platform()
        ))),
    }
}

fn collect(
    source: &ImageSource,
    index: Index,
    depth: usize,
    candidates: &mut Vec<Descriptor>,
    platforms: &mut Vec<String>,
) -> io::Result<()> {
    if depth > MAX_DEPTH || index.manifests.len() > 1000 {
        return Err(wrong("its index has too many parts"));
    }
    for descriptor in index.manifests {
        if descriptor.media_type.ends_with("index.v1+json")
            || descriptor.media_type.ends_with("manifest.list.v2+json")
        {
            let inner: Index = parse("an index", &document(source, &descriptor.digest)?)?;
            collect(source, inner, depth + 1, candidates, platforms)?;
            continue;
        }
        match &descriptor.platform {
            Some(platform)
                if (platform.os.as_str(), platform.architecture.as_str()) != ("linux", architecture()) =>
            {
                platforms.push(format!("{}/{}", platform.os, platform.architecture));
            }
            _ if candidates.iter().any(|known: &Descriptor| known.digest == descriptor.digest) => {}
            _ => candidates.push(descriptor),
        }
    }
    Ok(())
}

fn of_oci(source: &ImageSource, descriptor: &Descriptor) -> io::Result<Manifest> {
    let manifest: OciManifest = parse("its manifest", &document(source, &descriptor.digest)?)?;
    let configuration: ImageConfiguration =
        parse("its configuration", &document(source, &manifest.config.digest)?)?;
    let blobs = manifest.layers.into_iter().map(|layer| {
        if layer.media_type.contains("encrypted") {
            return Err(wrong("its layers are encrypted"));
        }
        Ok((layer.digest.blob(), Some(layer.digest)))
    });
    assemble(descriptor.digest.clone(), configuration, blobs.collect::<io::Result<_>>()?)
}

fn of_docker(source: &ImageSource) -> io::Result<Manifest> {
    let manifests: Vec<DockerManifest> =
        parse("manifest.json", &source.read_small("manifest.json", MAX_DOCUMENT_BYTES)?)?;
    let [manifest] = &manifests[..] else {
        return Err(wrong(&format!("it holds {} images: save the one you mean on its own", manifests.len())));
    };
    let bytes = source.read_small(&manifest.config, MAX_DOCUMENT_BYTES)?;
    let digest = BlobDigest::of(&bytes);
    // Docker archives name the configuration by its digest; refuse any other.
    let stem = manifest.config.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    if stem.len() == 64 && stem != digest.hexadecimal() {
        return Err(refused("its configuration does not have the digest that it is named by"));
    }
    let configuration = parse("its configuration", &bytes)?;
    assemble(digest, configuration, manifest.layers.iter().map(|name| (name.clone(), None)).collect())
}

fn assemble(
    digest: BlobDigest,
    configuration: ImageConfiguration,
    blobs: Vec<(String, Option<BlobDigest>)>,
) -> io::Result<Manifest> {
    let ImageConfiguration { rootfs, os, architecture: built_for, config } = configuration;
    let os = os.unwrap_or_else(|| "linux".to_owned());
    let built_for = built_for.unwrap_or_else(|| architecture().to_owned());
    if (os.as_str(), built_for.as_str()) != ("linux", architecture()) {
        return Err(wrong(&format!(
            "it is built for {os}/{built_for}, and this machine is {}",
            host_platform()
        )));
    }
    if rootfs.diff_ids.len() != blobs.len() {
        return Err(refused("its configuration and its manifest do not agree about its layers"));
    }
    if blobs.is_empty() || blobs.len() > MAX_LAYERS {
        return Err(wrong(&format!("it has {} layers; 1 to {MAX_LAYERS} are supported", blobs.len())));
    }
    let layers = blobs.into_iter().zip(rootfs.diff_ids);
    let layers = layers.map(|((name, blob), plain)| ImageLayer { name, blob, plain }).collect();
    let environment = config.and_then(|config| config.environment).unwrap_or_default();
    let environment = environment.iter().filter_map(|line| line.split_once('='));
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Manifest { digest, layers, environment })
}

/// A document by its digest, which it must have.
fn document(source: &ImageSource, digest: &BlobDigest) -> io::Result<Vec<u8>> {
    let bytes = source.read_small(&digest.blob(), MAX_DOCUMENT_BYTES)?;
    if BlobDigest::of(&bytes) == *digest {
        Ok(bytes)
    } else {
        Err(refused(&format!("the blob sha256:{} does not match its digest", digest.hexadecimal())))
    }
}

fn parse<T: for<'de> Deserialize<'de>>(what: &str, bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| wrong(&format!("{what} cannot be read: {error}")))
}

fn wrong(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// The digest does not match: the image was changed.
pub fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}
