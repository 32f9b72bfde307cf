//! What `image:` may say: a place on this machine, or a name in a registry. Parsing decides which; nothing is looked up.

use yaml::macros::{Json, json};
use yaml::{Decoder, Node, Schemas, Shape};

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageRef {
    /// An absolute path of the host.
    Host(String),
    /// A path inside the layers.
    Layered(String),
    /// A name in a registry.
    Registry(ImageName),
}

/// `[host[:port]/]path[:tag][@sha256:digest]`, as registries spell names, with what is left out filled in as docker does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageName {
    /// With its port where it has one.
    pub registry: String,
    pub repository: String,
    /// A tag; a digest has precedence over it.
    pub tag: Option<String>,
    /// 64 hexadecimal digits.
    pub sha256: Option<String>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullMode {
    /// Every time, so that a tag has its current meaning.
    Always,
    /// When the cache does not have it.
    #[default]
    Missing,
    /// The cache must have it.
    Never,
}

/// The registry of names without a host.
pub const DOCKER_HUB: &str = "docker.io";

/// The longest name: it must fit into the name of one directory of the cache.
const MAX_NAME_BYTES: usize = 240;

/// Prefixes with which other tools mark a path.
const TRANSPORTS: &[&str] = &["oci:", "oci-archive:", "docker-archive:"];

impl ImageRef {
    /// `is_there` says whether a path inside the layers exists: a name in a registry can look like such a path.
    pub fn parse(text: &str, is_there: impl Fn(&str) -> bool) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("docker://") {
            let name =
                ImageName::parse(name).ok_or_else(|| format!("`{text}` is not a valid image reference"));
            return name.map(Self::Registry);
        }
        let path = TRANSPORTS.iter().find_map(|transport| text.strip_prefix(transport));
        let named = path.is_some();
        let path = path.unwrap_or(text);
        if path.is_empty() || path.contains(['\0', '\n']) {
            return Err("must name an image in a registry, an OCI layout directory or an archive".to_owned());
        }
        if path.starts_with('/') {
            return Ok(Self::Host(path.to_owned()));
        }
        if named || path.starts_with("./") || is_there(path) {
            return Ok(Self::Layered(path.to_owned()));
        }
        // A name without a host stays a path: a missing directory must not become an image on Docker Hub.
        if has_registry(path) || path.contains('@') {
            let name = ImageName::parse(path).filter(|_| has_registry(path));
            return name.map(Self::Registry).ok_or_else(|| {
                format!("`{text}` is not a valid image reference: write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST")
            });
        }
        Ok(Self::Layered(path.to_owned()))
    }
}

/// Whether the first part of a name is a host, as docker decides it.
fn has_registry(path: &str) -> bool {
    path.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

impl ImageName {
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
        let sha256 = match digest {
            None => None,
            Some(digest) => {
                Some(digest.strip_prefix("sha256:").filter(|digits| is_sha256(digits))?.to_owned())
            }
        };
        let (head, last) = rest.rsplit_once('/').map_or((None, rest), |(head, last)| (Some(head), last));
        let (last, tag) = last.split_once(':').map_or((last, None), |(name, tag)| (name, Some(tag)));
        if !tag.is_none_or(is_tag) {
            return None;
        }
        let path = head.map_or_else(|| last.to_owned(), |head| format!("{head}/{last}"));
        let (registry, repository) = split_registry(&path)?;
        let tag = match (tag, &sha256) {
            (None, None) => Some("latest".to_owned()),
            (tag, _) => tag.map(str::to_owned),
        };
        let name = Self { registry, repository, tag, sha256 };
        (name.to_string().len() <= MAX_NAME_BYTES).then_some(name)
    }

    /// Whether this is the image, repository or registry `prefix`, or below it.
    pub fn is_under(&self, prefix: &ImagePrefix) -> bool {
        let whole = format!("{}/{}", self.registry, self.repository);
        whole.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The same image in the place that mirrors `prefix`.
    pub fn mirrored(&self, prefix: &ImagePrefix, mirror: &ImagePrefix) -> Option<Self> {
        let whole = format!("{}/{}", self.registry, self.repository);
        let rest = whole.strip_prefix(prefix.as_str()).filter(|_| self.is_under(prefix))?;
        let (registry, repository) = split_registry(&format!("{}{rest}", mirror.as_str()))?;
        Some(Self { registry, repository, ..self.clone() })
    }
}

impl std::fmt::Display for ImageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.sha256.as_ref().map_or(Ok(()), |digits| write!(f, "@sha256:{digits}"))
    }
}

/// A registry, a part of it, or one repository of it: `quay.io`, `quay.io/acme`, `quay.io/acme/tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePrefix(String);

impl ImagePrefix {
    pub fn parse(text: &str) -> Option<Self> {
        let (host, path) = text.split_once('/').map_or((text, None), |(host, path)| (host, Some(path)));
        let fine = is_host(host) && path.is_none_or(|path| path.split('/').all(is_component));
        fine.then(|| Self(format!("{}{}", host.to_ascii_lowercase(), &text[host.len()..])))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Shape for ImagePrefix {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let text = String::decode(node, decoder)?;
        let parsed = Self::parse(&text);
        if parsed.is_none() {
            decoder.wrong_value(
                node,
                "must be a registry, a part of it or a repository, such as `quay.io/acme`",
            );
        }
        parsed
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$" })
    }
}

/// The host and the rest; names without a host are Docker Hub's, and its own images are in `library`.
fn split_registry(path: &str) -> Option<(String, String)> {
    let named = path.split_once('/').filter(|_| has_registry(path));
    let (registry, repository) = match named {
        Some((host, rest)) if is_host(host) => (host.to_ascii_lowercase(), rest.to_owned()),
        Some(_) => return None,
        None => (DOCKER_HUB.to_owned(), path.to_owned()),
    };
    let own = registry == DOCKER_HUB && !repository.contains('/');
    let repository = if own { format!("library/{repository}") } else { repository };
    repository.split('/').all(is_component).then_some((registry, repository))
}

fn is_sha256(digits: &str) -> bool {
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !tag.starts_with(['.', '-'])
}

fn is_component(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.bytes().all(inside) && edge(text.bytes().next()) && edge(text.bytes().last()) && !text.contains("..")
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let edges = |c: char| !c.is_ascii_alphanumeric();
    !name.is_empty()
        && name.bytes().all(is_name)
        && !name.starts_with(edges)
        && !name.ends_with(edges)
        && !name.contains("..")
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{ImageName, ImagePrefix, ImageRef};

    #[test]
    fn places_and_names_are_told_apart() {
        let digest = format!("docker.io/library/debian@sha256:{}", "a".repeat(64));
        for (text, name) in [
            ("docker://debian", "docker.io/library/debian:latest"),
            ("docker://acme/tool:12", "docker.io/acme/tool:12"),
            ("ghcr.io/acme/tool:1", "ghcr.io/acme/tool:1"),
            ("GHCR.io/acme/tool:1", "ghcr.io/acme/tool:1"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("docker://alpine", "docker.io/library/alpine:latest"),
            (&digest, &digest),
        ] {
            match ImageRef::parse(text, |_| false).unwrap() {
                ImageRef::Registry(parsed) => assert_eq!(parsed.to_string(), name),
                other => panic!("{text}: {other:?}"),
            }
        }
        for (text, path) in
            [("/srv/a.tar", "/srv/a.tar"), ("oci:/srv/a", "/srv/a"), ("docker-archive:/x", "/x")]
        {
            assert_eq!(ImageRef::parse(text, |_| false).unwrap(), ImageRef::Host(path.to_owned()));
        }
        for (text, path) in [
            ("./a.tar", "./a.tar"),
            ("images/A.tar", "images/A.tar"),
            ("oci:a", "a"),
            ("images/tools", "images/tools"),
            ("debian", "debian"),
        ] {
            assert_eq!(ImageRef::parse(text, |_| false).unwrap(), ImageRef::Layered(path.to_owned()));
        }
        assert_eq!(ImageRef::parse("a.tar", |_| true).unwrap(), ImageRef::Layered("a.tar".to_owned()));
        let upper = format!("quay.io/a/debian@sha256:{}", "A".repeat(64));
        let long = format!("docker://x.example/{}", "a/".repeat(200) + "b");
        let more =
            ["", "oci:", "docker://A B", "a\nb", "docker://../../etc", "docker://x.example/../y", "a@b"];
        let more = more.into_iter().chain(["docker://x.example/a:.", "docker://x:port/a", &upper, &long]);
        for wrong in more.chain(["docker://x.example/", "x.example/A", "docker://..:5/a"]) {
            let parsed = ImageRef::parse(wrong, |_| false);
            assert!(parsed.is_err(), "{wrong:?}: {parsed:?}");
        }
    }

    #[test]
    fn a_prefix_ends_where_a_part_ends() {
        let check = |prefix: &str, name: &str| {
            ImageName::parse(name).unwrap().is_under(&ImagePrefix::parse(prefix).unwrap())
        };
        assert!(check("quay.io", "quay.io/acme/tool:1"));
        assert!(check("quay.io/acme", "quay.io/acme/tool"));
        assert!(check("quay.io/acme/tool", "quay.io/acme/tool:2"));
        assert!(check("docker.io/library", "debian"));
        assert!(!check("quay.io/acme", "quay.io/acme-evil/tool"));
        assert!(!check("quay.io", "quay.io.evil.example/acme/tool"));
        assert!(!check("quay.io", "quay.io:5000/acme/tool"));
        for wrong in ["", "quay.io/", "quay.io/acme/*", "https://quay.io", "quay.io/../x", "quay.io/acme:1"] {
            assert!(ImagePrefix::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_mirror_replaces_the_prefix() {
        let check = |name: &str, of: &str, at: &str| {
            let name = ImageName::parse(name).unwrap();
            let mirrored = name.mirrored(&ImagePrefix::parse(of).unwrap(), &ImagePrefix::parse(at).unwrap());
            mirrored.map(|name| name.to_string())
        };
        let hub = Some("mirror.example/hub/library/debian:12".to_owned());
        assert_eq!(check("debian:12", "docker.io", "mirror.example/hub"), hub);
        assert_eq!(check("quay.io/a/b", "quay.io/a", "m.example"), Some("m.example/b:latest".to_owned()));
        assert_eq!(check("quay.io/a/b", "docker.io", "m.example"), None);
    }
}
