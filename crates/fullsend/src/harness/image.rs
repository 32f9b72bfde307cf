//! What `image:` may say: a place on this machine, or a name in a registry. Parsing decides which; nothing is looked up.

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageRef {
    /// An absolute path of the host.
    Host(String),
    /// A path inside the layers.
    Layered(String),
    /// A name that only a registry knows.
    Registry(String),
}

/// Ways in which other tools say that a path follows.
const TRANSPORTS: &[&str] = &["oci:", "oci-archive:", "docker-archive:"];

impl ImageRef {
    /// `is_there` says whether a path inside the layers exists: a name in a registry can look just like one.
    pub fn parse(text: &str, is_there: impl Fn(&str) -> bool) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("docker://") {
            return registry(name).ok_or_else(|| format!("`{text}` is not a valid image reference"));
        }
        let path = TRANSPORTS.iter().find_map(|transport| text.strip_prefix(transport));
        let named = path.is_some();
        let path = path.unwrap_or(text);
        if path.is_empty() || path.contains(['\0', '\n']) {
            return Err("must name an OCI layout directory or an archive".to_owned());
        }
        if path.starts_with('/') {
            return Ok(Self::Host(path.to_owned()));
        }
        if named || path.starts_with("./") || is_there(path) {
            return Ok(Self::Layered(path.to_owned()));
        }
        registry(path).map_or_else(|| Ok(Self::Layered(path.to_owned())), Ok)
    }
}

/// The sentence for a name that would have to be pulled.
pub fn not_pulled(name: &str) -> String {
    format!(
        "`{name}` is in a registry, and images are not pulled: save it with `skopeo copy docker://{name} \
         oci-archive:image.tar` or `docker save -o image.tar {name}`, and name the file"
    )
}

/// `[host[:port]/]path[:tag][@sha256:digest]`, as registries spell names.
fn registry(text: &str) -> Option<ImageRef> {
    let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
    let hexadecimal =
        |digest: &str| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digest.is_none_or(|digest| digest.strip_prefix("sha256:").is_some_and(hexadecimal)) {
        return None;
    }
    let (head, last) = rest.rsplit_once('/').map_or((None, rest), |(head, last)| (Some(head), last));
    let (name, tag) = last.split_once(':').map_or((last, None), |(name, tag)| (name, Some(tag)));
    let is_tag = |tag: &str| {
        (1..=128).contains(&tag.len())
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let mut parts = head.into_iter().flat_map(|head| head.split('/'));
    let first = parts.next().unwrap_or(name);
    let first_is_fine = is_component(first) || (head.is_some() && is_host(first));
    let fine = is_component(name) && tag.is_none_or(is_tag) && first_is_fine && parts.all(is_component);
    fine.then(|| ImageRef::Registry(text.to_owned()))
}

fn is_component(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.bytes().all(inside) && edge(text.bytes().next()) && edge(text.bytes().last())
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !name.is_empty() && name.bytes().all(is_name) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::ImageRef;

    #[test]
    fn places_and_names_are_told_apart() {
        let digest = format!("debian@sha256:{}", "a".repeat(64));
        let names =
            ["debian", "debian:12", "ghcr.io/acme/tool:1", "localhost:5000/a/b", "docker://alpine", &digest];
        for name in names {
            let parsed = ImageRef::parse(name, |_| false).unwrap();
            assert_eq!(parsed, ImageRef::Registry(name.trim_start_matches("docker://").to_owned()));
        }
        for (text, path) in
            [("/srv/a.tar", "/srv/a.tar"), ("oci:/srv/a", "/srv/a"), ("docker-archive:/x", "/x")]
        {
            assert_eq!(ImageRef::parse(text, |_| false).unwrap(), ImageRef::Host(path.to_owned()));
        }
        for (text, path) in [("./a.tar", "./a.tar"), ("images/A.tar", "images/A.tar"), ("oci:a", "a")] {
            assert_eq!(ImageRef::parse(text, |_| false).unwrap(), ImageRef::Layered(path.to_owned()));
        }
        assert_eq!(ImageRef::parse("a.tar", |_| true).unwrap(), ImageRef::Layered("a.tar".to_owned()));
        for wrong in ["", "oci:", "docker://A B", "a\nb"] {
            assert!(ImageRef::parse(wrong, |_| false).is_err(), "{wrong:?}");
        }
    }
}
