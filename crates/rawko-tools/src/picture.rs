//! Prepares pictures for models: checks them and scales them down if they are too large.
//!
//! Services refuse a whole request because of one picture that they cannot use, so every picture is decoded before a
//! model gets it. The limits are those of the Messages API, the tightest of the large services
//! (<https://platform.claude.com/docs/en/build-with-claude/vision>): 8,000 pixels on a side, 2,000 in a request of more
//! than 20 pictures, and 5 MB in base64 where Bedrock or Vertex AI serve the model. Any conversation may reach 20
//! pictures, so 2,000 always applies; models look at less than that anyway.

use std::io::Cursor;

use base64::Engine as _;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader};
use rawko_core::error::ErrorCode;
use rawko_core::message::Image;
use rawko_core::tool::ToolOutcome;

pub use crate::other_picture::other_format;

/// The most pixels on a side.
const MAX_SIDE: u32 = 2_000;
/// The most bytes before base64, which adds a third.
const MAX_BYTES: usize = 3_750_000;
/// The most pixels that are decoded: four bytes each must fit into memory.
const MAX_PIXELS: u64 = 100_000_000;
/// The quality of an encoded JPEG, out of 100.
const QUALITY: u8 = 85;

/// A picture within the limits.
struct Ready {
    format: ImageFormat,
    bytes: Vec<u8>,
    width: u32,
    height: u32,
}

/// The format of a picture that models accept, detected by its first bytes.
pub fn format(bytes: &[u8]) -> Option<ImageFormat> {
    image::guess_format(bytes).ok().filter(|format| {
        matches!(format, ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP)
    })
}

/// A picture that came from outside, in base64, for the model: checked, and scaled down if it is too large; or why it cannot be shown.
/// `name` refers to it in the text.
#[must_use]
pub fn picture(name: &str, data: &str) -> ToolOutcome {
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(data.trim()) else {
        let message = format!("`{name}` is not valid base64. It cannot be shown.");
        return ToolOutcome::error(ErrorCode::ToolFailure, message);
    };
    match format(&bytes) {
        Some(format) => show(name, format, bytes),
        None => {
            let kind = other_format(&bytes).unwrap_or("no picture that models accept");
            ToolOutcome::error(ErrorCode::ToolFailure, format!("`{name}` is {kind}. It cannot be shown."))
        }
    }
}

/// The picture at `path` for the model, or why it cannot be shown.
pub fn show(path: &str, format: ImageFormat, bytes: Vec<u8>) -> ToolOutcome {
    show_within(MAX_BYTES, path, format, bytes)
}

fn show_within(max_bytes: usize, path: &str, format: ImageFormat, bytes: Vec<u8>) -> ToolOutcome {
    let kind = name(format);
    let failed = |why: String| ToolOutcome::error(ErrorCode::ToolFailure, format!("`{path}` {why}"));
    let damaged = |error: &ImageError| {
        failed(format!("begins like a {kind} picture, but it is damaged and cannot be shown: {error}."))
    };
    let size = bytes.len();
    let (width, height) = match dimensions(format, &bytes) {
        Ok(dimensions) => dimensions,
        Err(error) => return damaged(&error),
    };
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return failed(format!(
            "is a {kind} picture of {width}x{height} pixels, too many to be scaled down here. Make a copy of at \
             most {MAX_SIDE} pixels on a side and read that."
        ));
    }
    let picture = match decode(format, &bytes) {
        Ok(picture) => picture,
        Err(error) => return damaged(&error),
    };
    if format == ImageFormat::Jpeg && is_cut_off(&bytes) {
        return failed("is a JPEG picture that is cut off in the middle. It cannot be shown.".into());
    }
    let fits = width.max(height) <= MAX_SIDE && size <= max_bytes;
    let ready = if fits {
        Some(Ready { format, bytes, width, height })
    } else {
        smaller(max_bytes, format, &picture)
    };
    let Some(ready) = ready else {
        return failed(format!(
            "is a {kind} picture of {width}x{height} pixels that cannot be made small enough."
        ));
    };
    let mut text = format!("`{path}`: {}, {width}x{height} pixels, {size} bytes.", format.to_mime_type());
    if ImageFormat::from_path(path).is_ok_and(|named| named != format) {
        text.push_str(&format!(" Its name is wrong: it is a {kind} picture."));
    }
    if !fits {
        text.push_str(&format!(
            " Shown as {} of {}x{} pixels, because it is too large.",
            name(ready.format),
            ready.width,
            ready.height
        ));
    }
    let data = base64::engine::general_purpose::STANDARD.encode(&ready.bytes);
    let image = Image { media_type: ready.format.to_mime_type().to_owned(), data };
    ToolOutcome { images: vec![image], ..ToolOutcome::ok(text) }
}

fn reader(format: ImageFormat, bytes: &[u8]) -> ImageReader<Cursor<&[u8]>> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    // `show_within` limits the number of pixels instead, with a better message.
    reader.no_limits();
    reader
}

fn dimensions(format: ImageFormat, bytes: &[u8]) -> Result<(u32, u32), ImageError> {
    reader(format, bytes).into_dimensions()
}

/// Decodes the picture and turns it upright. Takes the first frame of an animation.
fn decode(format: ImageFormat, bytes: &[u8]) -> Result<DynamicImage, ImageError> {
    let mut decoder = reader(format, bytes).into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut picture = DynamicImage::from_decoder(decoder)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

/// Scales the picture down: as PNG if it was not a JPEG and is small enough then, otherwise as JPEG.
fn smaller(max_bytes: usize, format: ImageFormat, picture: &DynamicImage) -> Option<Ready> {
    [MAX_SIDE, MAX_SIDE * 3 / 4, MAX_SIDE / 2].into_iter().find_map(|side| {
        let scaled = if picture.width().max(picture.height()) > side {
            picture.resize(side, side, FilterType::Triangle)
        } else {
            picture.clone()
        };
        let formats =
            [ImageFormat::Png, ImageFormat::Jpeg].into_iter().skip(usize::from(format == ImageFormat::Jpeg));
        let mut encoded = formats.filter_map(|format| Some((format, encode(&scaled, format)?)));
        let (format, bytes) = encoded.find(|(_, bytes)| bytes.len() <= max_bytes)?;
        Some(Ready { format, bytes, width: scaled.width(), height: scaled.height() })
    })
}

fn encode(picture: &DynamicImage, format: ImageFormat) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let encoded = if format == ImageFormat::Jpeg {
        // JPEG has no transparency and at most eight bits.
        picture.to_rgb8().write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, QUALITY))
    } else {
        picture.write_to(&mut Cursor::new(&mut bytes), format)
    };
    encoded.ok().map(|()| bytes)
}

/// Whether the end of a JPEG is missing. Decoders fill the rest with grey; services refuse it.
fn is_cut_off(bytes: &[u8]) -> bool {
    const SCAN: u8 = 0xDA;
    let mut at = 2;
    // The segments before the scan hold their length. Within the scan only the real end marker looks like one.
    while let Some([0xFF, marker, high, low]) = bytes.get(at..at + 4) {
        if *marker == SCAN {
            return memchr::memmem::find(&bytes[at..], b"\xFF\xD9").is_none();
        }
        at += 2 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    false
}

fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Gif => "GIF",
        ImageFormat::WebP => "WebP",
        _ => "picture",
    }
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
