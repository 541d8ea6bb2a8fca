//! The model calls that a session paid for, in one pass over its journal.
//!
//! The figures are those of the run itself: the events are folded as in a resume, and what the core settles is a call.
//! So abandoned calls and the shared beginning of forks count as they did then.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;

use rawko_core::cost::PriceTable;
use rawko_core::session::{Effect, EffectId, Event, Note, Session};
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
    let mut calls = Calls::default();
    let walked = walk(path, &file, |record| calls.record(&record, &mut each))?;
    Ok(walked.damage)
}

#[derive(Default)]
struct Calls {
    session: Session,
    prices: PriceTable,
    /// Provider and model of the calls that are not settled.
    asked: HashMap<EffectId, (String, String)>,
    /// Events that are still to come which belong to another session.
    shared_events: u64,
}

impl Calls {
    fn record(&mut self, record: &Record, each: &mut impl FnMut(&PaidCall<'_>)) {
        let Record::Event(stamped) = record else { return };
        match &stamped.event {
            Event::TaskStarted { setup, shared_events, .. } => {
                self.prices = PriceTable::with_overrides(setup.prices.clone());
                self.shared_events = *shared_events;
            }
            Event::TaskContinued { setup, .. } => {
                self.prices = PriceTable::with_overrides(setup.prices.clone());
            }
            _ => {}
        }
        let reaction = self.session.apply(stamped);
        let is_shared = self.shared_events > 0;
        self.shared_events = self.shared_events.saturating_sub(1);
        for note in &reaction.notes {
            let Note::TokensUsed { effect, agent, usage, .. } = note else { continue };
            let Some((provider, model)) = self.asked.remove(effect).filter(|_| !is_shared) else { continue };
            let cost_usd = self.prices.cost(&model, usage);
            let (provider, model) = (provider.as_str(), model.as_str());
            each(&PaidCall { at: stamped.at, agent, provider, model, usage: *usage, cost_usd });
        }
        for effect in reaction.effects {
            match effect {
                Effect::CallModel { id, provider, model, .. } => {
                    self.asked.insert(id, (provider, model));
                }
                Effect::Abandon { id } => {
                    self.asked.remove(&id);
                }
                _ => {}
            }
        }
    }
}
