//! Decides which pictures of a conversation a request contains.
//!
//! Owns the limits on all pictures of a request ([`plan`]), and what is learnt when a server refuses a picture
//! ([`refusal`]). A line of text in the tool result replaces a picture that is left out; the conversation itself does not
//! change. The choice depends only on the conversation and on what was learnt, and changes rarely, so that requests keep
//! beginning with the bytes of the one before. The tool that reads a picture enforces the limits on single pictures.

mod plan;
mod refusal;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use rawko_core::message::{Content, Image, Message};
use rawko_core::text::truncate;

use plan::{OmissionReason, plan};
use refusal::PictureRefusal;

/// The most characters of a server's message that are shown to the model.
const MAX_WORDS: usize = 200;

/// The most pictures that a warning names.
const MAX_NAMES: usize = 5;

/// The position of a picture: message, block of its content, and index among the block's pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PicturePosition {
    message: usize,
    block: usize,
    image: usize,
}

/// What the choice depends on.
#[derive(Debug, Clone, Copy)]
struct PictureInfo {
    place: PicturePosition,
    /// Identifies the content: a picture that is read again is refused again.
    hash: u64,
    /// Size in base64.
    bytes: usize,
    /// Pixels of the longer side; `None` if it cannot be read.
    side: Option<u32>,
}

/// The picture that a refusal names, by its position in the messages as they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedPicture {
    pub(crate) message: usize,
    /// The block and the index of the picture in it; `None` if only the message is known.
    pub(crate) picture: Option<(usize, usize)>,
}

/// What was learnt about the pictures that a model accepts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PictureLimits {
    /// Pictures that were refused, by their hash, with the server's message.
    refused: HashMap<u64, String>,
    /// The most pictures in a request, if the model accepts fewer than usual.
    most: Option<usize>,
}

/// What was learnt so far, by model. Shared by all sessions of a provider.
#[derive(Debug, Default)]
pub(crate) struct LearntPictureLimits(Mutex<HashMap<String, PictureLimits>>);

impl LearntPictureLimits {
    pub(crate) fn of(&self, model: &str) -> PictureLimits {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(model).cloned().unwrap_or_default()
    }

    pub(crate) fn add(&self, model: &str, limits: PictureLimits) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = map.entry(model.to_owned()).or_default();
        known.refused.extend(limits.refused);
        known.most = [known.most, limits.most].into_iter().flatten().min();
    }
}

/// The pictures of a session's conversation.
#[derive(Debug, Default)]
pub(crate) struct ConversationPictures {
    seen: Vec<ShownMessage>,
    /// The number of messages that a server has accepted with their pictures.
    accepted: usize,
    /// The number of messages that the last two requests had in common at their beginning.
    kept: usize,
    /// The first message that the last request sent in another form than the server had accepted.
    changed: Option<usize>,
}

/// A message, and the form in which it is sent.
#[derive(Debug)]
struct ShownMessage {
    message: Arc<Message>,
    pictures: Vec<PictureInfo>,
    left_out: BTreeMap<PicturePosition, OmissionReason>,
    /// The message without the pictures that are left out.
    shown: Arc<Message>,
}

impl ConversationPictures {
    /// `messages` in the form in which they are sent. A message whose form does not change keeps its pointer.
    pub(crate) fn show<'a>(
        &mut self,
        messages: &'a [Arc<Message>],
        limits: &PictureLimits,
    ) -> Cow<'a, [Arc<Message>]> {
        let kept = self.seen.iter().zip(messages).take_while(|(a, b)| Arc::ptr_eq(&a.message, b)).count();
        self.seen.truncate(kept);
        self.accepted = self.accepted.min(kept);
        self.kept = kept;
        self.changed = None;
        self.seen.extend((kept..).zip(&messages[kept..]).map(|(at, message)| ShownMessage::new(at, message)));
        let pictures: Vec<PictureInfo> =
            self.seen.iter().flat_map(|seen| seen.pictures.iter().copied()).collect();
        if pictures.is_empty() {
            return Cow::Borrowed(messages);
        }
        let plan = plan(&pictures, limits);
        for (at, seen) in self.seen.iter_mut().enumerate().filter(|(_, seen)| !seen.pictures.is_empty()) {
            if seen.leave_out(&plan) && at < self.accepted {
                self.changed = self.changed.or(Some(at));
            }
        }
        Cow::Owned(self.seen.iter().map(|seen| Arc::clone(&seen.shown)).collect())
    }

    /// The number of messages that the last two requests had in common at their beginning.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// The first message that the last request sent in another form than the server had accepted.
    pub(crate) fn changed(&self) -> Option<usize> {
        self.changed
    }

    /// The server has accepted the request, so a later refusal is rather about other pictures.
    pub(crate) fn accept(&mut self) {
        self.accepted = self.seen.len();
    }

    /// The number of pictures in the last request, and their bytes in base64.
    pub(crate) fn weight(&self) -> (usize, usize) {
        self.shown().fold((0, 0), |(count, bytes), picture| (count + 1, bytes + picture.bytes))
    }

    /// What a refusal of the last request teaches about pictures, and which pictures it is about, for people. `named`
    /// finds the picture that the refusal names in the messages as they were sent.
    pub(crate) fn learn(
        &self,
        words: &str,
        named: impl FnOnce(&[Arc<Message>]) -> Option<NamedPicture>,
    ) -> Option<(PictureLimits, String)> {
        let shown: Vec<PictureInfo> = self.shown().copied().collect();
        if shown.is_empty() {
            return None;
        }
        match PictureRefusal::of(words, shown.len())? {
            PictureRefusal::TooMany(most) => {
                let which = if most == 0 { "any picture" } else { "older pictures" };
                Some((PictureLimits { most: Some(most), ..PictureLimits::default() }, which.to_owned()))
            }
            PictureRefusal::OnePicture => {
                let messages: Vec<Arc<Message>> = self.seen.iter().map(|s| Arc::clone(&s.shown)).collect();
                let blamed = self.suspects(shown, named(&messages));
                let mut names: Vec<String> =
                    blamed.iter().take(MAX_NAMES).map(|picture| self.name(picture.place)).collect();
                if blamed.len() > MAX_NAMES {
                    names.push(format!("and {} more", blamed.len() - MAX_NAMES));
                }
                let words = truncate(words, MAX_WORDS);
                let refused = blamed.iter().map(|picture| (picture.hash, words.clone())).collect();
                Some((PictureLimits { refused, most: None }, names.join(", ")))
            }
        }
    }

    /// The pictures to leave out: the one that is named, else those that no server has accepted yet, else all.
    fn suspects(&self, shown: Vec<PictureInfo>, named: Option<NamedPicture>) -> Vec<PictureInfo> {
        let is_named = |picture: &PictureInfo| {
            named.is_some_and(|named| {
                let place = picture.place;
                let before = |other: &&PictureInfo| {
                    (other.place.message, other.place.block) == (place.message, place.block)
                        && other.place.image < place.image
                };
                let at = (place.block, shown.iter().filter(before).count());
                place.message == named.message && named.picture.is_none_or(|picture| picture == at)
            })
        };
        let is_new = |picture: &PictureInfo| picture.place.message >= self.accepted;
        let choose = |wanted: &dyn Fn(&PictureInfo) -> bool| -> Vec<PictureInfo> {
            shown.iter().copied().filter(wanted).collect()
        };
        let found = [choose(&is_named), choose(&is_new)].into_iter().find(|found| !found.is_empty());
        found.unwrap_or(shown)
    }

    /// The pictures in the last request.
    fn shown(&self) -> impl Iterator<Item = &PictureInfo> {
        self.seen.iter().flat_map(|seen| {
            seen.pictures.iter().filter(|picture| !seen.left_out.contains_key(&picture.place))
        })
    }

    /// A description for people: the call that returned the picture, and the file if the call names one.
    fn name(&self, place: PicturePosition) -> String {
        let block = self.seen.get(place.message).and_then(|seen| seen.message.content.get(place.block));
        let Some(Content::ToolResult { tool_use_id, .. }) = block else {
            return "a picture that was given with the task".to_owned();
        };
        let mut calls = self.seen.iter().flat_map(|seen| seen.message.tool_calls());
        let Some(call) = calls.find(|call| call.id == *tool_use_id) else {
            return format!("a picture of call {tool_use_id}");
        };
        let path = ["file_path", "path"].iter().find_map(|key| call.input.get(*key)?.as_str());
        match path {
            Some(path) => format!("`{}` ({} {tool_use_id})", truncate(path, MAX_WORDS), call.name),
            None => format!("a picture of {} {tool_use_id}", call.name),
        }
    }
}

impl ShownMessage {
    fn new(at: usize, message: &Arc<Message>) -> Self {
        let mut pictures = Vec::new();
        for (block, content) in message.content.iter().enumerate() {
            let images = match content {
                Content::ToolResult { images, .. } => images.as_slice(),
                Content::Image(image) => std::slice::from_ref(image),
                _ => &[],
            };
            let places = (0..).map(|image| PicturePosition { message: at, block, image });
            pictures.extend(places.zip(images).map(|(place, image)| PictureInfo::new(place, image)));
        }
        let (message, shown) = (Arc::clone(message), Arc::clone(message));
        Self { message, pictures, left_out: BTreeMap::new(), shown }
    }

    /// Leaves out the pictures that `plan` contains. Returns `false` if nothing changes.
    fn leave_out(&mut self, plan: &BTreeMap<PicturePosition, OmissionReason>) -> bool {
        let planned = |picture: &PictureInfo| Some((picture.place, plan.get(&picture.place)?.clone()));
        let left_out: BTreeMap<PicturePosition, OmissionReason> =
            self.pictures.iter().filter_map(planned).collect();
        if left_out == self.left_out {
            return false;
        }
        self.shown = if left_out.is_empty() {
            Arc::clone(&self.message)
        } else {
            Arc::new(without(&self.message, &left_out))
        };
        self.left_out = left_out;
        true
    }
}

/// `message` with a line of text for each picture that is left out.
fn without(message: &Message, left_out: &BTreeMap<PicturePosition, OmissionReason>) -> Message {
    let mut message = message.clone();
    // From the end, so that the positions of the others do not change.
    for place in left_out.keys().rev() {
        if let Some(Content::ToolResult { images, .. }) = message.content.get_mut(place.block)
            && place.image < images.len()
        {
            images.remove(place.image);
        }
    }
    for (place, why) in left_out {
        match message.content.get_mut(place.block) {
            Some(Content::ToolResult { content, .. }) => {
                content.push_str(&format!("\n[A picture is left out here: {why}.]"));
            }
            Some(block @ Content::Image(_)) => {
                *block = Content::text(format!("[A picture is left out here: {why}.]"));
            }
            Some(_) | None => {}
        }
    }
    message
}

impl PictureInfo {
    fn new(place: PicturePosition, image: &Image) -> Self {
        let mut hasher = DefaultHasher::new();
        image.data.hash(&mut hasher);
        Self { place, hash: hasher.finish(), bytes: image.data.len(), side: longer_side(image) }
    }
}

/// Pixels of the longer side.
#[cfg(feature = "pictures")]
fn longer_side(image: &Image) -> Option<u32> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(&image.data).ok()?;
    let reader = image::ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format().ok()?;
    let (width, height) = reader.into_dimensions().ok()?;
    Some(width.max(height))
}

/// It is not known: the server says whether the picture is too large.
#[cfg(not(feature = "pictures"))]
fn longer_side(_: &Image) -> Option<u32> {
    None
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
