//! Decompresses bodies for the rules that apply to them. A body must be one complete stream of one known encoding: a
//! server may interpret extra or missing bytes in another way.

use brotli_decompressor::Decompressor;
use flate2::bufread::GzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::borrow::Cow;
use std::fmt;
use std::io::Read;

/// The window size that a zstd decoder should accept, by RFC 8878.
const MAX_WINDOW: u64 = 8 << 20;
/// Decompressed at once.
const PORTION: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EncodingError {
    /// Of two encodings, or of one that is not known.
    Unknown(String),
    Malformed(&'static str),
    TooLarge(u64),
    NoMemory,
}

impl fmt::Display for EncodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(given) => {
                write!(f, "the body has the encoding `{given}`; gzip, br and zstd can be read, one at a time")
            }
            Self::Malformed(name) => write!(f, "the body is not one complete {name} stream"),
            Self::TooLarge(most) => write!(f, "decompressed, the body is longer than {most} bytes"),
            Self::NoMemory => f.write_str("no memory is left to decompress the body"),
        }
    }
}

impl std::error::Error for EncodingError {}

/// How long a decompressed body may become, and whether there is memory for its next bytes.
pub(super) struct DecodingLimits<'a> {
    pub(super) most: u64,
    pub(super) has_memory: &'a mut dyn FnMut(u64) -> bool,
}

/// `encodings` are the words of `Content-Encoding`, in lower case.
pub(super) fn decode<'a>(
    encodings: &[String],
    body: &'a [u8],
    limits: &mut DecodingLimits<'_>,
) -> Result<Cow<'a, [u8]>, EncodingError> {
    let named: Vec<&str> = encodings.iter().map(String::as_str).filter(|word| *word != "identity").collect();
    let decoded = match named[..] {
        [] => return Ok(Cow::Borrowed(body)),
        ["gzip" | "x-gzip"] => {
            let mut decoder = GzDecoder::new(body);
            let decoded = read(&mut decoder, limits, "gzip")?;
            (decoded, decoder.into_inner())
        }
        ["zstd"] => {
            let mut rest = body;
            let mut decoder = StreamingDecoder::new_with_max_window_size(&mut rest, MAX_WINDOW)
                .map_err(|_| EncodingError::Malformed("zstd"))?;
            let decoded = read(&mut decoder, limits, "zstd")?;
            (decoded, rest)
        }
        ["br"] => {
            let mut rest = body;
            // One byte at a time, so that bytes after the stream stay unread and are detected.
            let decoded = read(&mut Decompressor::new(&mut rest, 1), limits, "br")?;
            (decoded, rest)
        }
        _ => return Err(EncodingError::Unknown(named.join(", "))),
    };
    match decoded {
        (decoded, []) => Ok(Cow::Owned(decoded)),
        _ => Err(EncodingError::Malformed("compressed")),
    }
}

fn read(
    decoder: &mut dyn Read,
    limits: &mut DecodingLimits<'_>,
    name: &'static str,
) -> Result<Vec<u8>, EncodingError> {
    let mut decoded = Vec::new();
    loop {
        let length = Read::take(&mut *decoder, PORTION)
            .read_to_end(&mut decoded)
            .map_err(|_| EncodingError::Malformed(name))?;
        if decoded.len() as u64 > limits.most {
            return Err(EncodingError::TooLarge(limits.most));
        }
        if length == 0 {
            return Ok(decoded);
        }
        if !(limits.has_memory)(length as u64) {
            return Err(EncodingError::NoMemory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodingLimits, EncodingError, decode};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    const TEXT: &[u8] = b"{\"jsonrpc\":\"2.0\"}";
    /// The text, compressed by Node's zlib and by zstd.
    const BROTLI: &[u8] = &[
        0x0b, 0x08, 0x80, 0x7b, 0x22, 0x6a, 0x73, 0x6f, 0x6e, 0x72, 0x70, 0x63, 0x22, 0x3a, 0x22, 0x32, 0x2e,
        0x30, 0x22, 0x7d, 0x03,
    ];
    const ZSTD: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x11, 0x89, 0x00, 0x00, 0x7b, 0x22, 0x6a, 0x73, 0x6f, 0x6e, 0x72, 0x70,
        0x63, 0x22, 0x3a, 0x22, 0x32, 0x2e, 0x30, 0x22, 0x7d,
    ];

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(encoding: &str, body: &[u8]) -> Result<Vec<u8>, EncodingError> {
        let words: Vec<String> =
            encoding.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let mut limits = DecodingLimits { most: 64, has_memory: &mut |_| true };
        decode(&words, body, &mut limits).map(std::borrow::Cow::into_owned)
    }

    #[test]
    fn one_complete_stream_of_a_known_encoding_is_read() {
        for (encoding, body) in [
            ("", TEXT.to_vec()),
            ("identity", TEXT.to_vec()),
            ("gzip", gzip(TEXT)),
            ("x-gzip", gzip(TEXT)),
            ("br", BROTLI.to_vec()),
            ("zstd", ZSTD.to_vec()),
        ] {
            assert_eq!(decoded(encoding, &body).unwrap(), TEXT, "{encoding}");
            if body.as_slice() == TEXT {
                continue;
            }
            for cut in 0..body.len() {
                assert!(decoded(encoding, &body[..cut]).is_err(), "{encoding} cut at {cut}");
            }
            for more in [&b"x"[..], &body, TEXT] {
                assert!(decoded(encoding, &[&body, more].concat()).is_err(), "{encoding} and more");
            }
            assert!(decoded(encoding, TEXT).is_err(), "{encoding} that is none");
            assert!(decoded(&format!("{encoding} {encoding}"), &body).is_err(), "{encoding} twice");
        }
        for encoding in ["deflate", "compress", "gzip br", "aes128gcm", "dcb"] {
            let error = decoded(encoding, TEXT).unwrap_err().to_string();
            assert!(error.contains("gzip, br and zstd can be read"), "{error}");
        }
    }

    #[test]
    fn a_body_that_grows_too_much_is_refused() {
        let bomb = gzip(&vec![b'['; 10 << 20]);
        assert_eq!(decoded("gzip", &bomb), Err(EncodingError::TooLarge(64)));
        assert_eq!(decoded("gzip", &gzip(&[b'['; 64])).map(|body| body.len()), Ok(64));
        assert_eq!(decoded("gzip", &gzip(&[b'['; 65])), Err(EncodingError::TooLarge(64)));
    }
}
