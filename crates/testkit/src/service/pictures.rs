//! Pictures: what can be decoded, how large each may be, and how many a request may contain.
//!
//! Limits: <https://platform.claude.com/docs/en/build-with-claude/vision> and
//! <https://platform.openai.com/docs/guides/images-vision>. Words: of the Messages API
//! <https://github.com/anthropics/claude-code/issues/1747>, `/14201`, `/4778`, `/13480`, `/23392` there; of Chat
//! Completions <https://github.com/jam3scampbell/ProctorAI/issues/7>.

use std::io::Cursor;

use base64::Engine as _;
use image::ImageReader;
use serde_json::Value;

use crate::answer::Answer;
use crate::exchange::{Asked, Wire};

/// The most bytes of a request to the Messages API.
const MAX_REQUEST: usize = 32 * 1024 * 1024;
/// The most bytes of a picture in base64, where Bedrock and Vertex AI serve the model.
const MAX_BASE64: usize = 5 * 1024 * 1024;
const MAX_SIDE: u32 = 8_000;
/// With more pictures than this the sides may only have [`MANY_SIDE`] pixels.
const MANY: usize = 20;
const MANY_SIDE: u32 = 2_000;
/// The most pictures in a request, for models with a window of 200,000 tokens.
const MAX_COUNT: usize = 100;
const MAX_COUNT_OPENAI: usize = 500;

pub(super) fn refusal(asked: &Asked) -> Option<Answer> {
    let mut pictures = Vec::new();
    let messages = asked.wire.messages_field();
    find(&asked.json[messages], messages, &mut pictures);
    match asked.wire {
        Wire::Claude => claude(asked, &pictures),
        Wire::OpenAi | Wire::Responses => openai(&pictures),
    }
}

/// A picture of a request.
struct RequestPicture<'a> {
    /// Its position as the Messages API writes it.
    place: String,
    media_type: &'a str,
    data: &'a str,
}

fn claude(asked: &Asked, pictures: &[RequestPicture<'_>]) -> Option<Answer> {
    let invalid = |message: String| Some(Answer::refuse(400, "invalid_request_error", message));
    if asked.body.len() > MAX_REQUEST {
        return Some(Answer::refuse(413, "request_too_large", "Request exceeds the maximum size"));
    }
    if pictures.len() > MAX_COUNT {
        return invalid(format!("too many images and documents: {} + 0 > {MAX_COUNT}", pictures.len()));
    }
    for RequestPicture { place, media_type, data } in pictures {
        let place = format!("{place}.source.base64");
        if data.len() > MAX_BASE64 {
            return invalid(format!(
                "{place}: image exceeds 5 MB maximum: {} bytes > {MAX_BASE64} bytes",
                data.len()
            ));
        }
        let Some((found, side)) = look(data) else { return invalid("Could not process image".into()) };
        if found != *media_type {
            return invalid(format!(
                "{place}: The image was specified using the {media_type} media type, but the image appears to be a {found} image"
            ));
        }
        if side > MAX_SIDE {
            return invalid(format!(
                "{place}.data: At least one of the image dimensions exceed max allowed size: {MAX_SIDE} pixels"
            ));
        }
        if pictures.len() > MANY && side > MANY_SIDE {
            return invalid(format!(
                "{place}.data: At least one of the image dimensions exceed max allowed size for many-image requests: {MANY_SIDE} pixels"
            ));
        }
    }
    None
}

fn openai(pictures: &[RequestPicture<'_>]) -> Option<Answer> {
    if pictures.len() > MAX_COUNT_OPENAI {
        let message = format!("Too many images in request. Max is {MAX_COUNT_OPENAI}.");
        return Some(Answer::refuse(400, "invalid_request_error", message));
    }
    let is_bad = |picture: &RequestPicture<'_>| look(picture.data).is_none();
    pictures.iter().any(is_bad).then(|| {
        Answer::refuse(
            400,
            "invalid_image_format",
            "You uploaded an unsupported image. Please make sure your image is below 20 MB in size and is of one \
             the following formats: ['png', 'jpeg', 'gif', 'webp'].",
        )
    })
}

/// Media type and longer side of a picture, if it is valid.
fn look(data: &str) -> Option<(&'static str, u32)> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let media_type = reader.format()?.to_mime_type();
    let (width, height) = reader.into_dimensions().ok()?;
    Some((media_type, width.max(height)))
}

/// Collects all pictures under `value`, in order.
fn find<'a>(value: &'a Value, place: &str, found: &mut Vec<RequestPicture<'a>>) {
    let source = value
        .get("source")
        .and_then(|source| Some((source.get("media_type")?.as_str()?, source.get("data")?.as_str()?)));
    // An object over Chat Completions, a text over Responses.
    let url = value.get("image_url").and_then(|url| url.get("url").unwrap_or(url).as_str());
    if let Some((media_type, data)) = source.or_else(|| url?.strip_prefix("data:")?.split_once(";base64,")) {
        found.push(RequestPicture { place: format!("{place}.image"), media_type, data });
        return;
    }
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| find(item, &format!("{place}.{at}"), found));
        }
        Value::Object(_) => {
            let content = value.get("content").or_else(|| value.get("output")).unwrap_or(&Value::Null);
            let kind = if value.get("tool_use_id").is_some() { ".tool_result" } else { "" };
            find(content, &format!("{place}{kind}.content"), found);
        }
        _ => {}
    }
}
