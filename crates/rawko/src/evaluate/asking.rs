//! Asks a model about situations: several at a time, within a budget, and none after an error that all would meet.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::StreamExt as _;
use rawko_core::arbiter::{ArbiterQuestion, Prompt, Situation, Templates};
use rawko_core::cost::PriceTable;
use rawko_core::message::{Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::session::{ArbiterExchange, CheckedAnswer, DecisionSource, more_room};
use rawko_core::setup::ModelChoice;
use rawko_core::{ErrorCode, ErrorInfo, Usage};
use rawko_provider::{Provider, ProviderEvent, ProviderSession};

use super::{EvaluationMode, EvaluationOptions, Trial, TrialResult, fallen_back};
use crate::redact::Redactor;
use crate::setup::assemble::most_decision_tokens;

/// A model, its prompts, and the budget for asking it.
pub(super) struct Interview {
    pub(super) choice: ModelChoice,
    provider: Arc<dyn Provider>,
    templates: Templates,
    redactor: Redactor,
    prices: PriceTable,
    max_cost_usd: Option<f64>,
    account: Mutex<Spending>,
}

/// What was spent, what is reserved for calls under way, and whether more may follow.
#[derive(Debug, Clone, Copy, Default)]
struct Spending {
    spent: f64,
    reserved: f64,
    /// A call whose price is not known was made.
    unpriced: bool,
    /// No further call is made.
    closed: bool,
}

impl Interview {
    pub(super) fn new(
        choice: ModelChoice,
        provider: Arc<dyn Provider>,
        templates: Templates,
        redactor: Redactor,
        prices: PriceTable,
        max_cost_usd: Option<f64>,
    ) -> Self {
        let account = Mutex::default();
        Self { choice, provider, templates, redactor, prices, max_cost_usd, account }
    }

    /// What all calls cost; absent where a price is not known.
    pub(super) fn cost_usd(&self) -> Option<f64> {
        let account = self.account();
        (!account.unpriced).then_some(account.spent)
    }

    fn account(&self) -> std::sync::MutexGuard<'_, Spending> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves what the next call may cost. `None` where the budget does not allow it, or no further call is made.
    fn reserve(&self, prompt_tokens: u64, answer_tokens: u32) -> Option<f64> {
        let most = Usage {
            input_tokens: prompt_tokens,
            output_tokens: u64::from(answer_tokens),
            ..Usage::default()
        };
        let cost = self.prices.cost(&self.choice.model, &most).unwrap_or(0.0);
        let mut account = self.account();
        let over = self.max_cost_usd.is_some_and(|max| account.spent + account.reserved + cost > max);
        if account.closed || over {
            return None;
        }
        account.reserved += cost;
        Some(cost)
    }

    /// Replaces the reservation of a finished call with what it cost.
    fn settle(&self, reserved: f64, usage: Option<&Usage>) {
        let mut account = self.account();
        account.reserved -= reserved;
        match usage.map(|usage| self.prices.cost(&self.choice.model, usage)) {
            Some(Some(cost)) => account.spent += cost,
            Some(None) => account.unpriced = true,
            None => {}
        }
    }

    /// Puts a question until there is a decision, a failure, or no more money.
    async fn put(&self, question: &ArbiterQuestion, default: Option<&str>) -> (TrialResult, Usage) {
        let Prompt { system, user, decisions } = question.prompt(&self.templates);
        // The templates were checked, so what is masked comes from the situation.
        let prompt =
            Prompt { system: self.redactor.text(&system), user: self.redactor.text(&user), decisions };
        let (mut asking, mut session) = (ArbiterExchange::new(1, prompt), self.provider.open());
        let (names, some_agent_ran) = (question.names(), question.some_agent_ran());
        let purpose = match question {
            ArbiterQuestion::Select(_) => Purpose::Select,
            ArbiterQuestion::Evaluate { .. } => Purpose::Evaluate,
        };
        let mut used = Usage::default();
        let mut choice = self.choice.clone();
        loop {
            let limit = choice.answer_tokens();
            let Some(reserved) = self.reserve(asking.conversation().estimated_tokens(), limit) else {
                return (TrialResult::NotTried, used);
            };
            let ModelResponse { message, usage, is_cut } =
                answer(session.as_mut(), asking.request(purpose.clone(), &choice)).await;
            self.settle(reserved, usage.as_ref());
            used += usage.unwrap_or_default();
            let message = match message {
                Ok(message) => message,
                Err(mut error) => {
                    self.redactor.error(&mut error);
                    self.account().closed |= is_final(error.code);
                    return (TrialResult::Failed(error), used);
                }
            };
            let received = asking.receive(message, is_cut.then_some(limit), &names, some_agent_ran);
            let more = more_room(limit, most_decision_tokens(&choice));
            match (received, more) {
                (CheckedAnswer::Decision(decision), _) => {
                    let rejected = asking.rejected().to_vec();
                    let source = DecisionSource::Llm;
                    return (TrialResult::Decided { decision, source, rule: None, rejected }, used);
                }
                (CheckedAnswer::Rejected, _) => {}
                (CheckedAnswer::CutOff, Some(more)) => choice.max_tokens = more,
                (CheckedAnswer::CutOff, None) | (CheckedAnswer::Exhausted, _) => {
                    let result = fallen_back(question, default, asking.rejected().to_vec());
                    return (result.unwrap_or(TrialResult::NotTried), used);
                }
            }
        }
    }
}

/// Whether every other question would fail alike.
fn is_final(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::AuthenticationFailed | ErrorCode::ModelUnavailable | ErrorCode::ConfigError)
}

/// Tries all situations, each as often as is asked for; the trials come in the order of the situations.
pub(super) async fn all(
    situations: &[Situation],
    options: &EvaluationOptions,
    mode: EvaluationMode,
    default: Option<&str>,
    interview: Option<&Interview>,
) -> Vec<Trial> {
    // Round by round, so that every situation is tried once before the budget pays for a second trial.
    let rounds =
        (1..=options.repeat.max(1)).flat_map(|round| (0..situations.len()).map(move |at| (round, at)));
    let trials = rounds.filter_map(|(round, at)| Some((round, at, situations.get(at)?)));
    let tried = trials.map(|(round, at, situation)| async move {
        let begun = Instant::now();
        let question = &situation.question;
        let (result, usage) = match (mode.without_model(question, default), interview) {
            (Some(result), _) => (result, Usage::default()),
            (None, Some(interview)) => interview.put(question, default).await,
            (None, None) => (TrialResult::NotTried, Usage::default()),
        };
        let result = result.checked(question);
        let latency_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Trial { situation: at, round, result, usage, latency_ms }
    });
    let mut trials: Vec<Trial> =
        futures_util::stream::iter(tried).buffer_unordered(options.concurrency.max(1)).collect().await;
    trials.sort_by_key(|trial| (trial.situation, trial.round));
    trials
}

/// What came of one call to a model.
struct ModelResponse {
    message: Result<Message, ErrorInfo>,
    usage: Option<Usage>,
    /// Its token limit ended it.
    is_cut: bool,
}

async fn answer(session: &mut dyn ProviderSession, request: ModelRequest) -> ModelResponse {
    let mut stream = session.send(request);
    while let Some(event) = stream.next().await {
        match event {
            ProviderEvent::MessageDone { message, usage, stop_reason } => {
                let is_cut = stop_reason == StopReason::MaxTokens;
                return ModelResponse { message: Ok(message), usage: Some(usage), is_cut };
            }
            ProviderEvent::Error { error, usage } => {
                return ModelResponse { message: Err(error), usage, is_cut: false };
            }
            ProviderEvent::TextDelta(_)
            | ProviderEvent::ThinkingDelta(_)
            | ProviderEvent::ToolUseStart { .. }
            | ProviderEvent::ToolUseInput { .. }
            | ProviderEvent::ToolUseEnd { .. }
            | ProviderEvent::Retrying { .. } => {}
        }
    }
    let error = ErrorInfo::new(ErrorCode::NetworkError, "the provider's stream ended without an answer");
    ModelResponse { message: Err(error), usage: None, is_cut: false }
}
