//! What the real services refuse, according to their documentation and with their messages.
//!
//! [`ModelServer`](crate::ModelServer) asks this module about every request before its own behaviour answers. So a request
//! that a real service would refuse fails any test. Each service has its own file, which knows nothing of rawko: its rules
//! come from the vendor's documentation or from users' reports, never from the product that it checks. A rule for certain
//! models goes by the model's name.

pub(crate) mod claude;
mod llama_cpp;
mod mistral;
mod openai;
mod pictures;
pub(crate) mod responses;

use crate::answer::Answer;
use crate::exchange::Asked;

/// The refusals of all services.
const SERVICES: &[fn(&Asked) -> Option<Answer>] = &[
    claude::refusal,
    llama_cpp::refusal,
    mistral::refusal,
    openai::refusal,
    responses::refusal,
    pictures::refusal,
];

/// How the service would refuse this request; `None` if it would answer it.
#[must_use]
pub fn refusal(asked: &Asked) -> Option<Answer> {
    SERVICES.iter().find_map(|refuses| refuses(asked))
}
