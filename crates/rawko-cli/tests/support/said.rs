//! What a command printed, and how it ended.

use std::process::Output;

use serde_json::Value;

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit status; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
            err: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
        }
    }

    /// Its exit status, standard output and standard error.
    pub(crate) fn parts(self) -> (Option<i32>, String, String) {
        (self.code, self.out, self.err)
    }

    /// It ended with this exit status.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Standard output has all of these parts.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        has_all(&self.out, parts);
        self
    }

    /// Standard error has all of these parts.
    #[track_caller]
    pub(crate) fn complains(self, parts: &[&str]) -> Self {
        has_all(&self.err, parts);
        self
    }

    /// It ended with this exit status, and standard output and standard error together have all of these parts.
    #[track_caller]
    pub(crate) fn check(self, code: i32, parts: &[&str]) -> Self {
        has_all(&format!("{}{}", self.out, self.err), parts);
        self.ends(code)
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error} in\n{}\n{}", self.out, self.err))
    }

    /// Standard output as JSON values, one a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The last event.
    #[track_caller]
    pub(crate) fn finish(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|_| panic!("no event: {}{}", self.out, self.err))
    }
}

#[track_caller]
fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

/// What holds for every command: the key is in nothing that it printed, and no control character reaches the terminal.
#[track_caller]
pub(crate) fn check_clean(key: &str, out: &str, err: &str) {
    for (name, text) in [("stdout", out), ("stderr", err)] {
        assert!(!text.contains(key), "the key is in {name}:\n{text}");
        let wild = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(wild, None, "a control character in {name}:\n{text:?}");
    }
}
