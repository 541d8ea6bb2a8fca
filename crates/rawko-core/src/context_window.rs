//! How much a model takes in: a table by model name, for where the configuration does not say.
//!
//! It refuses to guess. A window that is taken for larger than it is costs one refused call; one that is taken for
//! smaller makes conversations shorter than they need to be. So a model that is not here has no known window, and
//! the figures are those of prompt and response together without any beta. What a server of one's own takes in is
//! set where that server is started, whatever the model could do: such models are not here at all.

/// By the beginning of the name, dots as dashes; the longest one wins. As published in November 2026.
const KNOWN: &[(&str, u32)] = &[
    // https://platform.claude.com/docs/en/about-claude/models/overview
    ("claude", 200_000),
    ("claude-fable-5", 1_000_000),
    ("claude-opus-5", 1_000_000),
    ("claude-sonnet-5", 1_000_000),
    ("claude-haiku-5", 1_000_000),
    // https://developers.openai.com/api/docs/models
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-1", 1_047_576),
    // 400,000 in all, of which the prompt may have no more than this; longer prompts of later ones cost double.
    ("gpt-5", 272_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    // https://ai.google.dev/gemini-api/docs/models
    ("gemini-2-0-flash", 1_048_576),
    ("gemini-2-5", 1_048_576),
    ("gemini-3", 1_048_576),
    // https://api-docs.deepseek.com/quick_start/pricing
    ("deepseek-chat", 128_000),
    ("deepseek-reasoner", 128_000),
];

/// Most tokens of a prompt to `model` and its response together, if that is known. A vendor in front
/// (`anthropic/claude-…`) does not matter.
#[must_use]
pub fn context_window(model: &str) -> Option<u32> {
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    let name = name.to_ascii_lowercase().replace('.', "-");
    KNOWN
        .iter()
        .filter(|(known, _)| {
            let rest = name.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
        })
        .max_by_key(|(known, _)| known.len())
        .map(|(_, window)| *window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, expected: Option<u32>) {
        assert_eq!(context_window(model), expected, "{model}");
    }

    #[test]
    fn families_are_known_and_look_alikes_are_not() {
        check("claude-sonnet-4-5-20250929", Some(200_000));
        check("claude-3-5-haiku-latest", Some(200_000));
        check("claude-sonnet-5-5", Some(1_000_000));
        check("anthropic/claude-opus-5.5", Some(1_000_000));
        check("gpt-4o-mini", Some(128_000));
        check("gpt-4.1-mini", Some(1_047_576));
        check("gpt-5.4", Some(272_000));
        check("o3-mini", Some(200_000));
        check("google/gemini-2.5-pro", Some(1_048_576));
        check("deepseek-chat", Some(128_000));
        for unknown in ["", "claudette", "gpt-4", "gpt-oss:20b", "deepseek-r1:8b", "o30", "qwen3-coder"] {
            check(unknown, None);
        }
    }
}
