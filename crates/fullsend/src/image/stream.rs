//! Readers between a blob and its files: one that computes a digest, one with a size limit, and the decoders.

use std::io::{self, BufRead, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha256};

/// Computes the digest of what is read through it.
pub struct Digesting<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Digesting<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// The digest of the whole stream, its unread rest included.
    pub fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(hexadecimal(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fails when the limit is reached: a small file can unpack to any size.
pub struct Bounded<'a, R> {
    pub inner: R,
    pub left: &'a mut u64,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        *self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("it unpacks to more bytes than an image may have"))?;
        Ok(count)
    }
}

/// The uncompressed bytes of a layer. Its first bytes tell how it is compressed.
pub fn decoded<'a>(mut blob: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::with_capacity(4);
    blob.by_ref().take(4).read_to_end(&mut start)?;
    let is_gzip = start.starts_with(b"\x1f\x8b");
    let is_zstd = start == b"\x28\xb5\x2f\xfd" || (start.len() == 4 && start[1..] == *b"\x2a\x4d\x18");
    let whole = io::Cursor::new(start).chain(blob);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, whole)))
    } else if is_zstd {
        Box::new(Frames::new(whole))
    } else {
        Box::new(whole)
    })
}

/// One zstd frame after another, those that hold no data skipped.
struct Frames<R> {
    source: io::BufReader<R>,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: Read> Frames<R> {
    fn new(source: R) -> Self {
        let source = io::BufReader::with_capacity(1 << 16, source);
        Self { source, decoder: FrameDecoder::new(), inside: false }
    }

    /// Whether another frame follows.
    fn start_frame(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.init(&mut self.source) {
            Ok(()) => self.inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                if skipped < u64::from(length) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(true)
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.inside {
                if !self.start_frame()? {
                    return Ok(0);
                }
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            }
            match self.decoder.read(buffer)? {
                0 => self.inside = false,
                count => return Ok(count),
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::{Bounded, Digesting, decoded};

    #[test]
    fn gzip_zstd_and_plain_are_told_apart_by_how_they_begin() {
        let text = b"the same bytes ".repeat(5000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let frame = ruzstd::encoding::compress_to_vec(&text[..100], level);
        let mut frames = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
        frames.extend(frame);
        frames.extend(b"\x51\x2a\x4d\x18\x01\0\0\0x");
        frames.extend(ruzstd::encoding::compress_to_vec(&text[100..], level));
        for packed in [text.clone(), gzip.finish().unwrap(), frames.clone()] {
            let mut plain = Vec::new();
            decoded(&packed[..]).unwrap().read_to_end(&mut plain).unwrap();
            assert!(plain == text);
            let half = &packed[..packed.len() / 2];
            let whole = decoded(half).unwrap().read_to_end(&mut Vec::new());
            assert!(packed == text || whole.is_err(), "half of it is noticed");
        }
        assert_eq!(decoded(&b""[..]).unwrap().read(&mut [0; 9]).unwrap(), 0);
    }

    #[test]
    fn more_than_is_left_fails_and_digests_cover_the_rest() {
        let mut left = 10;
        let mut bounded = Bounded { inner: &[0; 11][..], left: &mut left };
        assert!(bounded.read_to_end(&mut Vec::new()).is_err());
        let mut digesting = Digesting::new(&b"abc"[..]);
        digesting.read_exact(&mut [0; 1]).unwrap();
        assert!(digesting.finish().unwrap().starts_with("ba7816bf"));
    }
}
