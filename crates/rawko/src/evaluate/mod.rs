//! Trying the arbiter on labelled situations (`docs/arbiter.md#evaluation`): against any provider, model, prompt or
//! mode, by the same prompts, the same tool, the same reading of answers and the same one repair as in a run.
//!
//! The arbiter's cache is never used: a cached answer would measure nothing.

mod asking;
mod report;

use rawko_core::arbiter::{ArbiterQuestion, Ruling, Situation, Templates};
use rawko_core::cost::PriceTable;
use rawko_core::machine::Decision;
use rawko_core::session::DecisionSource;
use rawko_core::setup::{ArbiterMode, ModelChoice};
use rawko_core::{ErrorInfo, Usage};

use crate::error::Error;
use crate::setup::rawko::Rawko;
use asking::Interview;
pub use report::{Agreement, EvaluationReport, FailedAnswer, Latency, Share, WrongAnswer};

/// Who decides in an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationMode {
    /// As `arbiter.mode` in a run.
    Arbiter(ArbiterMode),
    /// The fallback for a model that gives no usable answer.
    Fallback,
}

/// How situations are tried.
#[derive(Debug, Clone)]
pub struct EvaluationOptions {
    /// Who decides; as configured where absent.
    pub mode: Option<EvaluationMode>,
    /// The provider, in the place of the configured one.
    pub provider: Option<String>,
    /// The model, in the place of the configured one.
    pub model: Option<String>,
    /// The prompt for choosing an agent, in the place of the configured one.
    pub select_template: Option<String>,
    /// The prompt for judging progress, in the place of the configured one.
    pub evaluate_template: Option<String>,
    /// How often each situation is tried.
    pub repeat: u32,
    /// How many are tried at a time.
    pub concurrency: usize,
    /// Most cost of all model calls together, in US dollars.
    pub max_cost_usd: Option<f64>,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self {
            mode: None,
            provider: None,
            model: None,
            select_template: None,
            evaluate_template: None,
            repeat: 1,
            concurrency: 4,
            max_cost_usd: None,
        }
    }
}

/// One trial of one situation.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Index of the situation in the list.
    pub situation: usize,
    /// Number of the trial of this situation, from 1.
    pub round: u32,
    /// The result.
    pub result: TrialResult,
    /// Tokens that the model used.
    pub usage: Usage,
    /// Time from question to decision, in milliseconds.
    pub latency_ms: u64,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialResult {
    /// A decision.
    Decided {
        /// Which.
        decision: Decision,
        /// Where it came from.
        source: DecisionSource,
        /// The rule, where one decided.
        rule: Option<&'static str>,
        /// Why answers of the model could not be used.
        rejected: Vec<String>,
    },
    /// The provider gave no answer.
    Failed(ErrorInfo),
    /// It was not tried any more: the budget was used up, or the provider refuses everything.
    NotTried,
}

/// An evaluation that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The trials, in the order of the situations.
    pub trials: Vec<Trial>,
    /// Who decided.
    pub mode: EvaluationMode,
    /// Which model was asked; absent where none could be.
    pub model: Option<ModelChoice>,
    /// Its price, as far as it is known.
    pub cost_usd: Option<f64>,
}

impl Evaluation {
    /// Why the provider could not be used at all: the first failure, where no question to it was answered.
    #[must_use]
    pub fn broken(&self) -> Option<&ErrorInfo> {
        let asked = |trial: &Trial| trial.usage != Usage::default();
        let first = self.trials.iter().find_map(|trial| match &trial.result {
            TrialResult::Failed(error) => Some(error),
            TrialResult::Decided { .. } | TrialResult::NotTried => None,
        });
        first.filter(|_| !self.trials.iter().any(asked) && !self.trials.iter().any(Trial::by_model))
    }
}

impl TrialResult {
    /// The decision as a run follows it: a COMPLETE that contradicts the record goes back to an agent that changes
    /// files.
    fn checked(self, question: &ArbiterQuestion) -> Self {
        let Self::Decided { decision, source, rule, rejected } = self else { return self };
        match question.checked(decision) {
            Ok(decision) => Self::Decided { decision, source, rule, rejected },
            Err(Ruling { decision, rule, certain: _ }) => {
                Self::Decided { decision, source, rule: Some(rule), rejected }
            }
        }
    }
}

impl Trial {
    /// Whether a model answered.
    fn by_model(&self) -> bool {
        match &self.result {
            TrialResult::Decided { source, .. } => {
                matches!(source, DecisionSource::Llm | DecisionSource::Fallback)
            }
            TrialResult::Failed(_) | TrialResult::NotTried => false,
        }
    }
}

impl EvaluationMode {
    /// Its name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arbiter(ArbiterMode::Llm) => "llm",
            Self::Arbiter(ArbiterMode::Hybrid) => "hybrid",
            Self::Arbiter(ArbiterMode::Rules) => "rules",
            Self::Fallback => "fallback",
        }
    }

    /// Whether a model may be asked.
    #[must_use]
    pub fn asks(self) -> bool {
        matches!(self, Self::Arbiter(ArbiterMode::Llm | ArbiterMode::Hybrid))
    }

    /// What holds without a model; `None` where one is to be asked.
    fn without_model(self, question: &ArbiterQuestion, default: Option<&str>) -> Option<TrialResult> {
        let of_rule = |Ruling { decision, rule, certain: _ }| TrialResult::Decided {
            decision,
            source: DecisionSource::Rule,
            rule: Some(rule),
            rejected: Vec::new(),
        };
        match self {
            Self::Arbiter(ArbiterMode::Llm) => None,
            Self::Arbiter(ArbiterMode::Hybrid) => {
                question.rule().filter(|ruling| ruling.certain).map(of_rule)
            }
            Self::Arbiter(ArbiterMode::Rules) => question.rule_or_fallback(default).map(of_rule),
            Self::Fallback => fallen_back(question, default, Vec::new()),
        }
    }
}

/// The fallback's decision. `None` only where there is no agent, and such a situation cannot be read.
fn fallen_back(
    question: &ArbiterQuestion,
    default: Option<&str>,
    rejected: Vec<String>,
) -> Option<TrialResult> {
    let decision = question.fallback(default)?;
    Some(TrialResult::Decided { decision, source: DecisionSource::Fallback, rule: None, rejected })
}

impl Rawko {
    /// Tries the arbiter on `situations`. A provider's failures are part of the result; see [`Evaluation::broken`].
    ///
    /// # Errors
    /// [`Error::Setup`] and [`Error::NoKey`] where the model cannot be resolved, or a budget cannot be enforced.
    pub async fn evaluate(
        &self,
        situations: &[Situation],
        options: &EvaluationOptions,
    ) -> Result<Evaluation, Error> {
        let config = &self.config().config;
        let mode = options.mode.unwrap_or(EvaluationMode::Arbiter(config.arbiter.mode));
        let default = config.agents.default.as_deref();
        let interview = if mode.asks() { Some(self.interview(options)?) } else { None };
        let trials = asking::all(situations, options, mode, default, interview.as_ref()).await;
        Ok(Evaluation {
            cost_usd: interview.as_ref().map_or(Some(0.0), Interview::cost_usd),
            model: interview.map(|interview| interview.choice),
            trials,
            mode,
        })
    }

    fn interview(&self, options: &EvaluationOptions) -> Result<Interview, Error> {
        let setup = self.setup()?;
        let choice = self.judge(options.provider.as_deref(), options.model.as_deref())?;
        let prices = PriceTable::with_overrides(setup.prices.clone());
        if options.max_cost_usd.is_some() && prices.price(&choice.model).is_none() {
            return Err(Error::Setup {
                message: format!(
                    "a cost limit is set, but the price of the model `{}` is not known",
                    choice.model
                ),
                hint: format!("give its price under prices.{} in the configuration", choice.model),
            });
        }
        let provider = self.provider(&choice.provider)?;
        let known = std::iter::once((choice.provider.clone(), std::sync::Arc::clone(&provider))).collect();
        let own = setup.arbiter.templates;
        let templates = Templates {
            select: options.select_template.clone().unwrap_or(own.select),
            evaluate: options.evaluate_template.clone().unwrap_or(own.evaluate),
        };
        let redactor = self.redactor(&known);
        redactor.check(&templates)?;
        Ok(Interview::new(choice, provider, templates, redactor, prices, options.max_cost_usd))
    }
}
