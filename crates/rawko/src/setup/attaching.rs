//! Makes an attachment of the bytes that a user gives with a task.

use rawko_core::attachment::Attachment;
use rawko_core::text::keep_ends;

/// The most bytes of a text that agents are shown. Of a longer one they see the beginning and the end.
pub const MAX_ATTACHED_TEXT: usize = 128 * 1024;

/// Bytes of which agents can be shown nothing.
#[derive(Debug, thiserror::Error)]
pub enum NotAttached {
    /// Neither text nor a picture.
    #[error("`{name}` is {what}, and neither UTF-8 text nor a PNG, JPEG, GIF or WebP picture")]
    Kind {
        /// The attachment.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// A picture that cannot be used.
    #[error("{0}")]
    Picture(String),
}

/// The attachment for these bytes: a picture within the limits of models, or bounded text.
///
/// # Errors
/// [`NotAttached`] if they are neither text nor a picture, or a damaged one.
pub fn attachment(name: &str, bytes: Vec<u8>) -> Result<Attachment, NotAttached> {
    let name = name.to_owned();
    if let Some(format) = rawko_tools::picture::format(&bytes) {
        let shown = rawko_tools::picture::show(&name, format, bytes);
        return match shown.images.into_iter().next() {
            Some(image) => Ok(Attachment { name, text: shown.content, image: Some(image) }),
            None => Err(NotAttached::Picture(shown.content)),
        };
    }
    let what = rawko_tools::picture::other_format(&bytes).unwrap_or("binary data");
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            let text = keep_ends(text.trim_end(), MAX_ATTACHED_TEXT);
            Ok(Attachment { name, text, image: None })
        }
        Ok(_) | Err(_) => Err(NotAttached::Kind { name, what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded_and_says_what_was_cut() {
        let long = format!("first\n{}last\n", "x".repeat(2 * MAX_ATTACHED_TEXT));
        let made = attachment("log", long.into_bytes()).unwrap();
        assert!(made.text.len() < MAX_ATTACHED_TEXT + 100 && made.image.is_none());
        assert!(made.text.starts_with("first") && made.text.ends_with("last"), "both ends are kept");
        assert!(made.text.contains("bytes cut"), "{}", &made.text[MAX_ATTACHED_TEXT / 2 - 50..][..150]);
    }

    #[test]
    fn what_no_model_can_be_shown_is_refused_by_name() {
        for (bytes, part) in [
            (&b"a\0b"[..], "binary data"),
            (&[0xff, 0xfe, 1], "neither UTF-8 text"),
            (b"BM\xff\xff", "a BMP picture"),
            (b"\x89PNG\r\n\x1a\nbroken", "damaged"),
        ] {
            let error = attachment("x", bytes.to_vec()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("`x`"), "{error}");
        }
    }
}
