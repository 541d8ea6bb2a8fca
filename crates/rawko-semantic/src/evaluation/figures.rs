//! Precision, recall and rank of what was found.

use super::set::LabelledQuery;

/// What was found for a query.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// The query.
    pub query: &'a LabelledQuery,
    /// The ids of what was found, best first.
    pub found: Vec<String>,
}

/// How well it was found. All between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// How many queries.
    pub queries: usize,
    /// Of all that was found, the share that is relevant; 1 where nothing was found.
    pub precision: f64,
    /// Of all that is relevant, the share that was found; 1 where nothing is relevant.
    pub recall: f64,
    /// The same among the first three of each query.
    pub recall_at_3: f64,
    /// The same among the first five: what an agent is told by default.
    pub recall_at_5: f64,
    /// The mean of 1/rank of the first relevant one, over the queries that have any.
    pub mrr: f64,
    /// Of the pairs labelled as "looks so, and is not", the share that was not found.
    pub refused: f64,
    /// How many are found a query.
    pub found: f64,
}

/// The figures over these answers: of all pairs together, so that a query with many relevant memories counts for more.
#[must_use]
pub fn figures(answers: &[Answer<'_>]) -> Figures {
    let count = |of: &dyn Fn(&Answer<'_>) -> usize| answers.iter().map(of).sum::<usize>();
    let hits = |answer: &Answer<'_>, first: usize| {
        answer.found.iter().take(first).filter(|id| answer.query.relevant.contains(id)).count()
    };
    let relevant = count(&|answer| answer.query.relevant.len());
    let found = count(&|answer| answer.found.len());
    let lures = count(&|answer| answer.query.irrelevant.len());
    let taken =
        count(&|answer| answer.query.irrelevant.iter().filter(|id| answer.found.contains(id)).count());
    let ranks: Vec<f64> = answers
        .iter()
        .filter(|answer| !answer.query.relevant.is_empty())
        .map(|answer| {
            let first = answer.found.iter().position(|id| answer.query.relevant.contains(id));
            first.map_or(0.0, |at| 1.0 / float(at + 1))
        })
        .collect();
    Figures {
        queries: answers.len(),
        precision: share(count(&|answer| hits(answer, usize::MAX)), found),
        recall: share(count(&|answer| hits(answer, usize::MAX)), relevant),
        recall_at_3: share(count(&|answer| hits(answer, 3)), relevant),
        recall_at_5: share(count(&|answer| hits(answer, 5)), relevant),
        mrr: if ranks.is_empty() { 1.0 } else { ranks.iter().sum::<f64>() / float(ranks.len()) },
        refused: 1.0 - if lures == 0 { 0.0 } else { share(taken, lures) },
        found: if answers.is_empty() { 0.0 } else { float(found) / float(answers.len()) },
    }
}

impl Figures {
    /// The harmonic mean of precision and recall.
    #[must_use]
    pub fn f1(&self) -> f64 {
        let sum = self.precision + self.recall;
        if sum > 0.0 { 2.0 * self.precision * self.recall / sum } else { 0.0 }
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { float(part) / float(whole) }
}

#[allow(clippy::cast_precision_loss, reason = "a number of pairs")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::Kind;

    fn query(relevant: &[&str], irrelevant: &[&str]) -> LabelledQuery {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        LabelledQuery {
            id: String::new(),
            kind: Kind::Words,
            task: String::new(),
            agent: String::new(),
            relevant: owned(relevant),
            irrelevant: owned(irrelevant),
        }
    }

    fn check(answers: &[(&LabelledQuery, &[&str])], expected: [f64; 6]) {
        let answers: Vec<Answer<'_>> = answers
            .iter()
            .map(|(query, found)| Answer { query, found: found.iter().map(|id| (*id).to_owned()).collect() })
            .collect();
        let got = figures(&answers);
        let all = [got.precision, got.recall, got.recall_at_3, got.recall_at_5, got.mrr, got.refused];
        assert!(all.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-9), "{got:?}");
    }

    #[test]
    fn figures_are_what_their_names_say() {
        let two = query(&["a", "b"], &["x", "y"]);
        let none = query(&[], &["x"]);
        check(&[(&two, &["a", "b"])], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(&[(&two, &["x", "a"])], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        check(&[(&two, &["1", "2", "3", "a"])], [0.25, 0.5, 0.0, 0.5, 0.25, 1.0]);
        check(&[(&two, &["1", "2", "3", "4", "5", "a"])], [1.0 / 6.0, 0.5, 0.0, 0.0, 1.0 / 6.0, 1.0]);
        check(&[(&two, &[])], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        check(&[(&none, &[])], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(&[(&none, &["x"])], [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
        check(&[(&two, &["a", "b"]), (&none, &["x", "z"])], [0.5, 1.0, 1.0, 1.0, 1.0, 2.0 / 3.0]);
        check(&[], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }
}
