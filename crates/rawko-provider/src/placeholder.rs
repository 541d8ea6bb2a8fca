//! Decides which keys are worth hiding.
//!
//! This is the only place that decides which texts rawko removes as secrets. A local server's key is often a word such as
//! `test`. Hiding it protects nothing, and removing it from every text would break the word "tester".

/// The fewest characters of a text that is hidden. The keys of hosted services are longer.
const SHORTEST: usize = 16;

/// The longest group of digits in a placeholder, as in `test-key-1234`.
const DIGITS: usize = 4;

/// Numbers with fewer characters are times, sizes and ids.
const LONG_NUMBER: usize = 20;

/// Words that people use as keys for servers which need none, and that documentation uses in examples. Among them:
/// `sk-no-key-required` (<https://github.com/ggml-org/llama.cpp/tree/master/tools/server>), `EMPTY`
/// (<https://docs.vllm.ai/en/v0.8.5/getting_started/examples/openai_completion_client.html>), `lm-studio`, `ollama`,
/// `your-api-key-here`.
const WORDS: &str = "
    abc access all allowed and ant anthropic any anything api are at auth authorization bar baz be bearer
    because but cannot change changed chat claude client code company copy cpp credential custom default demo
    dev development do does doesn doesnt dont dummy empty enter env example fake field fill foo for free from
    gateway gemini get goes google gpt groq has header here host id ignore ignored in inference insert internal
    invalid irrelevant is isnt it just key keys lite llama llamafile llm lm local localhost master matter
    matters me missing mistral mock model must my name need needed needs never no non none not nothing null of
    ollama on only open openai openrouter optional or our own pass password paste place placeholder please
    private proj proxy public put real really replace replaced require required router sample secret secrets
    self server service set should sk some something string studio sub test testing tests text that the this to
    todo token type undefined unit unneeded unset unused use used user using valid value vllm was what whatever
    will with without works x you your
";

/// Whether `text` is a secret that rawko removes from other texts: it has at least 16 characters, is not an ordinary
/// number, and does not only consist of words, repetitions and short numbers as placeholders do (`test`,
/// `sk-no-key-required`, `xxxxxxxxxxxxxxxx`).
#[must_use]
pub fn is_worth_hiding(text: &str) -> bool {
    let text: Vec<char> = text.trim().to_lowercase().chars().collect();
    let is_number = text.len() < LONG_NUMBER && !text.iter().any(|c| c.is_alphabetic());
    // Runs of letters and runs of digits; the characters between them do not matter.
    let mut pieces = text
        .split(|c| !c.is_alphanumeric())
        .flat_map(|part| part.chunk_by(|a, b| a.is_numeric() == b.is_numeric()));
    text.len() >= SHORTEST && !is_number && !pieces.all(is_of_placeholder)
}

fn is_of_placeholder(piece: &[char]) -> bool {
    let is_short_number = piece.len() <= DIGITS && piece.iter().all(|c| c.is_numeric());
    is_short_number || is_row(piece) || is_made_of_words(piece)
}

/// `xxxx`, `1234567890`, `abcdef`.
fn is_row(piece: &[char]) -> bool {
    let steps = |by: u32| {
        let next = |a: char, b: char| a as u32 + by == b as u32 || (by, a, b) == (1, '9', '0');
        piece.windows(2).all(|pair| next(pair[0], pair[1]))
    };
    piece.len() >= 3 && (steps(0) || steps(1))
}

/// Whether `piece` is a sequence of words of the list: `nokeyrequired` as well as `no`.
fn is_made_of_words(piece: &[char]) -> bool {
    let mut ends = vec![false; piece.len() + 1];
    ends[0] = true;
    for start in 0..piece.len() {
        if !ends[start] {
            continue;
        }
        for word in WORDS.split_ascii_whitespace() {
            let rest = piece[start..].iter().copied();
            if word.chars().zip(rest).filter(|(a, b)| a == b).count() == word.len() {
                ends[start + word.len()] = true;
            }
        }
    }
    ends[piece.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, hidden: bool) {
        assert_eq!(is_worth_hiding(text), hidden, "{text}");
    }

    #[test]
    fn words_and_placeholders_are_not_hidden() {
        for text in [
            "",
            "test",
            "ollama",
            "none",
            "EMPTY",
            "lm-studio",
            "developer",
            "sk-no-key-required",
            "no-api-key-required",
            "your-api-key-here",
            "YOUR_OPENAI_API_KEY_HERE",
            "YourAnthropicApiKeyHere",
            "thisisnotneededatall",
            "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
            "sk-ant-api03-xxxxxxxxxxxxxxxx",
            "****************",
            "sk-1234567890abcdef",
            "sk-test-1234-test-1234",
            "X-Custom-Api-Key",
            "1700000000000000000",
            "4111-1111-1111-1111",
            "shortbutR4nd0m!",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn keys_are_hidden() {
        for text in [
            "sk-canary-5b1e0c94",
            "tok-canary-93e1f0",
            "  sk-proj-Zk3v9QeT0aPmW8yLr2Ud \n",
            "sk-ant-api03-q8Jb2tXv-Tn5wRz",
            "AIzaSyD4iE2xVSpkLLOXoyqT-RuPwURN3ddScAI",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "550e8400-e29b-41d4-a716-446655440000",
            "deadbeefdeadbeefdeadbeefdeadbeef",
            "correct horse battery staple",
            "93748261029384756102",
        ] {
            check(text, true);
        }
    }
}
