//! Pictures for tests.

use std::io::Cursor;

use base64::Engine as _;
use image::{ImageFormat, RgbImage};

/// A valid PNG of this size, of one colour.
///
/// # Panics
/// If it cannot be encoded, which does not happen in memory.
#[must_use]
pub fn png(width: u32, height: u32) -> Vec<u8> {
    encoded(width, height, ImageFormat::Png)
}

/// A valid JPEG of this size, of one colour.
///
/// # Panics
/// If it cannot be encoded, which does not happen in memory.
#[must_use]
pub fn jpeg(width: u32, height: u32) -> Vec<u8> {
    encoded(width, height, ImageFormat::Jpeg)
}

/// Bytes in base64, as in a request.
#[must_use]
pub fn in_base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[allow(clippy::expect_used)]
fn encoded(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let picture = RgbImage::from_pixel(width, height, image::Rgb([90, 120, 200]));
    picture.write_to(&mut bytes, format).expect("memory does not run full");
    bytes.into_inner()
}
