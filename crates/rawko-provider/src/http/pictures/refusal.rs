//! Recognises refusals of pictures.

/// Why a server refused the pictures of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PictureRefusal {
    /// It cannot use one of them.
    OnePicture,
    /// There are too many; this is the limit.
    TooMany(usize),
}

/// Phrases of refusals about pictures, in lower case.
const ABOUT_PICTURES: &[&str] = &["image", "too much media", "multimodal", "mmproj"];

/// Phrases for a model that accepts no pictures: OpenRouter, llama.cpp, vLLM, DeepSeek.
const NONE_TAKEN: &[&str] = &[
    "support image input",
    "support images",
    "image input is not supported",
    "not a multimodal model",
    "mmproj",
    "unknown variant `image_url`",
];

/// Phrases for too many pictures: the Messages API (<https://github.com/anthropics/claude-code/issues/23392>, `/24541`
/// there), vLLM (<https://github.com/vllm-project/vllm/issues/13397>), Groq, Azure.
const TOO_MANY: &[&str] =
    &["too many images", "too much media", "image(s) may be provided", "images allowed"];

impl PictureRefusal {
    /// Interprets the refusal of a request with `shown` pictures; `None` if it is not about pictures.
    pub(super) fn of(words: &str, shown: usize) -> Option<Self> {
        let words = words.to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        if !says(ABOUT_PICTURES) {
            return None;
        }
        if says(NONE_TAKEN) {
            return Some(Self::TooMany(0));
        }
        if says(TOO_MANY) {
            // "too many images and documents: 104 + 1 > 100": the limit is the largest number below what was sent.
            let numbers = words.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
            let limit = numbers.filter(|number| *number < shown).max();
            return Some(Self::TooMany(limit.unwrap_or(shown / 2)));
        }
        Some(Self::OnePicture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, shown: usize, expected: Option<PictureRefusal>) {
        assert_eq!(PictureRefusal::of(words, shown), expected, "{words}");
    }

    #[test]
    fn refusals_of_pictures_are_understood_in_the_words_of_the_servers() {
        let (picture, number) =
            (Some(PictureRefusal::OnePicture), |most| Some(PictureRefusal::TooMany(most)));
        check("Could not process image", 1, picture);
        check(
            "messages.3.content.0.tool_result.content.1.image.source.base64: image exceeds 5 MB maximum: 5649924 bytes > 5242880 bytes",
            1,
            picture,
        );
        check(
            "You uploaded an unsupported image. Please make sure your image is below 20 MB in size",
            3,
            picture,
        );
        check("The image data you provided does not represent a valid image.", 3, picture);
        check("too many images and documents: 104 + 1 > 100", 104, number(100));
        check("Too much media: 0 document pages + 107 images > 100", 107, number(100));
        check("At most 5 image(s) may be provided in one request.", 9, number(5));
        check("Too many images in request. Max is 10.", 12, number(10));
        check("Too many images", 12, number(6));
        check("No endpoints found that support image input", 2, number(0));
        check("This model does not support images.", 2, number(0));
        check("Could not read this image: we support image/png and image/jpeg", 2, picture);
        check("image input is not supported - hint: you may need to provide the mmproj", 2, number(0));
        check("Unexpected role 'user' after role 'tool'", 2, None);
        check("max_tokens: must be at least 1", 2, None);
    }
}
