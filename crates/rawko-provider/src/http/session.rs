//! One conversation with a provider over HTTP.
//!
//! Owns the bytes of the conversation and the state of its pictures, and decides what a request leaves out after a
//! refusal. [`crate::http::call`] runs a single request.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use rawko_core::error::ErrorCode;
use rawko_core::message::{Image, Message};
use rawko_core::request::{ModelRequest, ToolChoice};
use rawko_core::tool::ToolSpec;
use serde_json::{Map, Value};

use crate::http::call::{HttpCall, Released};
use crate::http::concession::Concessions;
use crate::http::encoded::{EncodedConversation, RequestBody};
use crate::http::failure::AttemptFailure;
use crate::http::pictures::ConversationPictures;
use crate::http::service::ModelService;
use crate::http::wire::WireFormat;
use crate::provider::{EventStream, ProviderSession};

/// One conversation with a provider over HTTP.
pub(crate) struct HttpSession<W> {
    pub(crate) service: Arc<ModelService<W>>,
    pub(crate) pictures: ConversationPictures,
    transcript: EncodedConversation,
    head: Option<RequestHead>,
    /// The number of leading messages sent without signed thinking, because the server refuses it or would do so.
    without_thinking: usize,
    /// Bytes of the last request, where a picture counts with its weight.
    pub(crate) weight: usize,
    /// The task that returns the connection of the last answer to the client.
    pub(crate) released: Option<Released>,
}

/// The part of a request before its messages, with what it was made from.
struct RequestHead {
    model: String,
    system: Arc<str>,
    stable: Option<usize>,
    tools: Arc<[ToolSpec]>,
    choice: ToolChoice,
    max_tokens: u32,
    temperature: Option<f64>,
    extra: Map<String, Value>,
    without: Concessions,
    bytes: Bytes,
    array_begun: bool,
}

impl<W: WireFormat> HttpSession<W> {
    pub(crate) fn new(service: Arc<ModelService<W>>) -> Self {
        Self {
            service,
            pictures: ConversationPictures::default(),
            transcript: EncodedConversation::default(),
            head: None,
            without_thinking: 0,
            weight: 0,
            released: None,
        }
    }

    /// Leaves out all signed thinking that `request` contains, from now on: later thinking is bound to the conversation
    /// without it. Returns `false` if there is none.
    ///
    /// The core drops thinking when it shortens a conversation. This handles what the core cannot know: another account,
    /// a server in between, a fork. All thinking must go, because each block is bound to those before it
    /// (<https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/fix-bound-to-a-different-conversation>).
    pub(crate) fn leave_thinking_out(&mut self, request: &ModelRequest) -> bool {
        if !is_signed(&request.messages, self.without_thinking) {
            return false;
        }
        self.without_thinking = request.messages.len();
        self.transcript = EncodedConversation::default();
        true
    }

    /// The body for `request`. Only encodes what is new in it.
    pub(crate) fn body(
        &mut self,
        request: &ModelRequest,
        without: Concessions,
    ) -> Result<RequestBody, AttemptFailure> {
        self.encode(request, without).map_err(|error| {
            AttemptFailure::permanent(
                ErrorCode::InvalidRequest,
                format!("the request cannot be written as JSON: {error}"),
            )
        })
    }

    fn encode(
        &mut self,
        request: &ModelRequest,
        without: Concessions,
    ) -> Result<RequestBody, serde_json::Error> {
        let wire = &self.service.wire;
        if self.head.as_ref().is_some_and(|head| head.without.of_messages() != without.of_messages()) {
            self.transcript = EncodedConversation::default();
        }
        let head = match self.head.take().filter(|head| head.fits(request, without)) {
            Some(head) => head,
            None => {
                let (bytes, array_begun) = wire.head(request, without)?;
                RequestHead::new(request, without, Bytes::from(bytes), array_begun)
            }
        };
        let head = self.head.insert(head);
        let messages = self.pictures.show(&request.messages, &self.service.picture_limits.of(&request.model));
        // Messages that were replaced no longer count.
        self.without_thinking = self.without_thinking.min(self.pictures.kept());
        // The server would refuse thinking that follows a message which now looks different.
        if let Some(changed) = self.pictures.changed()
            && is_signed(&request.messages, self.without_thinking.max(changed + 1))
        {
            self.without_thinking = request.messages.len();
            self.transcript = EncodedConversation::default();
        }
        let thoughtless = self.without_thinking;
        let encode = |at: usize, message: &Message| {
            let shorter = (at < thoughtless).then(|| message.without_signed_thinking()).flatten();
            wire.message(shorter.as_ref().unwrap_or(message), without)
        };
        let marked = wire.marked(&messages, without)?;
        let body = self.transcript.body(head.bytes.clone(), head.array_begun, &messages, marked, encode)?;
        let (pictures, bytes) = self.pictures.weight();
        self.weight = (body.len() + pictures * Image::WEIGHT).saturating_sub(bytes);
        Ok(body)
    }

    /// Learns from a refusal of `request` what the model does not accept. Returns whether the request changes by it. Each
    /// fact is learnt only once, so this cannot go on forever.
    pub(crate) fn concede(&self, request: &ModelRequest, failure: &mut AttemptFailure) -> bool {
        let is_refusal =
            failure.info.code == ErrorCode::InvalidRequest || matches!(failure.info.status, Some(400 | 422));
        (is_refusal && self.concede_form(request, &failure.info.message))
            || self.concede_picture(request, failure)
    }

    /// Learns to write the request in another way, as these words of a refusal ask.
    fn concede_form(&self, request: &ModelRequest, words: &str) -> bool {
        let ModelService { wire, learnt, .. } = &*self.service;
        let without = wire.known(request).with_all(learnt.of(&request.model));
        let Some(one) = without.asked_by(words) else { return false };
        let more = without.with(one);
        let head = |without| wire.head(request, without).ok();
        let body = |without| -> Vec<_> {
            request.messages.iter().map(|message| wire.message(message, without).ok()).collect()
        };
        let helps = head(without) != head(more)
            || (without.of_messages() != more.of_messages() && body(without) != body(more));
        if helps {
            learnt.add(&request.model, one);
        }
        helps
    }

    /// Leaves out a picture that a refusal names, and adds its name to the message.
    fn concede_picture(&self, request: &ModelRequest, failure: &mut AttemptFailure) -> bool {
        // 404: OpenRouter answers so if no endpoint accepts pictures.
        if !matches!(failure.info.code, ErrorCode::InvalidRequest | ErrorCode::ConfigError) {
            return false;
        }
        let words = &failure.info.message;
        let named = |messages: &[_]| self.service.wire.picture_named(words, messages);
        let Some((limits, left_out)) = self.pictures.learn(words, named) else { return false };
        self.service.picture_limits.add(&request.model, limits);
        failure.info.message = format!("{words}; asking again without {left_out}");
        true
    }
}

impl<W: WireFormat> ProviderSession for HttpSession<W> {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let call = HttpCall::new(self, request);
        futures_util::stream::unfold(
            call,
            |mut call| async move { call.next().await.map(|event| (event, call)) },
        )
        .boxed()
    }
}

/// Whether one of `messages`, starting at `from`, contains thinking that a server signed.
fn is_signed(messages: &[Arc<Message>], from: usize) -> bool {
    messages.iter().skip(from).any(|message| message.without_signed_thinking().is_some())
}

impl RequestHead {
    fn new(request: &ModelRequest, without: Concessions, bytes: Bytes, array_begun: bool) -> Self {
        Self {
            model: request.model.clone(),
            system: Arc::clone(&request.system),
            stable: request.stable,
            tools: Arc::clone(&request.tools),
            choice: request.tool_choice.clone(),
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            extra: request.extra.clone(),
            without,
            bytes,
            array_begun,
        }
    }

    fn fits(&self, request: &ModelRequest, without: Concessions) -> bool {
        Arc::ptr_eq(&self.system, &request.system)
            && self.stable == request.stable
            && Arc::ptr_eq(&self.tools, &request.tools)
            && self.model == request.model
            && self.choice == request.tool_choice
            && self.max_tokens == request.max_tokens
            && self.temperature == request.temperature
            && self.extra == request.extra
            && self.without == without
    }
}
