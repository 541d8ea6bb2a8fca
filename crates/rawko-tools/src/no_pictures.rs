//! Pictures without the feature `pictures`: known by their first bytes, and not shown.

use rawko_core::error::ErrorCode;
use rawko_core::tool::ToolOutcome;

pub use crate::other_picture::other_format;

/// The name of a format that models accept.
pub fn format(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("PNG"),
        [0xFF, 0xD8, 0xFF, ..] => Some("JPEG"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("GIF"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("WebP"),
        _ => None,
    }
}

/// Says that the picture that `name` refers to cannot be shown.
#[must_use]
pub fn picture(name: &str, _data: &str) -> ToolOutcome {
    unshown(name, "a picture")
}

/// Says that the picture at `path` cannot be shown.
pub fn show(path: &str, format: &str, _bytes: Vec<u8>) -> ToolOutcome {
    unshown(path, &format!("a {format} picture"))
}

fn unshown(name: &str, what: &str) -> ToolOutcome {
    let message = format!(
        "`{name}` is {what}, and this program was built without pictures: the feature `pictures` of the crate `rawko`. \
         It cannot be shown."
    );
    ToolOutcome::error(ErrorCode::ToolFailure, message)
}
