//! Indexes and manifests as registries serve them: which image of an index is for this machine, and which blobs an
//! image has. An ambiguous document is refused.

use serde::Deserialize;

use crate::image::BlobDigest;
use crate::image::platform;

/// The accepted media types; a registry that has none of them answers with an error.
pub const ACCEPTED: &[&str] = &[
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

const MAX_ENTRIES: usize = 1000;
pub const MAX_LAYERS: usize = 127;

/// A blob or document that a manifest names, with its digest and length.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Blob {
    pub digest: BlobDigest,
    pub size: u64,
    #[serde(default, rename = "mediaType")]
    media_type: String,
}

impl Blob {
    pub fn of(digest: BlobDigest, size: u64) -> Self {
        Self { digest, size, media_type: String::new() }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum RegistryDocument {
    /// The image for this machine, which may be an index again.
    Index(Blob),
    Manifest {
        config: Blob,
        layers: Vec<Blob>,
    },
}

/// Why a document is not used.
#[derive(Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// It is valid, but not usable here.
    Unusable(String),
    /// It is ambiguous or too large: probably an attack.
    Refused(String),
}

impl std::fmt::Display for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unusable(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for DocumentError {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<Vec<Entry>>,
    config: Option<Blob>,
    layers: Option<Vec<Blob>>,
    fs_layers: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(flatten)]
    blob: Blob,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

/// Reads a document that was served with this content type.
pub fn read(bytes: &[u8], content_type: Option<&str>) -> Result<RegistryDocument, DocumentError> {
    let refused = |why: &str| Err(DocumentError::Refused(why.to_owned()));
    let raw: Raw = serde_json::from_slice(bytes)
        .map_err(|error| DocumentError::Unusable(format!("its manifest cannot be read: {error}")))?;
    let Raw { schema_version, media_type, manifests, config, layers, fs_layers } = raw;
    if schema_version == Some(1) || fs_layers.is_some() {
        let why =
            "it is in docker's first format, which is no longer used: push it again with a current tool";
        return Err(DocumentError::Unusable(why.to_owned()));
    }
    let served = content_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    let served = served.filter(|served| ACCEPTED.contains(served));
    if let (Some(declared), Some(served)) = (&media_type, served)
        && declared != served
    {
        return refused("its manifest names another media type than the registry");
    }
    let kind = media_type.as_deref().or(served);
    let is_index = kind.map(|kind| kind.contains("index.v1") || kind.contains("manifest.list.v2"));
    match (manifests, config, layers) {
        (Some(entries), None, None) if is_index != Some(false) => {
            choose(&entries).map(RegistryDocument::Index)
        }
        (None, Some(config), Some(layers)) if is_index != Some(true) => manifest(config, layers),
        (None, None, None) => Err(DocumentError::Unusable("it is not an image".to_owned())),
        _ => refused("its manifest is both an index and an image"),
    }
}

fn manifest(config: Blob, layers: Vec<Blob>) -> Result<RegistryDocument, DocumentError> {
    if layers.is_empty() || layers.len() > MAX_LAYERS {
        let why = format!("it has {} layers; 1 to {MAX_LAYERS} are supported", layers.len());
        return Err(DocumentError::Unusable(why));
    }
    if layers.iter().any(|layer| layer.media_type.contains("encrypted")) {
        return Err(DocumentError::Unusable("its layers are encrypted".to_owned()));
    }
    let is_image = config.media_type.is_empty()
        || config.media_type.contains("image.config")
        || config.media_type.contains("container.image.v1");
    if !is_image {
        return Err(DocumentError::Unusable(format!(
            "it is an artifact and not an image ({})",
            config.media_type
        )));
    }
    Ok(RegistryDocument::Manifest { config, layers })
}

/// The image for this machine: the one without a variant if there is one, otherwise the first.
fn choose(entries: &[Entry]) -> Result<Blob, DocumentError> {
    if entries.len() > MAX_ENTRIES {
        return Err(DocumentError::Refused(format!("its index has more than {MAX_ENTRIES} images")));
    }
    let here = platform::architecture();
    let is_here = |entry: &&Entry| {
        entry.platform.as_ref().is_some_and(|it| it.os == "linux" && it.architecture == here)
    };
    let is_plain = |entry: &&Entry| entry.platform.as_ref().is_some_and(|it| it.variant.is_none());
    let plain = entries.iter().filter(is_here).find(is_plain);
    let chosen = plain.or_else(|| entries.iter().find(is_here));
    let only = match entries {
        [one] if one.platform.is_none() => Some(one),
        _ => None,
    };
    if let Some(entry) = chosen.or(only) {
        return Ok(entry.blob.clone());
    }
    let named = entries.iter().filter_map(|entry| entry.platform.as_ref());
    let mut named: Vec<String> = named.map(|it| format!("{}/{}", it.os, it.architecture)).collect();
    named.retain(|platform| platform != "unknown/unknown");
    named.dedup();
    named.truncate(20);
    Err(DocumentError::Unusable(format!("it has no image for linux/{here}, only for: {}", named.join(", "))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn blob(digit: &str) -> serde_json::Value {
        json!({ "digest": format!("sha256:{}", digit.repeat(64)), "size": 5 })
    }

    fn entry(digit: &str, os: &str, architecture: &str, variant: Option<&str>) -> serde_json::Value {
        let mut entry = blob(digit);
        entry["platform"] = json!({ "os": os, "architecture": architecture, "variant": variant });
        entry
    }

    fn check(document: &serde_json::Value, kind: Option<&str>) -> Result<String, DocumentError> {
        read(document.to_string().as_bytes(), kind).map(|read| match read {
            RegistryDocument::Index(blob) => blob.digest.hexadecimal()[..1].to_owned(),
            RegistryDocument::Manifest { layers, .. } => format!("{} layers", layers.len()),
        })
    }

    #[test]
    fn the_image_of_an_index_for_this_machine_is_chosen() {
        let here = platform::architecture();
        let all = json!({ "schemaVersion": 2, "manifests": [
            entry("a", "windows", here, None), entry("b", "linux", "s390x", None),
            entry("c", "linux", here, Some("v3")), entry("d", "linux", here, None), entry("e", "linux", here, None),
            entry("f", "unknown", "unknown", None)]});
        assert_eq!(check(&all, None), Ok("d".to_owned()));
        let only = json!({ "manifests": [entry("c", "linux", here, Some("v3"))] });
        assert_eq!(check(&only, None), Ok("c".to_owned()));
        assert_eq!(check(&json!({ "manifests": [blob("9")] }), None), Ok("9".to_owned()));
        let other = json!({ "manifests": [entry("b", "linux", "s390x", None), entry("f", "unknown", "unknown", None)] });
        let why = format!("it has no image for linux/{here}, only for: linux/s390x");
        assert_eq!(check(&other, None), Err(DocumentError::Unusable(why)));
    }

    #[test]
    fn documents_that_can_be_read_in_two_ways_are_refused() {
        let manifest = json!({ "config": blob("a"), "layers": [blob("b")] });
        assert_eq!(check(&manifest, None), Ok("1 layers".to_owned()));
        let refused = |document: &serde_json::Value, kind: Option<&str>| {
            let read = check(document, kind);
            assert!(matches!(read, Err(DocumentError::Refused(_))), "{document}: {read:?}");
        };
        let mut both = manifest.clone();
        both["manifests"] = json!([blob("c")]);
        refused(&both, None);
        refused(&manifest, Some("application/vnd.oci.image.index.v1+json"));
        refused(&json!({ "manifests": [blob("9")] }), Some(ACCEPTED[2]));
        let mut lies = manifest.clone();
        lies["mediaType"] = json!(ACCEPTED[2]);
        refused(&lies, Some(ACCEPTED[3]));
        lies["mediaType"] = json!(ACCEPTED[0]);
        refused(&lies, None);
        refused(&json!({ "manifests": vec![blob("9"); 1001] }), None);
        let unusable = |document: serde_json::Value| {
            let read = check(&document, None);
            assert!(matches!(read, Err(DocumentError::Unusable(_))), "{document}: {read:?}");
        };
        unusable(json!({ "config": blob("a"), "layers": vec![blob("b"); 128] }));
        unusable(json!({ "config": blob("a"), "layers": [] }));
        unusable(json!({ "schemaVersion": 1, "fsLayers": [] }));
        unusable(json!({ "config": blob("a"), "layers": [{ "digest": "sha256:../../x", "size": 1 }] }));
        unusable(
            json!({ "config": blob("a"), "layers": [{ "digest": format!("sha256:{}", "a".repeat(64)), "size": -1 }] }),
        );
        unusable(json!({}));
    }
}
