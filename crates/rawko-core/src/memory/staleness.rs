//! Whether what a memory speaks of is still as it was.
//!
//! Owns the judgement and its price; looking at the tree is done elsewhere.

use serde::Serialize;

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

    /// Sentences for whoever reads the memory.
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
}
