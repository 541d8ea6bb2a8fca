//! The result of an evaluation: shares, agreement, cost, latency, and what was wrong.

use std::collections::BTreeMap;

use rawko_core::arbiter::{ArbiterQuestion, Label, Situation};
use rawko_core::{ErrorInfo, Usage};
use serde::Serialize;

use super::{Evaluation, Trial, TrialResult};
use crate::history::situations::source;

/// The figures of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationReport {
    /// Who decided: `llm`, `hybrid`, `rules` or `fallback`.
    pub mode: &'static str,
    /// The provider that was asked, where one could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many situations there are.
    pub situations: usize,
    /// Trials whose decision was acceptable; a failed one is wrong, one that was not made does not count.
    pub accuracy: Share,
    /// The same for each of the two questions.
    pub by_point: BTreeMap<&'static str, Share>,
    /// The same by the kind of the first acceptable decision.
    pub by_kind: BTreeMap<String, Share>,
    /// The same for each part of the collection; empty where there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_set: BTreeMap<String, Share>,
    /// How many decisions came from where, and how many of them were acceptable.
    pub by_source: BTreeMap<&'static str, Share>,
    /// Decisions of the model that took a second attempt.
    pub repaired: usize,
    /// How far decisions agree.
    pub agreement: Agreement,
    /// What the model consumed.
    pub usage: Usage,
    /// What that cost, in US dollars; absent where the price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// From question to decision.
    pub latency_ms: Latency,
    /// What was not acceptable.
    pub wrong: Vec<WrongAnswer>,
    /// What the provider did not answer.
    pub failed: Vec<FailedAnswer>,
    /// Trials that were not made: the budget was used up, or the provider refuses everything.
    pub not_tried: usize,
}

/// How many of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// How many there are.
    pub of: usize,
    /// How many of them.
    pub right: usize,
}

/// How far decisions agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// Situations tried more than once, and those that were always decided alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Share>,
    /// Decisions on situations with a recorded decision, and those that are the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Share>,
}

/// How long decisions took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: u64,
    /// Of twenty, nineteen took no longer.
    pub p95: u64,
}

/// A decision that was not acceptable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrongAnswer {
    /// The situation.
    pub id: String,
    /// Which trial of it, from 1.
    pub round: u32,
    /// What would have been acceptable.
    pub expected: Vec<String>,
    /// What was decided.
    pub got: String,
    /// The words that came with it.
    pub reason: String,
    /// Where it came from.
    pub source: &'static str,
    /// The rule, where one decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// Why the labels are as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A question that the provider did not answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedAnswer {
    /// The situation.
    pub id: String,
    /// Which trial of it, from 1.
    pub round: u32,
    /// Why not.
    pub error: ErrorInfo,
}

impl Share {
    fn add(&mut self, is_right: bool) {
        self.of += 1;
        self.right += usize::from(is_right);
    }

    /// From 0 to 1; 0 of nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "there are never 2^52 situations")]
    pub fn ratio(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.right as f64 / self.of as f64 }
    }
}

impl Evaluation {
    /// The figures. `situations` are those that were tried.
    #[must_use]
    pub fn report(&self, situations: &[Situation]) -> EvaluationReport {
        let model = self.model.as_ref();
        let mut report = EvaluationReport {
            mode: self.mode.as_str(),
            provider: model.map(|model| model.provider.clone()),
            model: model.map(|model| model.model.clone()),
            situations: situations.len(),
            accuracy: Share::default(),
            by_point: BTreeMap::new(),
            by_kind: BTreeMap::new(),
            by_set: BTreeMap::new(),
            by_source: BTreeMap::new(),
            repaired: 0,
            agreement: Agreement::default(),
            usage: Usage::default(),
            cost_usd: self.cost_usd,
            latency_ms: self.latency(),
            wrong: Vec::new(),
            failed: Vec::new(),
            not_tried: 0,
        };
        let mut decided: BTreeMap<usize, Vec<Label>> = BTreeMap::new();
        for trial in &self.trials {
            let Some(situation) = situations.get(trial.situation) else { continue };
            report.usage += trial.usage;
            report.take(situation, trial, decided.entry(trial.situation).or_default());
        }
        report.agreement.repeats = repeats(decided.values());
        report
    }

    fn latency(&self) -> Latency {
        let decided = |trial: &&Trial| matches!(trial.result, TrialResult::Decided { .. });
        let mut all: Vec<u64> = self.trials.iter().filter(decided).map(|trial| trial.latency_ms).collect();
        all.sort_unstable();
        // The smallest value that at least so many of a hundred do not exceed.
        let at = |percent: usize| {
            let rank = (all.len() * percent).div_ceil(100);
            all.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Latency { p50: at(50), p95: at(95) }
    }
}

/// Of the situations that were decided more than once, those that were always decided alike.
fn repeats<'a>(decided: impl Iterator<Item = &'a Vec<Label>>) -> Option<Share> {
    let mut share = Share::default();
    for labels in decided.filter(|labels| labels.len() > 1) {
        share.add(labels.windows(2).all(|pair| pair.first() == pair.last()));
    }
    (share.of > 0).then_some(share)
}

impl EvaluationReport {
    fn take(&mut self, situation: &Situation, trial: &Trial, decided: &mut Vec<Label>) {
        let id = situation.id.clone();
        let is_right = match &trial.result {
            TrialResult::NotTried => {
                self.not_tried += 1;
                return;
            }
            TrialResult::Failed(error) => {
                self.failed.push(FailedAnswer { id, round: trial.round, error: error.clone() });
                false
            }
            TrialResult::Decided { decision, source: from, rule, rejected } => {
                let is_right = situation.accepts(decision);
                let label = Label::of(decision);
                let source = source(*from);
                self.by_source.entry(source).or_default().add(is_right);
                self.repaired +=
                    usize::from(!rejected.is_empty() && *from == rawko_core::session::DecisionSource::Llm);
                if let Some(recorded) = &situation.recorded {
                    self.agreement.recorded.get_or_insert_default().add(recorded.label() == label);
                }
                if !is_right {
                    self.wrong.push(WrongAnswer {
                        id,
                        round: trial.round,
                        expected: situation.acceptable.iter().map(ToString::to_string).collect(),
                        got: label.to_string(),
                        reason: decision.reason().to_owned(),
                        source,
                        rule: *rule,
                        why: situation.why.clone(),
                    });
                }
                decided.push(label);
                is_right
            }
        };
        self.accuracy.add(is_right);
        let point = match situation.question {
            ArbiterQuestion::Select(_) => "select",
            ArbiterQuestion::Evaluate { .. } => "evaluate",
        };
        self.by_point.entry(point).or_default().add(is_right);
        if let Some(first) = situation.acceptable.first() {
            self.by_kind.entry(first.decision.as_str().to_owned()).or_default().add(is_right);
        }
        if let Some(set) = &situation.set {
            self.by_set.entry(set.clone()).or_default().add(is_right);
        }
    }
}
