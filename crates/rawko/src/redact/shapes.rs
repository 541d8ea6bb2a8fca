//! Tokens that are known by their shape: what clouds, forges, registries and model services issue, and private keys.
//!
//! The table is in `shapes.json`, with where each shape is documented. Only shapes that nothing else has are in it: a
//! hash, a line of a lock file or base64 is no secret by its looks. So neither are JSON web tokens, of which test data
//! is full. A private key is masked line by line, so that the numbers of lines stay.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use rawko_provider::is_worth_hiding;
use regex::Regex;
use serde::Deserialize;

/// A random token repeats its characters less than a made-up one (`ghp_xxxxxxxx`).
const FEWEST_CHARACTERS: usize = 8;
/// Lines after which a private key that does not end is none.
const LONGEST_KEY: usize = 400;
/// The first line of a private key is longer than a word in a text about private keys.
const SHORTEST_LINE: usize = 40;
const KIND_OF_KEY: &str = "private-key";

/// A token, and what it is: `github-token`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) range: Range<usize>,
    pub(super) kind: &'static str,
}

struct Shape {
    kind: String,
    /// A text that all of its tokens have.
    mark: String,
    pattern: String,
    /// Compiled for the first text with the mark: most runs see no token, and all patterns together take milliseconds.
    compiled: OnceLock<Option<Regex>>,
}

impl Shape {
    /// What finds its tokens in `text`, if there can be any. A pattern that does not compile fails a test.
    fn in_text(&self, text: &str) -> Option<&Regex> {
        if !text.contains(&self.mark) {
            return None;
        }
        self.compiled.get_or_init(|| Regex::new(&self.pattern).ok()).as_ref()
    }
}

/// An entry of the table; its `source` is for people.
#[derive(Deserialize)]
struct ShapeEntry {
    /// By their marks.
    patterns: BTreeMap<String, String>,
}

/// The table.
fn shapes() -> &'static [Shape] {
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let table: BTreeMap<String, ShapeEntry> =
            serde_json::from_str(include_str!("shapes.json")).unwrap_or_default();
        let shapes = |(kind, entry): (String, ShapeEntry)| {
            entry.patterns.into_iter().map(move |(mark, pattern)| Shape {
                kind: kind.clone(),
                mark,
                pattern,
                compiled: OnceLock::new(),
            })
        };
        table.into_iter().flat_map(shapes).collect()
    })
}

/// The tokens in `text`, in order. None overlaps another.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut found = private_keys(text);
    for shape in shapes() {
        let Some(pattern) = shape.in_text(text) else { continue };
        for captures in pattern.captures_iter(text) {
            let Some(token) = captures.get(1).or_else(|| captures.get(0)) else { continue };
            if stands_alone(text, &token.range()) && is_random(token.as_str()) {
                found.push(Token { range: token.range(), kind: &shape.kind });
            }
        }
    }
    found.sort_by_key(|token| (token.range.start, std::cmp::Reverse(token.range.end)));
    let mut end = 0;
    found.retain(|token| {
        let is_free = token.range.start >= end;
        end = end.max(token.range.end);
        is_free
    });
    found
}

/// A longer word that only contains the shape is something else.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    // In JSON and in logs the two characters `\n` may come before it.
    let escaped = before == Some('n') && text[..range.start].ends_with("\\n");
    (escaped || !before.is_some_and(belongs)) && !after.is_some_and(|c| belongs(c) || c == '-')
}

/// Documentation has `AKIAIOSFODNN7EXAMPLE` and `ghp_xxxxxxxxxxxx`.
fn is_random(token: &str) -> bool {
    let distinct: std::collections::BTreeSet<char> = token.chars().collect();
    distinct.len() >= FEWEST_CHARACTERS
        && is_worth_hiding(token)
        && !token.to_ascii_uppercase().contains("EXAMPLE")
}

/// The lines of private keys in PEM's form. Text before them on their lines stays: line numbers, indentation, file names.
fn private_keys(text: &str) -> Vec<Token> {
    static BEGIN: OnceLock<Option<Regex>> = OnceLock::new();
    let begin =
        BEGIN.get_or_init(|| Regex::new("-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----").ok());
    let mut found = Vec::new();
    for mark in begin.iter().flat_map(|begin| begin.find_iter(text)) {
        let rest = &text[mark.end()..];
        let rest = &rest[..rest.find("-----END").unwrap_or(rest.len())];
        let mut at = mark.end();
        let mut begun = false;
        for (number, line) in rest.split_inclusive('\n').take(LONGEST_KEY).enumerate() {
            // The rest of the line with BEGIN: a whole key where line breaks are written as `\n`.
            let is_key = if number == 0 { key_in_one_line(line) } else { key_line(line) };
            if let Some(range) = is_key.filter(|range| begun || range.len() >= SHORTEST_LINE) {
                begun = true;
                found.push(Token { range: at + range.start..at + range.end, kind: KIND_OF_KEY });
            } else if number > 0 && !is_header(line) {
                break;
            }
            at += line.len();
        }
    }
    found
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')
}

/// The base64 that ends a line.
fn key_line(line: &str) -> Option<Range<usize>> {
    let line = line.trim_end();
    let start = line.char_indices().rev().take_while(|(_, c)| is_base64(*c)).last()?.0;
    // A header such as `DEK-Info: AES-128-CBC,0123ABCD` is none.
    let alone = line[..start].ends_with([' ', '\t', ':', '-', '"', '\'']) || start == 0;
    (alone && !is_header(line)).then_some(start..line.len())
}

fn key_in_one_line(line: &str) -> Option<Range<usize>> {
    let inside = |c: char| is_base64(c) || c == '\\';
    let start = line.find(inside)?;
    let end = line[start..].find(|c| !inside(c)).map_or(line.len(), |end| start + end);
    (end - start >= SHORTEST_LINE && line[..start].trim().is_empty()).then_some(start..end)
}

/// `Proc-Type: 4,ENCRYPTED`, `Version: 1`, and the blank line after them.
fn is_header(line: &str) -> bool {
    static HEADER: OnceLock<Option<Regex>> = OnceLock::new();
    let header = HEADER.get_or_init(|| Regex::new(r"^[\s\d:>|-]*(?:[A-Z][A-Za-z-]+: .*)?\s*$").ok());
    header.as_ref().is_some_and(|header| header.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens are put together here, so that no scanner takes this file for a leak.
    fn token(prefix: &str, characters: usize) -> String {
        let random = "7Kp2mQx9Lw4Zt8Rv3Ns6Hb5Jd1Fg0YcTuEaWiXoBnMqPzSk";
        prefix.to_owned() + &random.repeat(characters / random.len() + 1)[..characters]
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found: Vec<(&str, &str)> =
            tokens(text).into_iter().map(|token| (token.kind, &text[token.range])).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_pattern_compiles_and_names_its_source() {
        let table: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(include_str!("shapes.json")).unwrap();
        for (kind, entry) in &table {
            assert!(kind.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{kind}");
            assert!(entry["source"].as_str().unwrap().starts_with("https://"), "{kind}");
        }
        assert!(shapes().len() > 30);
        for shape in shapes() {
            assert!(shape.in_text(&shape.mark).is_some(), "{}", shape.pattern);
            assert!(
                shape.pattern.replace('\\', "").contains(&shape.mark),
                "{}: {}",
                shape.mark,
                shape.pattern
            );
        }
    }

    #[test]
    fn tokens_are_found_where_people_write_them() {
        let github = token("ghp_", 36);
        for text in
            [format!("TOKEN={github}"), format!("\"token\": \"{github}\","), format!("a\\n{github}\\nb")]
        {
            check(&text, &[("github-token", &github)]);
        }
        check(&format!("https://x:{github}@github.com/o/r.git"), &[("github-token", &github)]);
        let (gitlab, slack) = (token("glpat-", 20), token("xoxb-", 40));
        check(&format!("{gitlab} {slack}"), &[("gitlab-token", &gitlab), ("slack-token", &slack)]);
        let (ours, theirs) = (token("sk-ant-api03-", 95), token("sk-proj-", 80));
        check(&format!("A={ours}\nB={theirs}\n"), &[("anthropic-key", &ours), ("openai-key", &theirs)]);
        let google = token("AIza", 35);
        check(&format!("key={google}&x=1"), &[("google-key", &google)]);
        let aws = token("", 40);
        check(&format!("aws_secret_access_key = {aws}\n"), &[("aws-secret-key", &aws)]);
        check(
            &format!("aws_access_key_id = AKIA{}\n", "Q3EGWZ7MTX4BPLNR"),
            &[("aws-key-id", "AKIAQ3EGWZ7MTX4BPLNR")],
        );
        let storage = token("", 86) + "==";
        check(&format!("AccountName=a;AccountKey={storage};Endpoint=x"), &[("azure-key", &storage)]);
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for text in [
            "sha512-Q0iw0s+MTP5kcRLW0YCn2YQ1TyMNG9k2mLwmCcxJ4lTk0y2qSQ1QvYwY7pUpSN5IwzvSSGSgN2k0pZmD0WEDVQ==",
            "checksum = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
            "commit 97649b9a1d2c3e4f5061728394a5b6c7d8e9f001",
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "sk-ant-api03-your-key-here-your-key-here-your-key-here-your-key-here-your-key",
            "id: 550e8400-e29b-41d4-a716-446655440000",
            "gh[pousr]_[A-Za-z0-9]{36,255}",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
            "npm_config_registry npm_package_json npm_lifecycle_event npm_config_userconfig",
            "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
            "if text.contains(\"-----BEGIN PRIVATE KEY-----\") {\n    return Err(Kind::PrivateKey);\n}",
        ] {
            check(text, &[]);
        }
        // The shape within a longer word: base64 of something else.
        check(&format!("x{}y", token("ghp_", 36)), &[]);
    }

    #[test]
    fn a_private_key_is_masked_line_by_line() {
        let (one, two) = (token("", 64), token("M", 20));
        let pem = format!("-----BEGIN RSA PRIVATE KEY-----\n{one}\n{two}=\n-----END RSA PRIVATE KEY-----\n");
        let last = format!("{two}=");
        let expected = [("private-key", one.as_str()), ("private-key", last.as_str())];
        check(&pem, &expected);
        // As Read numbers it, as Grep shows it, and in YAML.
        let lines = |prefix: &dyn Fn(usize) -> String| -> String {
            pem.lines().enumerate().map(|(n, line)| format!("{}{line}\n", prefix(n))).collect()
        };
        check(&lines(&|n| format!("{:>6}\t", n + 1)), &expected);
        check(&lines(&|n| format!("keys/a.pem-{}-", n + 1)), &expected);
        check(&lines(&|_| "    ".to_owned()), &expected);
        let json = format!(
            "\"private_key\": \"-----BEGIN PRIVATE KEY-----\\n{one}\\n{last}\\n-----END PRIVATE KEY-----\\n\""
        );
        check(&json, &[("private-key", &format!("\\n{one}\\n{last}\\n"))]);
        let headers = format!(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123ABCD\n\n{one}\n-----END"
        );
        check(&headers, &[("private-key", &one)]);
    }
}
