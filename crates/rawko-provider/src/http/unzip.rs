//! Bodies that come as gzip although rawko did not ask for that: caches and proxies on the way do it.
//!
//! Known by their first byte, with which neither JSON nor an event begins. What they unpack to is bounded where it is read.

use std::io::{Read as _, Write as _};

use flate2::read::MultiGzDecoder;
use flate2::write;

/// The first byte of gzip.
const FIRST: u8 = 0x1f;

/// Unpacks a body as it arrives.
pub(crate) enum Unzip {
    /// Nothing has arrived.
    Unknown,
    /// It is not packed.
    Plain,
    Gzip(Box<write::MultiGzDecoder<Vec<u8>>>),
}

impl Unzip {
    /// What the next bytes unpack to; `None` where they are as they should be.
    ///
    /// # Errors
    /// If they are no gzip after all.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
        if let (Self::Unknown, Some(first)) = (&self, bytes.first()) {
            *self = if *first == FIRST {
                Self::Gzip(Box::new(write::MultiGzDecoder::new(Vec::new())))
            } else {
                Self::Plain
            };
        }
        let Self::Gzip(decoder) = self else { return Ok(None) };
        decoder.write_all(bytes)?;
        // The part of an answer that has arrived is shown at once.
        decoder.flush()?;
        Ok(Some(std::mem::take(decoder.get_mut())))
    }
}

/// A whole body, unpacked to at most `max` bytes if it is packed. A body that cannot be unpacked stays as it is.
pub(crate) fn unzipped(body: Vec<u8>, max: usize) -> Vec<u8> {
    if body.first() != Some(&FIRST) {
        return body;
    }
    let mut text = Vec::new();
    let read = MultiGzDecoder::new(body.as_slice()).take(max as u64).read_to_end(&mut text);
    // A body that was cut unpacks to its beginning.
    if read.is_ok() || !text.is_empty() { text } else { body }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;

    use super::*;

    fn zipped(text: &str) -> Vec<u8> {
        let mut encoder = write::GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn a_packed_body_is_unpacked_however_it_is_cut() {
        let text = "data: {\"a\": 1}\n\n".repeat(100);
        let packed = zipped(&text);
        for size in [1, 7, packed.len()] {
            let (mut unzip, mut found) = (Unzip::Unknown, Vec::new());
            for bytes in packed.chunks(size) {
                found.extend(unzip.next(bytes).expect("gzip").expect("it is packed"));
            }
            assert_eq!(String::from_utf8(found).expect("text"), text, "{size}");
        }
        assert_eq!(unzipped(packed.clone(), usize::MAX), text.as_bytes());
        assert_eq!(unzipped(packed, 10).len(), 10);
    }

    #[test]
    fn others_are_as_they_are() {
        let mut unzip = Unzip::Unknown;
        assert_eq!(unzip.next(b"").expect("nothing"), None);
        assert_eq!(unzip.next(b"data: 1").expect("plain"), None);
        // It is known by its first byte alone.
        assert_eq!(unzip.next(&zipped("x")).expect("plain"), None);
        assert!(Unzip::Unknown.next(b"\x1f no gzip, but a text").is_err());
        for body in [&b"{}"[..], b"", b"\x1fx"] {
            assert_eq!(unzipped(body.to_vec(), 100), body);
        }
    }
}
