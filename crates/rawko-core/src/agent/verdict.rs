//! The report of an agent that judges the work of others: a verdict with findings
//! (`docs/arbiter.md#what-the-decision-rests-on`).
//!
//! It takes the place of `outcome`, so that success with a rejection cannot be expressed.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::control::ReportOutcome;
use crate::text::truncate;

/// Most findings that are kept.
const MAX_FINDINGS: usize = 20;
/// Characters of a finding that are kept.
const FINDING_CHARS: usize = 600;
/// Characters of a file name or a severity that are kept.
const NAME_CHARS: usize = 200;

/// What a tester or a reviewer says of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// You saw that the work does what the task asks, and nothing blocks it.
    Approved,
    /// You examined the work, and it has to be changed.
    Rejected,
    /// You could not examine it: something is missing, denied or broken.
    Blocked,
}

impl Verdict {
    /// The name in reports, prompts and journals.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Blocked => "blocked",
        }
    }

    /// Whether the agent did its own work. A rejection is a result; a blocked agent has none.
    #[must_use]
    pub fn is_result(self) -> bool {
        match self {
            Self::Approved | Self::Rejected => true,
            Self::Blocked => false,
        }
    }
}

/// One thing that a tester or a reviewer found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Finding {
    /// How much it weighs: `blocking` or `minor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Where it is, as `path` or `path:line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What is wrong, for which input, and what would repair it.
    pub text: String,
}

/// The forms in which models write a finding.
#[derive(Deserialize)]
#[serde(untagged)]
enum FindingForm {
    Text(String),
    Whole {
        #[serde(default)]
        severity: Option<String>,
        #[serde(default)]
        file: Option<String>,
        text: String,
    },
}

impl<'de> Deserialize<'de> for Finding {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match FindingForm::deserialize(from)? {
            FindingForm::Text(text) => Self { text, ..Self::default() },
            FindingForm::Whole { severity, file, text } => Self { severity, file, text },
        })
    }
}

impl Finding {
    /// The finding on one line, for people and prompts.
    #[must_use]
    pub fn line(&self) -> String {
        let severity = self.severity.as_ref().map(|severity| format!("{severity}: ")).unwrap_or_default();
        let file = self.file.as_ref().map(|file| format!("{file}: ")).unwrap_or_default();
        format!("{severity}{file}{}", self.text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A finding in these words, bounded.
    pub(super) fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }.bounded()
    }

    fn bounded(self) -> Self {
        let short = |text: Option<String>| text.map(|text| truncate(&text, NAME_CHARS));
        Self {
            severity: short(self.severity),
            file: short(self.file),
            text: truncate(&self.text, FINDING_CHARS),
        }
    }
}

/// Arguments of `Report` for an agent that tests or reviews.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerdictReport {
    /// What you say of the work.
    pub verdict: Verdict,
    /// What you found, the weightiest first. A rejection has one at least.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What you did and what you saw: commands with their results, what you could not examine, what you doubt.
    pub summary: String,
    /// Files you changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// What models send: some know only the `outcome` of other reports.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VerdictForm {
    #[serde(default)]
    verdict: Option<Verdict>,
    #[serde(default)]
    outcome: Option<ReportOutcome>,
    #[serde(default)]
    findings: Vec<Finding>,
    summary: String,
    #[serde(default)]
    files: Vec<String>,
}

impl VerdictReport {
    /// Reads the arguments. An `outcome` without a verdict is read as the verdict that it can only mean; one that
    /// contradicts the verdict is refused.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model.
    pub fn parse(input: &serde_json::Value) -> Result<Self, String> {
        let form: VerdictForm = serde_json::from_value(input.clone())
            .map_err(|error| format!("the arguments do not have the required form: {error}"))?;
        let verdict = match (form.verdict, form.outcome) {
            (Some(verdict), None)
            | (Some(verdict @ Verdict::Approved), Some(ReportOutcome::Success))
            | (Some(verdict @ (Verdict::Rejected | Verdict::Blocked)), Some(ReportOutcome::Failure)) => {
                verdict
            }
            (None, Some(ReportOutcome::Success)) => Verdict::Approved,
            (None, Some(ReportOutcome::Failure)) => Verdict::Rejected,
            (Some(verdict), Some(_)) => {
                return Err(format!(
                    "`outcome` contradicts the verdict `{}`. Leave `outcome` out: `verdict` alone counts \
                     (`approved`, `rejected` or `blocked`)",
                    verdict.as_str()
                ));
            }
            (None, None) => {
                return Err("`verdict` is missing: say `approved`, `rejected` or `blocked`".to_owned());
            }
        };
        let findings = form.findings.into_iter().take(MAX_FINDINGS).map(Finding::bounded).collect();
        Ok(Self { verdict, findings, summary: form.summary, files: form.files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(input: Value, expected: Result<Verdict, &str>) {
        let parsed = VerdictReport::parse(&input).map(|report| report.verdict);
        match (parsed, expected) {
            (Ok(verdict), Ok(expected)) => assert_eq!(verdict, expected, "{input}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (parsed, expected) => panic!("{input}: {parsed:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_verdict_counts_and_an_outcome_may_not_contradict_it() {
        check(json!({"verdict": "approved", "summary": "s"}), Ok(Verdict::Approved));
        check(json!({"verdict": "rejected", "summary": "s"}), Ok(Verdict::Rejected));
        check(json!({"verdict": "blocked", "outcome": "failure", "summary": "s"}), Ok(Verdict::Blocked));
        check(json!({"outcome": "success", "summary": "s"}), Ok(Verdict::Approved));
        check(json!({"outcome": "failure", "summary": "s"}), Ok(Verdict::Rejected));
        check(json!({"verdict": "rejected", "outcome": "success", "summary": "s"}), Err("contradicts"));
        check(json!({"verdict": "approved", "outcome": "failure", "summary": "s"}), Err("contradicts"));
        check(json!({"summary": "s"}), Err("`verdict` is missing"));
        check(json!({"verdict": "fine", "summary": "s"}), Err("required form"));
        check(json!({"verdict": "approved"}), Err("summary"));
    }

    #[test]
    fn findings_are_texts_or_objects_and_bounded() {
        let long = "x".repeat(2_000);
        let findings =
            json!(["a", {"severity": "blocking", "file": "a.rs:3", "text": "b\n c"}, {"text": long}]);
        let report =
            VerdictReport::parse(&json!({"verdict": "rejected", "summary": "s", "findings": findings}))
                .unwrap();
        let lines: Vec<String> = report.findings.iter().map(Finding::line).collect();
        assert_eq!(lines[..2], ["a", "blocking: a.rs:3: b c"]);
        assert!(lines[2].chars().count() <= FINDING_CHARS + 3);
    }
}
