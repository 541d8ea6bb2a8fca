//! Splits a Markdown agent into front matter, prompt and `## When to Use`.
//!
//! Owns where the parts begin and end (`docs/agents.md#files-of-agents`), not what the front matter's keys
//! mean. Headings and `---` lines inside code fences are text.

/// The parts of a Markdown agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentDocument<'a> {
    /// The YAML between the two `---` lines.
    pub(super) front: &'a str,
    /// The first line of the front matter in the file, from 0.
    pub(super) front_line: usize,
    /// The system prompt, trimmed. It may be empty.
    pub(super) prompt: String,
    /// The line in the file, from 1, at which the prompt begins or is expected.
    pub(super) prompt_line: usize,
    /// The `## When to Use` section, if there is one.
    pub(super) when_to_use: Option<WhenToUse>,
}

/// Content of a `## When to Use` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WhenToUse {
    Text(String),
    List(Vec<String>),
}

/// Why a file cannot be split, with the line (from 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoFrontMatter {
    pub(super) line: usize,
    pub(super) message: &'static str,
    pub(super) help: &'static str,
}

pub(super) fn split(text: &str) -> Result<AgentDocument<'_>, NoFrontMatter> {
    let (front, body, body_line) = front_matter(text)?;
    let lines: Vec<MarkdownLine<'_>> = lines(body).collect();
    let section = |name: &str| {
        let start = lines.iter().position(|line| line.is_section(name))?;
        let end = lines[start + 1..]
            .iter()
            .position(MarkdownLine::ends_section)
            .map_or(lines.len(), |n| start + 1 + n);
        Some(start..end)
    };
    let when = section("When to Use");
    let when_to_use = when.clone().and_then(|range| WhenToUse::of(&lines[range.start + 1..range.end]));
    let (prompt, first) = match section("System Prompt") {
        Some(range) => (join(&lines[range.start + 1..range.end]), range.start + 1),
        None => {
            let title =
                lines.iter().position(|line| !line.text.trim().is_empty()).filter(|n| lines[*n].level == 1);
            let kept: Vec<MarkdownLine<'_>> = lines
                .iter()
                .enumerate()
                .filter(|(n, _)| Some(*n) != title && !when.as_ref().is_some_and(|range| range.contains(n)))
                .map(|(_, line)| *line)
                .collect();
            (join(&kept), title.map_or(0, |n| n + 1))
        }
    };
    Ok(AgentDocument {
        front,
        front_line: 1,
        prompt,
        prompt_line: body_line + first.min(lines.len().saturating_sub(1)) + 1,
        when_to_use,
    })
}

/// The YAML between the first two `---` lines, the text after it, and that text's first line (from 0).
fn front_matter(text: &str) -> Result<(&str, &str, usize), NoFrontMatter> {
    let mut offset = 0;
    let mut start = None;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_fence = line.trim_end() == "---";
        match start {
            None if is_fence => start = Some(offset + line.len()),
            None => break,
            Some(start) if is_fence => {
                return Ok((&text[start..offset], &text[offset + line.len()..], number + 1));
            }
            Some(_) => {}
        }
        offset += line.len();
    }
    Err(match start {
        None => NoFrontMatter {
            line: 1,
            message: "the front matter is missing",
            help: "start the file with `---`, `name: …` and `---`, each on its own line",
        },
        Some(_) => NoFrontMatter {
            line: 1,
            message: "the front matter is not closed",
            help: "write `---` on its own line after the last key",
        },
    })
}

/// A line and its kind.
#[derive(Debug, Clone, Copy)]
struct MarkdownLine<'a> {
    text: &'a str,
    /// 1 to 6 for a heading, else 0.
    level: usize,
    is_rule: bool,
}

impl MarkdownLine<'_> {
    fn is_section(&self, name: &str) -> bool {
        let title = self.text.trim().trim_start_matches('#').trim().trim_end_matches('#').trim();
        self.level == 2 && title.eq_ignore_ascii_case(name)
    }

    fn ends_section(&self) -> bool {
        self.level == 2 || self.is_rule
    }
}

/// Classifies the lines of `body`, taking code fences into account (CommonMark 0.31, 4.1, 4.2 and 4.5).
fn lines(body: &str) -> impl Iterator<Item = MarkdownLine<'_>> {
    let mut fence: Option<(char, usize)> = None;
    body.lines().map(move |text| {
        let plain = MarkdownLine { text, level: 0, is_rule: false };
        let indent = text.len() - text.trim_start_matches(' ').len();
        let rest = text.trim();
        let first = rest.chars().next().filter(|_| indent <= 3);
        let run = first.map_or(0, |c| rest.chars().take_while(|other| *other == c).count());
        match (fence, first) {
            (Some((mark, length)), _) => {
                if first == Some(mark) && run >= length && run == rest.chars().count() {
                    fence = None;
                }
                plain
            }
            (None, Some(mark @ ('`' | '~'))) if run >= 3 && !(mark == '`' && rest[run..].contains('`')) => {
                fence = Some((mark, run));
                plain
            }
            (None, Some('#')) if run <= 6 && rest[run..].chars().next().is_none_or(char::is_whitespace) => {
                MarkdownLine { level: run, ..plain }
            }
            (None, Some(mark @ ('-' | '*' | '_'))) => {
                let marks = rest.chars().filter(|c| *c == mark).count();
                let is_rule = marks >= 3 && rest.chars().all(|c| c == mark || c == ' ' || c == '\t');
                MarkdownLine { is_rule, ..plain }
            }
            _ => plain,
        }
    })
}

fn join(lines: &[MarkdownLine<'_>]) -> String {
    lines.iter().map(|line| line.text).collect::<Vec<_>>().join("\n").trim().to_owned()
}

impl WhenToUse {
    fn of(lines: &[MarkdownLine<'_>]) -> Option<Self> {
        let texts: Vec<&str> =
            lines.iter().map(|line| line.text.trim()).filter(|text| !text.is_empty()).collect();
        let items: Option<Vec<String>> = texts
            .iter()
            .map(|text| {
                text.strip_prefix(['-', '*', '+'])?.strip_prefix(' ').map(|item| item.trim().to_owned())
            })
            .collect();
        match items {
            _ if texts.is_empty() => None,
            Some(items) => Some(Self::List(items)),
            None => Some(Self::Text(join(lines))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(body: &str, prompt: &str, when_to_use: Option<WhenToUse>) {
        let text = format!("---\nname: x\n---\n{body}");
        let parts = split(&text).expect("front matter");
        assert_eq!((parts.prompt.as_str(), parts.when_to_use), (prompt, when_to_use), "{body}");
        assert_eq!(parts.front, "name: x\n");
    }

    fn text(text: &str) -> Option<WhenToUse> {
        Some(WhenToUse::Text(text.to_owned()))
    }

    #[test]
    fn a_system_prompt_section_ends_at_the_next_heading_or_rule() {
        check("# X\n\n## System Prompt\nBe good.\n\n## Notes\nno", "Be good.", None);
        check("## System Prompt\nBe good.\n\n---\nno", "Be good.", None);
        check("## System Prompt\nBe good.\n* * *\nno", "Be good.", None);
        check(
            "## System Prompt\nBe good.\n### Details\nyes\n# Top\nyes",
            "Be good.\n### Details\nyes\n# Top\nyes",
            None,
        );
        check("## system prompt ##\nBe good.", "Be good.", None);
        check("   ## System Prompt\nBe good.\r\n\r\n## Notes", "Be good.", None);
        check("## System Prompt\n\n## Notes\nno", "", None);
    }

    #[test]
    fn code_fences_hide_headings_and_rules() {
        let fenced = "Do:\n```md\n## Not a heading\n---\n```\ndone";
        check(&format!("## System Prompt\n{fenced}\n## Notes"), fenced, None);
        let tildes = "~~~~\n## no\n~~~\n```\n---\n~~~~\nend";
        check(&format!("## System Prompt\n{tildes}\n---\nafter"), tildes, None);
        let open = "```\n## never closed";
        check(&format!("## System Prompt\n{open}"), open, None);
        check("## System Prompt\n``` a`b\n## Notes", "``` a`b", None);
        check("```\n## System Prompt\n```\nbody", "```\n## System Prompt\n```\nbody", None);
    }

    #[test]
    fn without_that_section_the_body_is_the_prompt() {
        check(
            "# Title\n\nBe good.\n\n## When to Use\nAlways.\n\n## How\nWell.",
            "Be good.\n\n## How\nWell.",
            text("Always."),
        );
        check("Be good.\n# Not a title", "Be good.\n# Not a title", None);
        check("#hashtag\nBe good.", "#hashtag\nBe good.", None);
        check("", "", None);
    }

    #[test]
    fn when_to_use_is_a_list_where_it_is_written_as_one() {
        let list = Some(WhenToUse::List(vec!["a b".to_owned(), "c".to_owned()]));
        check("## System Prompt\nP\n## When to Use\n\n- a b\n- c\n", "P", list);
        check("## When to Use\n- a\nand b\n## System Prompt\nP", "P", text("- a\nand b"));
        check("## When to Use\n\n## System Prompt\nP", "P", None);
    }

    #[test]
    fn front_matter_has_a_beginning_and_an_end() {
        assert!(split("name: x\n").is_err_and(|e| e.message.contains("missing")));
        assert!(split("").is_err_and(|e| e.message.contains("missing")));
        assert!(split("---\nname: x\n").is_err_and(|e| e.message.contains("not closed")));
        assert_eq!(
            split("---\r\nname: x\r\n---\r\nP").map(|p| (p.prompt, p.prompt_line)),
            Ok(("P".to_owned(), 4))
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(parts in prop::collection::vec(
            prop::sample::select(vec!["---\n", "## System Prompt\n", "```\n", "~~~\n", "# x\n", "é", " ", "* * *\n", "- a\n", "\r\n"]),
            0..30,
        )) {
            let _ = split(&format!("---\n---\n{}", parts.concat()));
        }
    }
}
