//! Which model accepts which setting, according to the migration guides
//! (<https://platform.claude.com/docs/en/models/sonnet-5-5/migration-guide>,
//! <https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5>,
//! <https://platform.claude.com/docs/en/models/haiku-5-5/migration-guide>; November 2026).

/// What the documentation says about a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaudeModel {
    /// The most tokens of one response.
    pub(super) output: u64,
    /// How it thinks.
    pub(super) thinks: Thinks,
    /// Whether `temperature` may have another value than the default.
    pub(super) temperature: bool,
    /// Whether `tool_choice` may be `tool` or `any`.
    pub(super) forced_tools: bool,
    /// Whether thinking blocks are bound to the conversation before them.
    pub(super) bound: bool,
}

/// How a model thinks by default, and which settings it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinks {
    /// Only if the request asks for it, with a token budget.
    Asked,
    /// Only if the request asks for it, and then adaptively.
    AskedAdaptively,
    /// Unless the request says `disabled`, at effort high or lower.
    UnlessDisabled,
    /// Unless the request says `between_tools`, at effort high or lower.
    UnlessBetweenTools,
    /// Always.
    Always,
}

const OLD: ClaudeModel = ClaudeModel {
    output: 64_000,
    thinks: Thinks::Asked,
    temperature: true,
    forced_tools: true,
    bound: false,
};

const NEW: ClaudeModel = ClaudeModel {
    output: 128_000,
    thinks: Thinks::Always,
    temperature: false,
    forced_tools: false,
    bound: true,
};

/// By prefix of the name; the first match counts.
const MODELS: &[(&str, ClaudeModel)] = &[
    ("claude-fable-5-1", NEW),
    ("claude-fable-5-2", NEW),
    ("claude-mythos-5-1", NEW),
    ("claude-mythos-5-2", NEW),
    ("claude-fable-5", ClaudeModel { bound: false, ..NEW }),
    ("claude-mythos", ClaudeModel { bound: false, ..NEW }),
    ("claude-opus-5-5", NEW),
    ("claude-sonnet-5-5", ClaudeModel { thinks: Thinks::UnlessBetweenTools, ..NEW }),
    ("claude-haiku-5-5", ClaudeModel { thinks: Thinks::UnlessDisabled, forced_tools: true, ..NEW }),
    (
        "claude-opus-5",
        ClaudeModel { thinks: Thinks::UnlessDisabled, forced_tools: true, bound: false, ..NEW },
    ),
    (
        "claude-sonnet-5",
        ClaudeModel { thinks: Thinks::UnlessDisabled, forced_tools: true, bound: false, ..NEW },
    ),
    (
        "claude-opus-4-8",
        ClaudeModel { thinks: Thinks::AskedAdaptively, forced_tools: true, bound: false, ..NEW },
    ),
    (
        "claude-opus-4-7",
        ClaudeModel { thinks: Thinks::AskedAdaptively, forced_tools: true, bound: false, ..NEW },
    ),
    ("claude-opus-4-6", ClaudeModel { output: 128_000, ..OLD }),
    ("claude-opus-4-5", OLD),
    ("claude-opus-4", ClaudeModel { output: 32_000, ..OLD }),
    ("claude-", OLD),
];

/// The entry for this model; `None` for one that is not Anthropic's.
pub(super) fn model(name: &str) -> Option<ClaudeModel> {
    MODELS.iter().find(|(known, _)| name.starts_with(known)).map(|(_, model)| *model)
}
