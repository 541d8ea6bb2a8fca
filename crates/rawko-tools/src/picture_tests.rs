use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;

fn written(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).expect("a picture");
    bytes.into_inner()
}

fn plain(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    written(RgbImage::from_pixel(width, height, Rgb([9, 99, 199])), format)
}

/// A picture that compresses badly.
fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = state.to_be_bytes();
        Rgb([a, b, c])
    })
}

/// What the model gets: text, and media type and size of the picture.
fn shown(path: &str, bytes: Vec<u8>) -> (String, Option<(String, u32, u32)>) {
    seen(show(path, format(&bytes).expect("a picture"), bytes))
}

fn seen(outcome: ToolOutcome) -> (String, Option<(String, u32, u32)>) {
    let picture = outcome.images.first().map(|image| {
        assert!(image.data.len() <= 5 * 1024 * 1024, "{} bytes in base64", image.data.len());
        let bytes = base64::engine::general_purpose::STANDARD.decode(&image.data).expect("base64");
        let picture = image::load_from_memory(&bytes).expect("a valid picture");
        assert_eq!(format(&bytes).map(|f| f.to_mime_type()), Some(image.media_type.as_str()));
        (image.media_type.clone(), picture.width(), picture.height())
    });
    assert_eq!(outcome.is_error, picture.is_none(), "{}", outcome.content);
    (outcome.content, picture)
}

#[track_caller]
fn check(path: &str, bytes: Vec<u8>, media_type: &str, width: u32, height: u32, text: &str) {
    let (said, picture) = shown(path, bytes);
    assert_eq!(picture, Some((media_type.to_owned(), width, height)), "{said}");
    assert!(said.contains(text), "{said:?} lacks {text:?}");
}

#[test]
fn pictures_that_services_take_are_shown_as_they_are() {
    for (format, path, media_type) in [
        (ImageFormat::Png, "a.png", "image/png"),
        (ImageFormat::Jpeg, "a.jpeg", "image/jpeg"),
        (ImageFormat::Gif, "a.gif", "image/gif"),
        (ImageFormat::WebP, "a.webp", "image/webp"),
    ] {
        let bytes = plain(40, 30, format);
        let text = format!("`{path}`: {media_type}, 40x30 pixels, {} bytes.", bytes.len());
        check(path, bytes, media_type, 40, 30, &text);
    }
    check("a.png", plain(2_000, 4, ImageFormat::Png), "image/png", 2_000, 4, "2000x4 pixels");
}

#[test]
fn pictures_that_are_too_large_are_scaled_down() {
    let shown = "Shown as PNG of 2000x10 pixels, because it is too large.";
    check("wide.png", plain(8_200, 41, ImageFormat::Png), "image/png", 2_000, 10, shown);
    check("high.jpg", plain(6, 3_000, ImageFormat::Jpeg), "image/jpeg", 4, 2_000, "Shown as JPEG of 4x2000");
    check("wide.gif", plain(2_500, 5, ImageFormat::Gif), "image/png", 2_000, 4, "Shown as PNG of 2000x4");
    let clear = RgbaImage::from_pixel(2_400, 12, Rgba([1, 2, 3, 0]));
    check("clear.webp", written(clear, ImageFormat::WebP), "image/png", 2_000, 10, "Shown as PNG");
}

#[test]
fn pictures_of_too_many_bytes_become_jpegs_and_then_smaller() {
    let heavy = written(noise(120, 100), ImageFormat::Png);
    for (max_bytes, text) in [
        (30_000, "Shown as JPEG of 120x100 pixels"),
        (heavy.len(), "120x100 pixels, "),
        (100, "is a PNG picture of 120x100 pixels that cannot be made small enough."),
    ] {
        let (said, picture) = seen(show_within(max_bytes, "noise.png", ImageFormat::Png, heavy.clone()));
        assert!(said.contains(text), "{said}");
        assert_eq!(said.contains("Shown as"), max_bytes == 30_000, "{said}");
        assert_eq!(picture.is_some(), max_bytes > 100, "{said}");
    }
}

#[test]
fn the_real_format_counts_and_not_the_name() {
    let note = "Its name is wrong: it is a JPEG picture.";
    check("photo.png", plain(8, 8, ImageFormat::Jpeg), "image/jpeg", 8, 8, note);
    let (said, _) = shown("no-name", plain(8, 8, ImageFormat::Jpeg));
    assert!(!said.contains("name is wrong"), "{said}");
}

#[test]
fn broken_pictures_are_refused_with_the_reason() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let whole = written(noise(60, 60), format);
        for kept in [whole.len() / 2, 30] {
            let (said, picture) = shown("cut", whole[..kept].to_vec());
            assert_eq!(picture, None, "{format:?} {kept}");
            assert!(said.contains("damaged") || said.contains("cut off"), "{said}");
        }
    }
    let (said, _) = shown("p.png", b"\x89PNG\r\n\x1a\nrest".to_vec());
    assert!(
        said.starts_with("`p.png` begins like a PNG picture, but it is damaged and cannot be shown:"),
        "{said}"
    );
}

#[test]
fn a_picture_that_would_fill_the_memory_is_not_decoded() {
    let mut huge = plain(1, 1, ImageFormat::Png);
    // Width and height follow the signature and the header of the first chunk; the checksum follows them.
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let checksum = crc(&huge[12..29]);
    huge[29..33].copy_from_slice(&checksum.to_be_bytes());
    let (said, picture) = shown("bomb.png", huge);
    assert_eq!(picture, None);
    assert!(said.contains("65536x65536 pixels, too many"), "{said}");
}

/// The checksum of a PNG's chunk.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
            },
        )
    })
}

#[test]
fn other_formats_are_named() {
    assert_eq!(format(b"BM\0\0"), None);
    assert_eq!(other_format(b"BM\0\0"), Some("a BMP picture"));
    assert_eq!(other_format(b"\0\0\0\x20ftypheic"), Some("a HEIC picture"));
    assert_eq!(format(b"RIFF....WAVEfmt "), None);
    assert_eq!(other_format(b"RIFF....WAVEfmt "), None);
}
