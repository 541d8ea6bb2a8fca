//! The names of the GenAI semantic conventions, and rawko's own beside them.

use rawko_core::message::StopReason;

/// The version of the conventions that names and values follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SemanticConventions {
    /// The first release of the conventions' own repository.
    #[default]
    V0_1,
    /// What rawko used before it: a version that was in development. Goes away with the next version of rawko.
    V1_42,
}

impl SemanticConventions {
    /// What [`SemanticConventions::V1_42`] is called in `OTEL_SEMCONV_STABILITY_OPT_IN`.
    const OLDER: &str = "gen_ai/1.42.0";

    /// Those that a list of choices asks for. It is shared with other programs, so that unknown choices say nothing.
    pub(crate) fn chosen(list: &str) -> Self {
        let is_older = list.split(',').any(|choice| choice.trim() == Self::OLDER);
        if is_older { Self::V1_42 } else { Self::V0_1 }
    }

    /// The address that names the version.
    #[must_use]
    pub fn schema_url(self) -> &'static str {
        match self {
            Self::V0_1 => "https://opentelemetry.io/schemas/gen-ai/0.1.0",
            Self::V1_42 => "https://opentelemetry.io/schemas/gen-ai/1.42.0",
        }
    }

    /// The attribute with the name of a workflow.
    pub(crate) fn workflow_name(self) -> &'static str {
        match self {
            Self::V0_1 => AGENT_NAME,
            Self::V1_42 => "gen_ai.workflow.name",
        }
    }

    /// The attribute with the tokens that were written to the provider's cache.
    pub(crate) fn cache_write_tokens(self) -> &'static str {
        match self {
            Self::V0_1 => CACHE_WRITE_TOKENS,
            Self::V1_42 => "gen_ai.usage.cache_creation.input_tokens",
        }
    }
}

/// The workflow's name: there is one.
pub(crate) const WORKFLOW: &str = "rawko";
/// The name of the agent that plans: the arbiter decides which agent works next, and whether the task is done.
pub(crate) const ARBITER: &str = "arbiter";

pub(crate) const INVOKE_WORKFLOW: &str = "invoke_workflow";
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const PLAN: &str = "plan";
pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const EXIT_CODE: &str = "process.exit.code";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const MODEL: &str = "gen_ai.request.model";
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const TEMPERATURE: &str = "gen_ai.request.temperature";
pub(crate) const TOKEN_MODALITY: &str = "gen_ai.token.modality";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_write.input_tokens";

/// The conventions' name of a provider, where they have one for what is configured under this name.
pub(crate) fn provider(configured: &str) -> &str {
    match configured {
        "claude" | "anthropic" => "anthropic",
        "openai" | "responses" => "openai",
        "azure" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "gemini" | "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "xai" => "x_ai",
        other => other,
    }
}

/// The conventions' word for why a model ended its turn.
pub(crate) fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::Paused => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens | StopReason::ContextWindow => "length",
        StopReason::Refusal => "content_filter",
    }
}
