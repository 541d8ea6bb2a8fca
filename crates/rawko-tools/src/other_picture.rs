//! Names formats of pictures that models do not accept.

/// The name of another picture format, which models do not accept.
pub fn other_format(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'B', b'M', ..] => Some("a BMP picture"),
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Some("a TIFF picture"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', ..] => Some("an AVIF picture"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i', ..] => Some("a HEIC picture"),
        [0, 0, 1, 0, ..] => Some("an icon"),
        _ => None,
    }
}
