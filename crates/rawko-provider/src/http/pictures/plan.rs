//! Decides how many pictures fit into a request.
//!
//! The limits are the tightest that a large service documents: those of the Messages API
//! (<https://platform.claude.com/docs/en/build-with-claude/vision>) for models with a window of 200,000 tokens. `OpenAI`
//! accepts more (<https://platform.openai.com/docs/guides/images-vision>). Tighter limits are learnt from refusals.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::{PictureInfo, PictureLimits, PicturePosition};

/// The most pictures in a request.
const MOST: usize = 100;

/// The most bytes in base64 of all pictures in a request. A request may have 32 MB, 20 MB on Amazon Bedrock
/// (<https://platform.claude.com/docs/en/api/overview#request-size-limits>); the rest is for the conversation.
const MOST_BYTES: usize = 16_000_000;

/// With more pictures than this, no side may have more than [`MANY_SIDE`] pixels.
const MANY: usize = 20;
const MANY_SIDE: u32 = 2_000;

/// Why a picture is left out. The text is for the model and must not vary between requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OmissionReason {
    /// A server refused it with this message.
    Refused(String),
    /// The model accepts no pictures.
    NotTaken,
    /// Newer pictures need the space.
    Older,
    /// It is too large for a request of many pictures.
    TooLarge(u32),
}

impl fmt::Display for OmissionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(words) => write!(f, "the model's server refused it ({words})"),
            Self::NotTaken => f.write_str("you cannot be shown pictures"),
            Self::Older => f.write_str(
                "only the latest pictures can be shown; repeat the call if you still need this one",
            ),
            Self::TooLarge(side) => write!(
                f,
                "its longer side has {side} pixels, and in a request of more than {MANY} pictures only {MANY_SIDE} are allowed"
            ),
        }
    }
}

/// Which of `pictures`, in order of their appearance, a request leaves out.
///
/// Leaves out the oldest ones. If there are too many, leaves out half of them at once, so that the next requests need not
/// change their beginning again.
pub(super) fn plan(
    pictures: &[PictureInfo],
    limits: &PictureLimits,
) -> BTreeMap<PicturePosition, OmissionReason> {
    let mut left_out = BTreeMap::new();
    let most = limits.most.unwrap_or(MOST).min(MOST);
    let mut shown: VecDeque<&PictureInfo> = VecDeque::new();
    let mut bytes = 0;
    for picture in pictures {
        if let Some(words) = limits.refused.get(&picture.hash) {
            left_out.insert(picture.place, OmissionReason::Refused(words.clone()));
            continue;
        }
        if most == 0 {
            left_out.insert(picture.place, OmissionReason::NotTaken);
            continue;
        }
        shown.push_back(picture);
        bytes += picture.bytes;
        if shown.len() <= most && bytes <= MOST_BYTES {
            continue;
        }
        while shown.len() > 1 && (shown.len() > most.div_ceil(2) || bytes > MOST_BYTES / 2) {
            let Some(oldest) = shown.pop_front() else { break };
            bytes -= oldest.bytes;
            left_out.insert(oldest.place, OmissionReason::Older);
        }
    }
    if shown.len() > MANY {
        let is_large = |side: &u32| *side > MANY_SIDE;
        let large = shown.iter().filter_map(|picture| Some((picture.place, picture.side.filter(is_large)?)));
        left_out.extend(large.map(|(place, side)| (place, OmissionReason::TooLarge(side))));
    }
    left_out
}
