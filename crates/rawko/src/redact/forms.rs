//! The forms in which a known secret is looked for: the text itself, what JSON, addresses and HTML make of it, the lines
//! of a secret of several lines, and long parts of each. Programs encode what they print, services quote a part of a wrong key in
//! their errors, and tools cut long lines.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rawko_provider::is_worth_hiding;
use regex::Regex;
use serde_json::Value;

/// The fewest characters of a part that is masked by itself, and of a word of a longer secret.
const SHORTEST_PART: usize = 12;
const SHORTEST_WORD: usize = 16;
/// The share of a secret that is masked by itself, in percent.
const SHARE: usize = 60;
/// A part with fewer different characters could be a word.
const FEWEST_CHARACTERS: usize = 8;
/// The fewest characters of a part that is masked where a text was cut.
const SHORTEST_AT_CUT: usize = 4;

/// What libraries encode in a part of an address: most of them, those that take it for a path, and JavaScript.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const ENCODED_BUT_SLASHES: AsciiSet = ENCODED.remove(b'/');
const ENCODED_BY_SCRIPTS: AsciiSet =
    ENCODED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');

/// One form of a secret.
#[derive(Clone)]
pub(super) struct SecretForm {
    /// The description of the secret.
    pub(super) what: String,
    pub(super) text: String,
    /// The lengths of the beginning and of the end that are masked by themselves.
    head: Option<usize>,
    tail: Option<usize>,
}

impl SecretForm {
    pub(super) fn new(what: String, text: String) -> Self {
        let long = (text.len() * SHARE).div_ceil(100).max(SHORTEST_PART);
        let tail_from = text.floor_char_boundary(text.len().saturating_sub(long));
        let head = text.ceil_char_boundary(long);
        // The beginning of an address is that of many others.
        let is_address = text.contains("://") || text.starts_with('/');
        let part =
            |part: &str| (!is_address && part.len() < text.len() && is_random(part)).then_some(part.len());
        Self { what, head: part(&text[..head]), tail: part(&text[tail_from..]), text }
    }

    /// The places of the secret in `text`, whole or a long part of it.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> =
            text.match_indices(&self.text).map(|(at, whole)| at..at + whole.len()).collect();
        if let Some(head) = self.head {
            let found = text.match_indices(&self.text[..head]);
            places.extend(found.map(|(at, _)| at..at + same_beginning(&text[at..], &self.text)));
        }
        if let Some(tail) = self.tail {
            let found = text.match_indices(&self.text[self.text.len() - tail..]);
            places.extend(found.map(|(at, _)| {
                let end = at + tail;
                end - same_end(&text[..end], &self.text)..end
            }));
        }
        places
    }

    /// What each place begins with: a few characters of the whole and of the end.
    pub(super) fn beginnings(&self) -> impl Iterator<Item = &str> {
        let parts = [Some(self.text.as_str()), self.tail.map(|tail| &self.text[self.text.len() - tail..])];
        parts.into_iter().flatten().map(|part| &part[..part.ceil_char_boundary(SHORTEST_PART)])
    }

    /// The beginning of the secret that ends `text`, and how much of `text` it takes.
    fn begun_at_end(&self, text: &str) -> Option<usize> {
        let lengths = self.text.char_indices().map(|(at, _)| at).rev();
        lengths.take_while(|at| *at >= SHORTEST_AT_CUT).find(|at| text.ends_with(&self.text[..*at]))
    }

    /// The end of the secret that begins `text`.
    fn ended_at_start(&self, text: &str) -> Option<usize> {
        let starts = self.text.char_indices().map(|(at, _)| at).skip(1);
        let lengths = starts.map(|at| self.text.len() - at).take_while(|length| *length >= SHORTEST_AT_CUT);
        lengths.into_iter().find(|length| text.starts_with(&self.text[self.text.len() - length..]))
    }
}

fn same_beginning(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

fn same_end(a: &str, b: &str) -> usize {
    a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

/// Whether a part of a secret is distinctive enough to be masked, and no word that people write.
fn is_random(part: &str) -> bool {
    let distinct: BTreeSet<char> = part.chars().collect();
    distinct.len() >= FEWEST_CHARACTERS
        && part.chars().any(|c| c.is_ascii_digit())
        && part.chars().any(char::is_alphabetic)
        && (part.len() < SHORTEST_WORD || is_worth_hiding(part))
}

/// The parts of secrets right before and after the places where a tool cut its text, which the tool marks itself.
pub(super) fn at_cuts(forms: &[SecretForm], text: &str) -> Vec<Range<usize>> {
    static CUT: OnceLock<Option<Regex>> = OnceLock::new();
    let cut = CUT.get_or_init(|| Regex::new(r"\[\.\.\. \d+ [a-z0-9 ]+ cut[a-z ]*(?: \.\.\.)?\]").ok());
    let mut places = Vec::new();
    for mark in cut.iter().flat_map(|cut| cut.find_iter(text)) {
        let before = text[..mark.start()].strip_suffix([' ', '\n']).unwrap_or(&text[..mark.start()]);
        let rest = text[mark.end()..].strip_prefix('\n');
        for form in forms {
            places.extend(form.begun_at_end(before).map(|length| before.len() - length..before.len()));
            let ended = rest.and_then(|rest| form.ended_at_start(rest));
            places.extend(ended.map(|length| mark.end() + 1..mark.end() + 1 + length));
        }
    }
    places
}

/// The texts that represent `secret`, including itself.
pub(super) fn forms_of(secret: &str) -> BTreeSet<String> {
    let in_json = Value::from(secret).to_string();
    let in_json = in_json.get(1..in_json.len() - 1).unwrap_or_default();
    let mut forms = BTreeSet::from([secret.to_owned(), in_json.to_owned(), in_json.replace('/', "\\/")]);
    for form in [in_json.to_owned(), in_json.replace('/', "\\/")] {
        forms.insert(with(&form, "&<>'", |c| format!("\\u{c:04x}")));
        forms.insert(with(&form, "&<>", |c| format!("\\u{c:04x}")));
        forms.insert(with(&form, "&<>'", |c| format!("\\u{c:04X}")));
    }
    for encoded_set in [&ENCODED, &ENCODED_BUT_SLASHES, &ENCODED_BY_SCRIPTS] {
        let encoded = utf8_percent_encode(secret, encoded_set).to_string();
        for form in [encoded.replace("%20", "+"), encoded] {
            forms.insert(in_lower_hex(&form));
            forms.insert(form);
        }
    }
    for (single, double) in [("&#39;", "&#34;"), ("&#x27;", "&quot;"), ("'", "&quot;"), ("'", "\"")] {
        let plain = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        forms.insert(plain.replace('\'', single).replace('"', double));
    }
    forms.extend(words(secret));
    forms
}

/// `text` with something else in place of each of `chars`.
fn with(text: &str, chars: &str, form: impl Fn(u32) -> String) -> String {
    text.chars().map(|c| if chars.contains(c) { form(u32::from(c)) } else { c.to_string() }).collect()
}

/// `encoded` with the digits after `%` in lower case.
fn in_lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        out.push('%');
        out.push_str(&digits.to_ascii_lowercase());
        out.push_str(rest);
    }
    out
}

/// The words of a secret of several lines that are secrets by themselves: the lines of a private key, the fields of an
/// account. Tools put numbers and names before lines, and show some lines only.
fn words(secret: &str) -> BTreeSet<String> {
    let text = secret.replace("\\n", "\n");
    if !text.trim().contains('\n') {
        return BTreeSet::new();
    }
    let separates =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | ':' | '=' | '{' | '}');
    let words = text.split(separates);
    let is_secret = |word: &&str| word.len() >= SHORTEST_WORD && !word.starts_with("//") && is_random(word);
    words.filter(is_secret).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::redactor;

    const KEY: &str = "sk-live-canary-9f31c0d7-ABCDEF";

    /// What is shown of `text` where `secret` is known.
    #[track_caller]
    fn check(secret: &str, text: &str, expected: &str) {
        assert_eq!(redactor(&[secret]).text(text), expected, "{text}");
    }

    #[test]
    fn a_secret_is_found_in_the_forms_that_programs_give_it() {
        let secret = "Ab+Cd/Ef9==Gh?x&Kl12m<n'";
        for form in [
            "Ab%2BCd%2FEf9%3D%3DGh%3Fx%26Kl12m%3Cn%27",
            "Ab%2bCd%2fEf9%3d%3dGh%3fx%26Kl12m%3cn%27",
            "Ab%2BCd/Ef9%3D%3DGh%3Fx%26Kl12m%3Cn%27",
            "Ab+Cd/Ef9==Gh?x&amp;Kl12m&lt;n'",
            "Ab+Cd/Ef9==Gh?x&amp;Kl12m&lt;n&#39;",
            "Ab+Cd\\/Ef9==Gh?x&Kl12m<n'",
            "Ab+Cd/Ef9==Gh?x\\u0026Kl12m\\u003cn'",
            "Ab+Cd\\/Ef9==Gh?x\\u0026Kl12m\\u003Cn\\u0027",
        ] {
            check(secret, &format!("<{form}>"), "<[redacted]>");
        }
    }

    #[test]
    fn a_long_part_is_masked_and_a_short_one_is_a_word() {
        check(KEY, &format!("bad key {}.", &KEY[..29]), "bad key [redacted].");
        check(KEY, &format!("bad key ...{}.", &KEY[6..]), "bad key ...[redacted].");
        check(KEY, &KEY[..18], "[redacted]");
        check(KEY, "sk-live-canary in the coal mine", "sk-live-canary in the coal mine");
        let words = "correct horse battery staple";
        check(words, "correct horse battery", "correct horse battery");
        let address = "https://hooks.example.com/services/9f31c0d7ab";
        check(address, "https://hooks.example.com/services/1", "https://hooks.example.com/services/1");
    }

    #[test]
    fn the_lines_of_a_secret_are_secrets_and_its_words_are_not() {
        let lines =
            ["MIIEowIBAAKCAQEA7Kp2mQx9Lw4Zt8Rv3Ns6Hb5Jd1Fg0YcTuEaWiXoBnMqPzSkZ", "qPzSkZ7Kp2mQx9Lw4Zt8"];
        let key = format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n{}\n-----END OPENSSH PRIVATE KEY-----",
            lines[0], lines[1]
        );
        check(&key, &format!("     2\t{}\n", lines[0]), "     2\t[redacted]\n");
        check(&key, &format!("key:3:{}", lines[1]), "key:3:[redacted]");
        let begin = "-----BEGIN OPENSSH PRIVATE KEY-----\n-----END OPENSSH PRIVATE KEY-----";
        check(&key, begin, begin);
        let account = "{\n  \"type\": \"service_account\",\n  \"auth_uri\": \"https://accounts.google.com/o/oauth2/auth\",\n  \
                       \"private_key_id\": \"9f31c0d7ab5e0c81fa77\"\n}";
        let other =
            "\"type\": \"service_account\", \"auth_uri\": \"https://accounts.google.com/o/oauth2/auth\"";
        check(account, other, other);
        check(account, "id 9f31c0d7ab5e0c81fa77", "id [redacted]");
    }

    #[test]
    fn what_is_left_at_a_cut_is_masked() {
        check(
            KEY,
            &format!("k={} [... 29 bytes of this line cut]", &KEY[..6]),
            "k=[redacted] [... 29 bytes of this line cut]",
        );
        let cut = "\n[... 9 of 15009 bytes cut from the middle of the output ...]\n";
        check(KEY, &format!("x{}{cut}{}y", &KEY[..9], &KEY[20..]), &format!("x[redacted]{cut}[redacted]y"));
        check(
            KEY,
            &format!("a\n[... 7 bytes cut ...]\n{}", &KEY[25..]),
            "a\n[... 7 bytes cut ...]\n[redacted]",
        );
        check(KEY, &format!("task{cut}b"), &format!("task{cut}b"));
    }
}
