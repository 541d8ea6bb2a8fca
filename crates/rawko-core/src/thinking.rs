//! How much a model thinks: one setting, and the request fields that it becomes over each wire format.
//!
//! A setting that a model does not have is an error here, so that none is silently without effect. If it is not known
//! whether a model has a setting, refusing it is left to the model's server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::models::{ModelFacts, When};

/// The fewest tokens that the Messages API accepts as a budget
/// (<https://platform.claude.com/docs/en/build-with-claude/extended-thinking>).
const LEAST_BUDGET: u32 = 1_024;

/// `off`, `{budget: N}` with at least 1024 tokens, or `{effort: low}` (or `minimal`, `medium`, `high`, `xhigh`, `max`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Thinking {
    /// `off`: it does not think before it answers.
    Off(ThinkingOff),
    /// `{budget: N}`: it thinks, at most this many tokens. For Anthropic's models up to the generation 4.6.
    Budget(ThinkingBudget),
    /// `{effort: low}`: it decides itself how long it thinks, and tries this hard.
    Effort(ThinkingEffort),
}

/// The word `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingOff {
    /// No thinking.
    Off,
}

// A pattern, so that an error lists all forms of the setting and not this word alone.
impl JsonSchema for ThinkingOff {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ThinkingOff".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "The word `off`.", "type": "string", "pattern": "^off$" })
    }
}

/// `{budget: N}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThinkingBudget {
    /// Most tokens of thinking. They count towards the longest response (`maxTokens`), which must be larger.
    #[schemars(range(min = 1_024))]
    pub budget: u32,
}

/// `{effort: …}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThinkingEffort {
    /// How hard it tries. Not every model knows every level.
    pub effort: Effort,
}

/// How hard a model tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As little as it can; only some of `OpenAI`'s models know this.
    Minimal,
    /// Less than usual.
    Low,
    /// Between low and high.
    Medium,
    /// What most models do by themselves.
    High,
    /// More than high, where the model knows it.
    Xhigh,
    /// Without regard to cost, where the model knows it.
    Max,
}

/// The wire format of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingWire {
    /// Anthropic's Messages API.
    Messages,
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
}

/// What a model does with a thinking setting, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkingSupport {
    /// It thinks as long as it thinks fit, in every answer.
    Adaptive,
    /// It thinks as long as it thinks fit, if it is asked to think.
    AdaptiveIfAsked,
    /// It thinks within a budget, if it is given one.
    Budget,
    /// It never thinks.
    Never,
    /// Not in the table of models.
    Unknown,
}

impl Thinking {
    /// The budget in tokens, if it is one.
    #[must_use]
    pub fn budget(self) -> Option<u32> {
        match self {
            Self::Budget(ThinkingBudget { budget }) => Some(budget),
            Self::Off(_) | Self::Effort(_) => None,
        }
    }

    /// The request fields for the model with these facts.
    ///
    /// # Errors
    /// In words, why the model or its API does not have the setting, and what to write instead.
    pub fn fields(self, wire: ThinkingWire, facts: &ModelFacts) -> Result<Map<String, Value>, String> {
        let fields = match wire {
            ThinkingWire::Messages => self.over_messages(facts)?,
            ThinkingWire::Chat => {
                let effort = self.effort_word(facts)?;
                if facts.with_tools.is_some() && effort != "none" {
                    return Err("over Chat Completions it refuses tools while it thinks; \
                         use the provider `responses`, or one of `type: responses`"
                        .to_owned());
                }
                json!({"reasoning_effort": effort})
            }
            ThinkingWire::Responses => json!({"reasoning": {"effort": self.effort_word(facts)?}}),
        };
        Ok(fields.as_object().cloned().unwrap_or_default())
    }

    fn over_messages(self, facts: &ModelFacts) -> Result<Value, String> {
        let kind = kind_over_messages(facts);
        match (self, kind) {
            (Self::Off(_), ThinkingSupport::Adaptive) => {
                let least = facts.least_thinking.filter(|least| least.is_off);
                let least = least.map(|least| Value::Object(least.fields.clone()));
                least.ok_or_else(|| "it always thinks; write `thinking: {effort: low}`".to_owned())
            }
            (Self::Off(_), ThinkingSupport::Unknown) => Ok(json!({"thinking": {"type": "disabled"}})),
            (Self::Off(_), _) => {
                Err("it does not think unless it is asked to; remove the setting".to_owned())
            }
            (Self::Budget(ThinkingBudget { budget }), _) if budget < LEAST_BUDGET => {
                Err(format!("a budget has at least {LEAST_BUDGET} tokens"))
            }
            (Self::Budget(ThinkingBudget { budget }), ThinkingSupport::Budget | ThinkingSupport::Unknown) => {
                Ok(json!({"thinking": {"type": "enabled", "budget_tokens": budget}}))
            }
            (Self::Budget(_), _) => Err(
                "it takes no budget, it decides itself how long it thinks; write `thinking: {effort: low}`, \
                     `medium` or `high`"
                    .to_owned(),
            ),
            (Self::Effort(_), ThinkingSupport::Budget) => {
                Err("it knows no effort; write `thinking: {budget: 4096}`".to_owned())
            }
            (Self::Effort(ThinkingEffort { effort: Effort::Minimal }), _) => {
                Err("over the Messages API the lowest effort is `low`".to_owned())
            }
            (Self::Effort(ThinkingEffort { effort }), ThinkingSupport::Adaptive) => {
                Ok(json!({"output_config": {"effort": effort}}))
            }
            (
                Self::Effort(ThinkingEffort { effort }),
                ThinkingSupport::AdaptiveIfAsked | ThinkingSupport::Unknown | ThinkingSupport::Never,
            ) => Ok(json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}})),
        }
    }

    /// The effort, in the word that `OpenAI`'s APIs have for it.
    fn effort_word(self, facts: &ModelFacts) -> Result<Value, String> {
        if kind_over_openai(facts) == ThinkingSupport::Never {
            return Err("it never thinks; remove the setting".to_owned());
        }
        match self {
            Self::Off(_) if facts.least_thinking.is_some_and(|least| !least.is_off) => {
                Err("it always thinks; write `thinking: {effort: low}`".to_owned())
            }
            Self::Off(_) => Ok(json!("none")),
            Self::Effort(ThinkingEffort { effort }) => Ok(json!(effort)),
            Self::Budget(_) => Err(
                "only the Messages API takes a budget; write `thinking: {effort: low}`, `medium` or `high`"
                    .to_owned(),
            ),
        }
    }
}

/// Anthropic's models up to 4.6 take a temperature while they do not think; those after them never do.
fn kind_over_messages(facts: &ModelFacts) -> ThinkingSupport {
    match (facts.thinks, facts.temperature) {
        (Some(true), _) => ThinkingSupport::Adaptive,
        (Some(false), Some(When::WithoutThinking)) => ThinkingSupport::Budget,
        (Some(false), Some(When::Never)) => ThinkingSupport::AdaptiveIfAsked,
        (Some(false), None) => ThinkingSupport::Never,
        (None, _) => ThinkingSupport::Unknown,
    }
}

/// `OpenAI`'s models that never think take a temperature always.
fn kind_over_openai(facts: &ModelFacts) -> ThinkingSupport {
    match (facts.thinks, facts.temperature) {
        (Some(true), _) => ThinkingSupport::Adaptive,
        (Some(false), Some(_)) => ThinkingSupport::AdaptiveIfAsked,
        (Some(false), None) => ThinkingSupport::Never,
        (None, _) => ThinkingSupport::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;

    /// Checks the fields of a setting, written as in a file, or the words of the error.
    #[track_caller]
    fn check(wire: ThinkingWire, model: &str, setting: Value, expected: Result<Value, &str>) {
        let thinking: Thinking = serde_json::from_value(setting.clone()).expect("a setting");
        let found = thinking.fields(wire, &models::find(model)).map(Value::Object);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, &expected, "{model} {setting}"),
            (Err(found), Err(part)) => assert!(found.contains(part), "{model} {setting}: {found}"),
            (found, expected) => panic!("{model} {setting}: {found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn each_of_anthropics_models_is_asked_as_it_wants() {
        use ThinkingWire::Messages as M;
        let (off, budget, low) = (json!("off"), json!({"budget": 4096}), json!({"effort": "low"}));
        let enabled = json!({"thinking": {"type": "enabled", "budget_tokens": 4096}});
        for model in
            ["claude-sonnet-4-5", "claude-opus-4-1-20250805", "claude-haiku-4-5", "claude-sonnet-4-6"]
        {
            check(M, model, budget.clone(), Ok(enabled.clone()));
            check(M, model, low.clone(), Err("{budget: 4096}"));
            check(M, model, off.clone(), Err("remove the setting"));
        }
        let adaptive = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}});
        check(M, "claude-opus-4-8", low.clone(), Ok(adaptive.clone()));
        check(M, "claude-opus-4-8", budget.clone(), Err("takes no budget"));
        for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"] {
            check(M, model, low.clone(), Ok(json!({"output_config": {"effort": "low"}})));
            check(M, model, budget.clone(), Err("takes no budget"));
        }
        check(M, "claude-haiku-5-5", off.clone(), Ok(json!({"thinking": {"type": "disabled"}})));
        check(M, "claude-sonnet-5-5", off.clone(), Ok(json!({"thinking": {"type": "between_tools"}})));
        check(M, "claude-opus-5-5", off.clone(), Err("it always thinks"));
        check(M, "mine", budget, Ok(enabled));
        check(M, "mine", off, Ok(json!({"thinking": {"type": "disabled"}})));
        check(M, "mine", low, Ok(adaptive));
        check(M, "claude-sonnet-4-5", json!({"budget": 1000}), Err("at least 1024"));
        check(M, "claude-opus-5-5", json!({"effort": "minimal"}), Err("lowest effort is `low`"));
    }

    #[test]
    fn openais_models_take_an_effort_and_no_budget() {
        use ThinkingWire::{Chat, Responses};
        let (off, budget, high) = (json!("off"), json!({"budget": 4096}), json!({"effort": "high"}));
        check(Responses, "gpt-5.6-terra", high.clone(), Ok(json!({"reasoning": {"effort": "high"}})));
        check(Responses, "gpt-5.6-terra", off.clone(), Ok(json!({"reasoning": {"effort": "none"}})));
        check(Responses, "gpt-5.6-terra", budget.clone(), Err("only the Messages API takes a budget"));
        check(Responses, "gpt-5", off.clone(), Err("always thinks"));
        check(Responses, "gpt-4.1", high.clone(), Err("never thinks"));
        check(Responses, "mine", high.clone(), Ok(json!({"reasoning": {"effort": "high"}})));
        check(Chat, "gpt-5.6-terra", high.clone(), Err("use the provider `responses`"));
        check(Chat, "gpt-5.6-terra", off, Ok(json!({"reasoning_effort": "none"})));
        check(Chat, "gpt-5.4", high.clone(), Ok(json!({"reasoning_effort": "high"})));
        check(Chat, "gpt-4o", budget, Err("never thinks"));
        check(Chat, "qwen3-coder", high, Ok(json!({"reasoning_effort": "high"})));
    }

    #[test]
    fn a_setting_that_is_none_is_not_read() {
        for wrong in
            [json!("on"), json!({}), json!({"budget": 1, "effort": "low"}), json!({"effort": "huge"})]
        {
            assert!(serde_json::from_value::<Thinking>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
