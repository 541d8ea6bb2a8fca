//! Precision, recall and false finds of what was found.

use super::set::LabelledQuery;

/// What was found for a query.
#[derive(Debug, Clone)]
pub(super) struct Answer<'a> {
    /// The query.
    pub(super) query: &'a LabelledQuery,
    /// The ids of what was found, best first.
    pub(super) found: Vec<String>,
}

/// How well it was found, over all (task, memory) pairs together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    /// How many queries.
    pub(super) queries: usize,
    /// Of all that was found, the share that is relevant; 1 where nothing was found.
    pub(super) precision: f64,
    /// Of all that is relevant, the share that was found; 1 where nothing is relevant.
    pub(super) recall: f64,
    /// The harmonic mean of precision and recall.
    pub(super) f1: f64,
    /// How many memories were found a query.
    pub(super) found: f64,
    /// Queries without a fitting memory for which something was found.
    pub(super) false_finds: usize,
    /// Labelled lures that were found.
    pub(super) lures: usize,
}

/// The figures over these answers.
pub(super) fn figures(answers: &[Answer<'_>]) -> Figures {
    let count = |of: &dyn Fn(&Answer<'_>) -> usize| answers.iter().map(of).sum::<usize>();
    let hits = count(&|answer| answer.found.iter().filter(|id| answer.query.relevant.contains(id)).count());
    let found = count(&|answer| answer.found.len());
    let precision = share(hits, found, 1.0);
    let recall = share(hits, count(&|answer| answer.query.relevant.len()), 1.0);
    let sum = precision + recall;
    Figures {
        queries: answers.len(),
        precision,
        recall,
        f1: if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 },
        found: share(found, answers.len(), 0.0),
        false_finds: count(&|answer| {
            usize::from(answer.query.relevant.is_empty() && !answer.found.is_empty())
        }),
        lures: count(&|answer| answer.query.irrelevant.iter().filter(|id| answer.found.contains(id)).count()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a number of pairs")]
fn share(part: usize, whole: usize, of_nothing: f64) -> f64 {
    if whole == 0 { of_nothing } else { part as f64 / whole as f64 }
}

/// Figures as a table in Markdown, as `docs/memory-evaluation.md` holds it.
pub(super) fn table(rows: &[(String, Figures)]) -> String {
    let mut text = String::from(
        "| patterns, context, tasks | tasks | precision | recall | F1 | found a task | lures | false finds |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (name, of) in rows {
        text.push_str(&format!(
            "| {name} | {} | {:.2} | {:.2} | {:.2} | {:.1} | {} | {} |\n",
            of.queries, of.precision, of.recall, of.f1, of.found, of.lures, of.false_finds,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::Kind;

    #[test]
    fn figures_are_what_their_names_say() {
        let query = |relevant: &[&str], irrelevant: &[&str]| {
            let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
            let (id, task, agent) = (String::new(), String::new(), String::new());
            let (relevant, irrelevant) = (owned(relevant), owned(irrelevant));
            LabelledQuery { id, kind: Kind::Words, task, agent, relevant, irrelevant }
        };
        let check = |answers: &[(&LabelledQuery, &[&str])], expected: (f64, f64, usize, usize)| {
            let owned = |found: &[&str]| found.iter().map(|id| (*id).to_owned()).collect();
            let answers: Vec<Answer<'_>> =
                answers.iter().map(|(query, found)| Answer { query, found: owned(found) }).collect();
            let got = figures(&answers);
            assert_eq!((got.precision, got.recall, got.false_finds, got.lures), expected);
        };
        let (two, none) = (query(&["a", "b"], &["x", "y"]), query(&[], &["x"]));
        check(&[(&two, &["a", "b"])], (1.0, 1.0, 0, 0));
        check(&[(&two, &["x", "a"])], (0.5, 0.5, 0, 1));
        check(&[(&two, &[])], (1.0, 0.0, 0, 0));
        check(&[(&none, &["x", "z"])], (0.0, 1.0, 1, 1));
        check(&[(&two, &["a", "b"]), (&none, &["x", "z"])], (0.5, 1.0, 1, 1));
    }
}
