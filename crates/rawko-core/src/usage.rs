//! The token usage of model calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one model call, or of several added up (`docs/providers.md#streams`, point 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to the provider's prefix cache.
    pub input_tokens: u64,
    /// Tokens the model produced, thinking included.
    pub output_tokens: u64,
    /// Prompt tokens served from the provider's prefix cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written to the provider's prefix cache.
    pub cache_write_tokens: u64,
    /// Searches of the web that the provider ran.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_searches: u64,
    /// Whether some of it is an estimate, at four bytes a token, because the server did not count. Budgets count
    /// estimates too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// All tokens of the prompt, cached or not.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.cache_read_tokens).saturating_add(self.cache_write_tokens)
    }

    /// Prompt and output together.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens().saturating_add(self.output_tokens)
    }

    /// Share of the prompt that came from the cache, 0 to 1; `None` for an empty prompt.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn cache_hit_share(&self) -> Option<f64> {
        let prompt = self.prompt_tokens();
        (prompt > 0).then(|| self.cache_read_tokens as f64 / prompt as f64)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.web_searches = self.web_searches.saturating_add(other.web_searches);
        self.estimated = self.estimated || other.estimated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_an_estimate_where_a_part_is_one_and_counted_usage_reads_and_writes_as_before() {
        let old = r#"{"inputTokens":7,"outputTokens":2,"cacheReadTokens":0,"cacheWriteTokens":0}"#;
        let counted: Usage = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&counted).unwrap(), old);
        let guessed = Usage { output_tokens: 1, estimated: true, ..Usage::default() };
        let mut sum = counted;
        sum += guessed;
        sum += counted;
        assert_eq!(sum, Usage { input_tokens: 14, output_tokens: 5, estimated: true, ..Usage::default() });
        let written = serde_json::to_string(&sum).unwrap();
        assert!(written.ends_with(r#","estimated":true}"#), "{written}");
    }
}
