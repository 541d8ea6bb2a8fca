//! How much may be spent on expressions that need an engine.
//!
//! A memory may come from a stranger, and there may be thousands: reading one expression is bounded by the core, reading all of them here. An
//! [`Effort`] lasts for one piece of work, on several threads; what is beyond it is done without.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most expressions that are compiled for one piece of work. (Tests would be slow with so many.)
pub(super) const MAX_COMPILED: u64 = if cfg!(test) { 100 } else { 5_000 };
/// What compiling may cost together, by [`cost`].
const MAX_COMPILING: u64 = 1_000_000;
/// What may be spent on finding out what an expression needs, without compiling it.
const MAX_LOOKING: u64 = 40_000_000;

/// What is left to spend.
#[derive(Debug)]
pub(super) struct Effort {
    expressions: AtomicU64,
    cost: AtomicU64,
    most: (u64, u64),
    is_spent: AtomicBool,
}

impl Effort {
    /// For compiling.
    pub(super) fn compiling() -> Self {
        Self::of(MAX_COMPILED, MAX_COMPILING)
    }

    /// For looking at what an expression needs.
    pub(super) fn looking() -> Self {
        Self::of(u64::MAX, MAX_LOOKING)
    }

    /// For somebody who asked for all of it.
    pub(super) fn unbounded() -> Self {
        Self::of(u64::MAX, u64::MAX)
    }

    fn of(expressions: u64, cost: u64) -> Self {
        let (most, is_spent) = ((expressions, cost), AtomicBool::new(false));
        Self { expressions: AtomicU64::new(0), cost: AtomicU64::new(0), most, is_spent }
    }

    /// Whether this expression may be read as well.
    pub(super) fn takes(&self, text: &str) -> bool {
        let before = self.expressions.fetch_add(1, Ordering::Relaxed);
        let spent = self.cost.fetch_add(cost(text), Ordering::Relaxed);
        let takes = before < self.most.0 && spent < self.most.1;
        if !takes {
            self.is_spent.store(true, Ordering::Relaxed);
        }
        takes
    }

    /// Whether anything was not taken.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }
}

/// About what an expression costs: each class of characters as much as a hundred characters, for it may stand for thousands; a bounded repetition
/// more; all of it with flags of its own, case for one, a multiple.
fn cost(text: &str) -> u64 {
    let weight = |c| match c {
        '\\' | '[' | '.' => 100,
        '{' => 500,
        _ => 1,
    };
    let sum: u64 = text.chars().map(weight).sum();
    let has_flags = text.match_indices("(?").any(|(at, _)| !text[at..].starts_with("(?:"));
    if has_flags { sum * 10 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_spent() {
        let check = |effort: Effort, text: &str, times: u64| {
            let taken = (0..times + 3).filter(|_| effort.takes(text)).count();
            assert_eq!((taken as u64, effort.is_spent()), (times, true), "{text}");
        };
        check(Effort::compiling(), "a(b|c)d", MAX_COMPILED);
        check(Effort::of(9, 1_000), "(a)", 9);
        check(Effort::of(9, 1_000), r"\w{4}", 2);
        check(Effort::of(9, 3_000), r"(?i)\w", 3);
        check(Effort::of(9, 3_000), r"(?:a)", 9);
        let effort = Effort::of(2, 1_000);
        assert!(effort.takes("(") && effort.takes("(") && !effort.is_spent());
    }
}
