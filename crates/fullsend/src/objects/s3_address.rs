//! Where objects are in an S3-compatible store: `s3://BUCKET/PREFIX`, with the endpoint and the region of the usual variables of
//! AWS or of the address itself.

use std::fmt;

use crate::fetch::WebAddress;

/// A bucket, the beginning of the names in it, and how its server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Address {
    pub bucket: String,
    /// Empty, or without slashes at its ends.
    pub prefix: String,
    pub region: String,
    /// The server, without a path.
    pub endpoint: WebAddress,
    pub addressing: BucketAddressing,
}

/// Where the name of the bucket is in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketAddressing {
    /// `https://BUCKET.s3.example/NAME`, as AWS wants it.
    Host,
    /// `https://s3.example/BUCKET/NAME`, as most other servers want it.
    Path,
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl S3Address {
    /// `s3://BUCKET[/PREFIX][?region=R&endpoint=URL&addressing=host|path]`.
    pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        // The message must not repeat a credential in the address.
        let shown = text.rsplit_once('@').map_or(text, |(_, place)| place);
        let wrong = |why: &str| format!("`{shown}` is not an address of objects: {why}");
        let rest =
            text.strip_prefix("s3://").ok_or_else(|| wrong("write a directory, or s3://BUCKET/PREFIX"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let prefix = prefix.trim_end_matches('/');
        if !is_bucket(bucket) {
            return Err(wrong("a bucket has 3 to 63 lower-case letters, digits, dots and hyphens"));
        }
        if !is_prefix(prefix) {
            return Err(wrong("a prefix has letters, digits and `._-`, with single slashes between them"));
        }
        let options = Options::parse(query).map_err(|why| wrong(&why))?;
        let named = options.endpoint.or_else(|| variable("AWS_ENDPOINT_URL_S3"));
        let named = named.or_else(|| variable("AWS_ENDPOINT_URL"));
        let region = options.region.or_else(|| variable("AWS_REGION"));
        let region = region.or_else(|| variable("AWS_DEFAULT_REGION"));
        // Servers other than AWS usually have one region with this name.
        let region = region.or_else(|| named.is_some().then(|| "us-east-1".to_owned()));
        let region = region.ok_or_else(|| wrong("its region is not known: set AWS_REGION"))?;
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(wrong("a region has letters, digits and hyphens"));
        }
        let is_aws = named.is_none();
        let endpoint = named.unwrap_or_else(|| aws_endpoint(&region));
        let endpoint = WebAddress::parse(&endpoint).map_err(|why| wrong(&why))?;
        if endpoint.target != "/" {
            return Err(wrong("an endpoint has no path"));
        }
        // The certificate of AWS covers one label before its name.
        let own =
            if is_aws && !bucket.contains('.') { BucketAddressing::Host } else { BucketAddressing::Path };
        let addressing = options.addressing.unwrap_or(own);
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned(), region, endpoint, addressing })
    }

    /// The address of an object.
    pub fn object(&self, key: &str) -> WebAddress {
        let mut address = self.endpoint.clone();
        match self.addressing {
            BucketAddressing::Host => {
                address.host = format!("{}.{}", self.bucket, address.host);
                address.target = format!("/{key}");
            }
            BucketAddressing::Path => address.target = format!("/{}/{key}", self.bucket),
        }
        address
    }

    /// The whole name of an object in the bucket.
    pub fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }
}

fn aws_endpoint(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://s3.{region}.{domain}")
}

/// What the address itself says.
#[derive(Default)]
struct Options {
    region: Option<String>,
    endpoint: Option<String>,
    addressing: Option<BucketAddressing>,
}

impl Options {
    fn parse(query: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (name, value) {
                ("region", value) => options.region = Some(value.to_owned()),
                ("endpoint", value) => options.endpoint = Some(value.to_owned()),
                ("addressing", "host") => options.addressing = Some(BucketAddressing::Host),
                ("addressing", "path") => options.addressing = Some(BucketAddressing::Path),
                ("addressing", _) => return Err("`addressing` is `host` or `path`".to_owned()),
                (other, _) => {
                    return Err(format!(
                        "it has no option `{other}`; region, endpoint and addressing are known"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn is_bucket(text: &str) -> bool {
    let is_edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_edge(byte) || byte == b'-' || byte == b'.';
    let bytes = text.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().copied().all(is_inner)
        && is_edge(bytes[0])
        && is_edge(bytes[bytes.len() - 1])
        && !text.contains("..")
}

/// Names that need no encoding anywhere, so that every server signs them alike.
fn is_prefix(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_fine)
    };
    text.is_empty() || (text.len() <= 512 && text.split('/').all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, variables: &[(&str, &str)]) -> Result<S3Address, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        S3Address::parse(text, &variable)
    }

    #[test]
    fn an_object_is_where_its_server_wants_it() {
        let check = |text: &str, variables: &[(&str, &str)], expected: &str| {
            let address = parse(text, variables).unwrap();
            let object = address.object(&address.key("s/d"));
            assert_eq!(format!("{}{}", object.origin(), object.target), expected, "{text}");
        };
        let ours = ("AWS_ENDPOINT_URL_S3", "https://minio.example:9000");
        check("s3://runs", &[("AWS_REGION", "eu-west-1")], "https://runs.s3.eu-west-1.amazonaws.com/s/d");
        check(
            "s3://runs/a/b/",
            &[("AWS_DEFAULT_REGION", "cn-north-1")],
            "https://runs.s3.cn-north-1.amazonaws.com.cn/a/b/s/d",
        );
        check(
            "s3://runs.of.us",
            &[("AWS_REGION", "eu-west-1")],
            "https://s3.eu-west-1.amazonaws.com/runs.of.us/s/d",
        );
        check("s3://runs/a", &[ours], "https://minio.example:9000/runs/a/s/d");
        check("s3://runs?addressing=host", &[ours], "https://runs.minio.example:9000/s/d");
        check("s3://runs?endpoint=http://127.0.0.1:9000&region=r", &[ours], "http://127.0.0.1:9000/runs/s/d");
        assert_eq!(parse("s3://runs", &[ours]).unwrap().region, "us-east-1");
        assert_eq!(parse("s3://runs?region=x-1", &[ours, ("AWS_REGION", "y-1")]).unwrap().region, "x-1");
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        let region = ("AWS_REGION", "eu-west-1");
        for (text, variables, why) in [
            ("gs://runs", vec![region], "write a directory, or s3://BUCKET/PREFIX"),
            ("s3://Runs", vec![region], "a bucket has 3 to 63"),
            ("s3://ab", vec![region], "a bucket has 3 to 63"),
            ("s3://user:secret@runs", vec![region], "a bucket has 3 to 63"),
            ("s3://runs/../other", vec![region], "a prefix has letters"),
            ("s3://runs//a", vec![region], "a prefix has letters"),
            ("s3://runs/a b", vec![region], "a prefix has letters"),
            ("s3://runs", vec![], "set AWS_REGION"),
            ("s3://runs?regoin=x", vec![region], "no option `regoin`"),
            ("s3://runs?addressing=virtual", vec![region], "`host` or `path`"),
            ("s3://runs", vec![("AWS_ENDPOINT_URL", "https://a.example/s3")], "an endpoint has no path"),
            ("s3://runs", vec![("AWS_ENDPOINT_URL", "ftp://a.example")], "must begin with https://"),
        ] {
            let error = parse(text, &variables).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
