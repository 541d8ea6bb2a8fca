//! Figures as a table in Markdown, as `docs/memory-evaluation.md` holds it.

use super::figures::Figures;

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was searched how.
    pub name: String,
    /// How well.
    pub figures: Figures,
}

/// The table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| search | queries | precision | recall | recall@3 | recall@5 | MRR | lures refused | found a query |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for Row { name, figures } in rows {
        text.push_str(&format!(
            "| {name} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |\n",
            figures.queries,
            figures.precision,
            figures.recall,
            figures.recall_at_3,
            figures.recall_at_5,
            figures.mrr,
            figures.refused,
            figures.found,
        ));
    }
    text
}
