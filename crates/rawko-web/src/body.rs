//! The bytes of an answer: bounded on the wire and after decompression.

use std::io::{self, Read};

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::Response;
use reqwest::header::CONTENT_ENCODING;

/// What is asked for: small memory, and in the standard library of every server.
pub(crate) const ACCEPTED: &str = "gzip, deflate";

/// The most bytes of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// As they arrive.
    pub(crate) received: usize,
    /// After decompression.
    pub(crate) decoded: usize,
}

/// What was read of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Whether there is more, which was not read.
    pub(crate) is_cut: bool,
}

/// Reads an answer up to the limits.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) async fn read(mut response: Response, limits: BodyLimits) -> Result<Body, String> {
    let encoding = encoding(&response)?;
    let mut bytes = Vec::new();
    let mut is_cut = false;
    while let Some(some) = response.chunk().await.map_err(|error| rawko_provider::http::chain(&error))? {
        let room = limits.received.saturating_sub(bytes.len());
        bytes.extend_from_slice(some.get(..room).unwrap_or(&some));
        if some.len() > room {
            is_cut = true;
            break;
        }
    }
    // The connection ends here if the rest was not read.
    drop(response);
    let Some(encoding) = encoding else { return Ok(Body { bytes, is_cut }) };
    let decoding = move || decoded(&encoding, &bytes, is_cut, limits.decoded);
    tokio::task::spawn_blocking(decoding).await.map_err(|error| error.to_string())?
}

/// The compression of an answer, if it has one.
fn encoding(response: &Response) -> Result<Option<String>, String> {
    let values = response.headers().get_all(CONTENT_ENCODING).iter();
    let words = values.flat_map(|value| value.to_str().unwrap_or("unknown").split(','));
    let mut words = words.map(|word| word.trim().to_ascii_lowercase());
    words.by_ref().find(|word| !word.is_empty() && word != "identity").map_or(Ok(None), |first| {
        if words.any(|word| !word.is_empty() && word != "identity") {
            return Err("the server compressed the answer more than once".to_owned());
        }
        Ok(Some(first))
    })
}

fn decoded(encoding: &str, bytes: &[u8], was_cut: bool, limit: usize) -> Result<Body, String> {
    match encoding {
        "gzip" | "x-gzip" => inflate(MultiGzDecoder::new(bytes), was_cut, limit),
        // Deflate data is in a zlib stream, but not from every server.
        "deflate" => inflate(ZlibDecoder::new(bytes), was_cut, limit)
            .or_else(|_| inflate(DeflateDecoder::new(bytes), was_cut, limit)),
        other => Err(format!(
            "the server compressed the answer by `{}`, which was not asked for",
            rawko_core::text::truncate(other, 40)
        )),
    }
    .map_err(|error| format!("the answer is not what its compression says: {error}"))
}

fn inflate(decoder: impl Read, was_cut: bool, limit: usize) -> Result<Body, String> {
    let mut bytes = Vec::new();
    let more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match decoder.take(more).read_to_end(&mut bytes) {
        Ok(_) => {}
        // The end is missing because it was not read.
        Err(error) if was_cut && error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error.to_string()),
    }
    let is_cut = was_cut || bytes.len() > limit;
    bytes.truncate(limit);
    Ok(Body { bytes, is_cut })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[track_caller]
    fn check(encoding: &str, bytes: &[u8], was_cut: bool, expected: Result<(&[u8], bool), &str>) {
        match (decoded(encoding, bytes, was_cut, 1_000), expected) {
            (Ok(body), Ok((bytes, is_cut))) => {
                assert_eq!((body.bytes.as_slice(), body.is_cut), (bytes, is_cut), "{encoding}");
            }
            (Err(error), Err(words)) => assert!(error.contains(words), "{encoding}: {error}"),
            (found, expected) => panic!("{encoding}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn compression_is_undone_within_bounds() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(b"hello").unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(b"hello").unwrap();
        check("gzip", &gzip(b"hello"), false, Ok((b"hello", false)));
        check("x-gzip", &[gzip(b"hel"), gzip(b"lo")].concat(), false, Ok((b"hello", false)));
        check("deflate", &zlib.finish().unwrap(), false, Ok((b"hello", false)));
        check("deflate", &raw.finish().unwrap(), false, Ok((b"hello", false)));
        check("gzip", &gzip(&[b'x'; 1_001]), false, Ok((&[b'x'; 1_000], true)));
        check("gzip", b"hello", false, Err("not what its compression says"));
        check("gzip", &gzip(b"hello")[..12], false, Err("not what its compression says"));
        check("br", b"hello", false, Err("compressed the answer by `br`"));
    }

    #[test]
    fn a_bomb_takes_no_more_memory_than_is_allowed() {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..16 {
            bomb.write_all(&vec![0; 1024 * 1024]).unwrap();
        }
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 100_000, "16 MiB are {} bytes", bomb.len());
        check("gzip", &bomb, false, Ok((&[0; 1_000], true)));
    }

    #[test]
    fn what_was_cut_is_shown_as_far_as_it_goes() {
        let text: Vec<u8> = (0..900_u32).flat_map(|n| n.to_string().into_bytes()).take(900).collect();
        let whole = gzip(&text);
        let body = decoded("gzip", &whole[..whole.len() - 40], true, 1_000).unwrap();
        assert!(body.is_cut && text.starts_with(&body.bytes), "{body:?}");
    }
}
