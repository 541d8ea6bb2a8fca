//! Finds the lines of a file that most resemble a text that was not found.

use crate::call::bounded_line;
use crate::line_numbers::push_line;

/// The beginning of every message about a text that was not found.
pub(crate) const NOT_FOUND: &str = "old_string was not found; nothing was written.";

/// The most lines of a file that are compared.
const MAX_LINES: usize = 20_000;
/// The most bytes of a line that are compared and shown.
const MAX_LINE_BYTES: usize = 300;
/// The most lines of the wanted text that are compared and shown.
const MAX_BLOCK: usize = 20;
/// The most comparisons of two lines.
const MAX_COMPARISONS: usize = 200_000;
/// The least similarity worth showing, of a line or on average of a block.
const LIKENESS: f64 = 0.6;

/// An error message that shows what in `content` comes closest to `wanted`, with its line number.
pub(crate) fn nearest(content: &[u8], wanted: &str) -> String {
    let text = String::from_utf8_lossy(content);
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    let wanted: Vec<&str> = wanted.lines().skip_while(|l| l.trim().is_empty()).collect();
    let Some(first) = wanted.first() else {
        return format!("{NOT_FOUND} It consists of whitespace only: include a line with text.");
    };
    if let Some(at) = same_but_for_whitespace(&lines, &wanted) {
        return format!(
            "{NOT_FOUND} The text at line {} differs only in whitespace (indentation, tabs, trailing spaces). It reads:\n{}",
            at + 1,
            numbered(&lines, at, wanted.len().min(MAX_BLOCK))
        );
    }
    let is_like = |best: &(usize, f64)| best.1 >= LIKENESS;
    let block = most_alike(&lines, &wanted).filter(is_like);
    match block.or_else(|| most_alike(&lines, &[first]).filter(is_like)) {
        Some((at, _)) => {
            let shown = numbered(&lines, at, wanted.len().min(MAX_BLOCK));
            format!("{NOT_FOUND} The nearest match is at line {}:\n{shown}Copy the text exactly.", at + 1)
        }
        _ => format!("{NOT_FOUND} Nothing in the file resembles it: read the file again."),
    }
}

fn same_but_for_whitespace(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = wanted.iter().map(|l| squeeze(l)).collect();
    let squeezed: Vec<String> = lines.iter().map(|l| squeeze(l)).collect();
    squeezed.windows(wanted.len()).position(|window| window == wanted)
}

/// Where the lines of `wanted` resemble those of the file most, one below the other, and how much on average. Empty
/// lines say nothing. The first of several places.
fn most_alike(lines: &[&str], wanted: &[&str]) -> Option<(usize, f64)> {
    let head = |line: &&str| line[..line.floor_char_boundary(MAX_LINE_BYTES)].trim().to_owned();
    let lines: Vec<String> = lines.iter().map(head).collect();
    let compared = MAX_BLOCK.min(MAX_COMPARISONS / lines.len().max(1)).max(1);
    let wanted: Vec<String> = wanted.iter().take(compared).map(head).collect();
    let text = || wanted.iter().enumerate().filter(|(_, line)| !line.is_empty());
    let count = u32::try_from(text().count()).ok().filter(|count| *count > 0)?;
    let score = |at: usize| {
        let sum: f64 =
            text().map(|(n, line)| lines.get(at + n).map_or(0.0, |there| likeness(there, line))).sum();
        sum / f64::from(count)
    };
    let scores = (0..lines.len()).map(|at| (at, score(at)));
    scores.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
}

/// How alike two lines are, from 0 to 1.
fn likeness(a: &str, b: &str) -> f64 {
    // Lines of very different length are not similar; this saves most comparisons.
    let (short, long) = (a.len().min(b.len()), a.len().max(b.len()));
    if short * 3 < long { 0.0 } else { strsim::sorensen_dice(a, b) }
}

fn numbered(lines: &[&str], from: usize, count: usize) -> String {
    let mut shown = String::new();
    for (number, line) in (1..).zip(lines).skip(from).take(count) {
        push_line(&mut shown, number, &bounded_line(line, MAX_LINE_BYTES));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, wanted: &str, said: &str) {
        let message = nearest(content.as_bytes(), wanted);
        assert!(message.contains(said), "{said:?} is missing in {message:?}");
    }

    #[test]
    fn names_the_line_that_comes_nearest() {
        check("a\n\tfn main() {\n", "    fn main() {", "line 2 differs only in whitespace");
        check(
            "x\nlet total = 1;\ny\n",
            "let totals = 2;",
            "nearest match is at line 2:\n     2\tlet total = 1;",
        );
        // The first line is there twice; the block as a whole says which one is meant.
        check(
            "for x in xs:\n    print(x)\n\nfor x in xs:\n    total += x.size\n    seen.add(x)\n",
            "for x in xs:\n    total += x.length\n    seen.add(x)",
            "nearest match is at line 4:\n     4\tfor x in xs:\n     5\t    total += x.size\n     6\t    seen.add(x)",
        );
        // A first line that is not there says nothing about the rest.
        check(
            "def f(a):\n    return first(a)\n\ndef g(a):\n    b = second(a)\n    c = third(b)\n    return c\n",
            "@cached\n    b = second(a)\n    c = third(bb)\n    return c",
            "nearest match is at line 4:",
        );
        check("x\ny\n", "something else entirely", "Nothing in the file resembles it");
        check("x\n", "  \n", "consists of whitespace only");
        check("", "x", "Nothing in the file resembles it");
    }
}
