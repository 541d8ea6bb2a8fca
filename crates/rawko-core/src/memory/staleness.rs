//! Whether the files that a memory speaks of are unchanged.
//!
//! Owns the judgement and what it takes off the score; the tree is read elsewhere.

use serde::Serialize;

/// Most files that the text for an agent names.
const MAX_NAMED: usize = 3;
/// Most characters of such a name.
const MAX_PATH: usize = 50;
/// Most that staleness takes off a score.
pub const MAX_STALENESS: f64 = 15.0;

/// What was found in the tree of a memory's `paths` and `files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Staleness {
    /// Files whose content is another than when the memory was written.
    pub changed: Vec<String>,
    /// Files that are not there any more.
    pub missing: Vec<String>,
    /// Whether the memory names `paths`, and nothing is at any of them.
    pub nothing_left: bool,
}

impl Staleness {
    /// Whether anything was found.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.nothing_left || !self.changed.is_empty() || !self.missing.is_empty()
    }

    /// What it takes off the score: 15 where what the memory speaks of is gone, 5 for each file that changed or went, up
    /// to 10. A changed file need not make a memory wrong, so that it is demoted and not dropped.
    #[must_use]
    pub fn malus(&self) -> f64 {
        if self.nothing_left {
            return MAX_STALENESS;
        }
        let files = u32::try_from(self.changed.len() + self.missing.len()).unwrap_or(u32::MAX);
        f64::from(files.min(2)) * 5.0
    }

    /// One sentence for an agent that gets the memory; a list of files would cost more of the prompt than the memory
    /// itself.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        let missing = &self.missing[..self.missing.len().min(MAX_NAMED)];
        let changed = &self.changed[..self.changed.len().min(MAX_NAMED - missing.len())];
        let others = self.missing.len() + self.changed.len() - missing.len() - changed.len();
        let mut parts = Vec::new();
        if self.nothing_left {
            parts.push("nothing is left at the paths it speaks of".to_owned());
        }
        for (what, files) in [("gone since", missing), ("changed since", changed)] {
            if !files.is_empty() {
                parts.push(format!(
                    "{what}: {}",
                    files.iter().map(|file| short(file)).collect::<Vec<_>>().join(", ")
                ));
            }
        }
        match others {
            0 => {}
            1 => parts.push("and one more file".to_owned()),
            more => parts.push(format!("and {more} more files")),
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// A sentence for each thing that was found.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.nothing_left {
            all.push("nothing is left at the paths it speaks of".to_owned());
        }
        all.extend(self.missing.iter().map(|path| format!("the file {path} is gone since")));
        all.extend(self.changed.iter().map(|path| format!("the file {path} has changed since")));
        all
    }
}

/// The end of a path, which names the file.
fn short(path: &str) -> String {
    let skipped = path.chars().count().saturating_sub(MAX_PATH);
    if skipped == 0 {
        path.to_owned()
    } else {
        format!("…{}", path.chars().skip(skipped).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_price_is_bounded() {
        let files = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
        let check = |changed, missing, nothing_left, malus: f64| {
            let staleness = Staleness { changed: files(changed), missing: files(missing), nothing_left };
            assert!((staleness.malus() - malus).abs() < 1e-9, "{staleness:?}");
            assert_eq!(staleness.is_stale(), malus > 0.0);
        };
        check(0, 0, false, 0.0);
        check(1, 0, false, 5.0);
        check(9, 9, false, 10.0);
        check(9, 9, true, MAX_STALENESS);
    }

    #[test]
    fn one_sentence_names_three_files_at_most() {
        let check = |missing: &[&str], changed: &[&str], nothing_left, expected: Option<&str>| {
            let owned = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect();
            let staleness = Staleness { changed: owned(changed), missing: owned(missing), nothing_left };
            assert_eq!(staleness.summary().as_deref(), expected);
            assert_eq!(
                staleness.sentences().len(),
                missing.len() + changed.len() + usize::from(nothing_left)
            );
        };
        check(&[], &[], false, None);
        check(&[], &["a.rs"], false, Some("changed since: a.rs"));
        check(
            &["a.rs", "b.rs"],
            &["c.rs", "d.rs"],
            false,
            Some("gone since: a.rs, b.rs; changed since: c.rs; and one more file"),
        );
        check(&["a", "b", "c", "d"], &["e", "f"], false, Some("gone since: a, b, c; and 3 more files"));
        check(&["a"], &[], true, Some("nothing is left at the paths it speaks of; gone since: a"));
        let long = format!("src/{}/a.rs", "x".repeat(100));
        let sentence = format!("changed since: …{}/a.rs", "x".repeat(45));
        check(&[], &[&long], false, Some(&sentence));
    }
}
