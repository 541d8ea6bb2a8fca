//! The model calls that a session paid for, in one pass over its journal.
//!
//! The figures are those of the run itself: the events are folded as in a resume, and what the core settles is a call.
//! So abandoned calls and the shared beginning of forks count as they did then.

use std::fs::OpenOptions;
use std::path::Path;

use rawko_core::timeline::{Fact, Timeline, TimelineEntry};
use rawko_core::{Timestamp, Usage};

use super::error::JournalError;
use super::file::open_own;
use super::reader::walk;
use super::record::Record;

/// A model call that was paid for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaidCall<'a> {
    /// When it was answered or given up.
    pub at: Timestamp,
    /// Who asked: an agent's name, `select`, `evaluate`, `NAME (memory)` or `NAME (summary)`.
    pub agent: &'a str,
    /// The provider that was asked.
    pub provider: &'a str,
    /// The model that was asked.
    pub model: &'a str,
    /// Tokens of this call.
    pub usage: Usage,
    /// Its cost in US dollars, by the prices that the run was configured with and the built-in ones; absent where the
    /// model's price is not known.
    pub cost_usd: Option<f64>,
}

/// Gives `each` the calls that the session of this journal paid for, in their order. A fork did not pay for what it shares
/// with the session that it comes from. Only the session's own state is kept in memory.
///
/// A journal that is damaged in the middle is read up to there: what comes back says what is wrong.
///
/// # Errors
/// As for [`read`](super::read), where not even the beginning can be read.
pub fn paid_calls(
    path: &Path,
    mut each: impl FnMut(&PaidCall<'_>),
) -> Result<Option<JournalError>, JournalError> {
    let file = open_own(path, OpenOptions::new().read(true))?;
    let mut timeline = Timeline::default();
    let walked = walk(path, &file, |record, _| {
        let Record::Event(stamped) = record else { return };
        // Calls do not name records.
        for TimelineEntry { at, shared, fact, .. } in timeline.apply(0, &stamped) {
            let Fact::ModelPaid { call, usage, cost_usd } = fact else { continue };
            if !shared {
                let agent = call.purpose.to_string();
                let (provider, model) = (call.provider.as_str(), call.model.as_str());
                each(&PaidCall { at, agent: &agent, provider, model, usage, cost_usd });
            }
        }
    })?;
    Ok(walked.damage)
}
