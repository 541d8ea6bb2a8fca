//! The transcript as Markdown. Text from outside is put in fences that it cannot close, in quotes, or escaped.

use rawko_core::machine::Plan;
use rawko_core::message::ToolCall;
use rawko_core::session::Note;
use rawko_core::timeline::Fact;
use rawko_core::tool::ToolOutcome;

use super::text;
use super::transcript::Transcript;

impl Transcript {
    /// As Markdown, for people.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut page = MarkdownPage::default();
        page.paragraph(&format!("# Session {}", escape(&self.header.session)));
        page.paragraph(&quote(&text::words(&self.task)));
        page.paragraph(&self.facts());
        if let Some(outcome) = &self.outcome {
            page.paragraph("## Outcome");
            page.paragraph(&quote(&text::words(&outcome.summary)));
        }
        if let Some(plan) = &self.plan {
            page.paragraph("## Plan");
            page.paragraph(&steps(plan));
        }
        page.paragraph("## Transcript");
        for (at, entry) in self.entries.iter().enumerate() {
            page.entry(&entry.fact, self.result_of(at));
        }
        page.0
    }

    fn facts(&self) -> String {
        let agents: Vec<String> =
            self.agents.iter().map(|(name, model)| format!("{name} ({model})")).collect();
        let mut facts = vec![
            ("Begun", self.header.created_at.to_rfc3339()),
            ("Agents", agents.join(", ")),
            ("rawko", self.header.rawko.clone()),
        ];
        facts.extend(text::origin(&self.header));
        match &self.outcome {
            Some(outcome) => facts.extend(text::facts(outcome)),
            None => facts.push(("Status", format!("no end yet, in state {}", self.state))),
        }
        let rows: Vec<String> =
            facts.iter().map(|(name, value)| format!("| {name} | {} |", escape(value))).collect();
        format!("| | |\n| --- | --- |\n{}", rows.join("\n"))
    }
}

#[derive(Default)]
struct MarkdownPage(String);

impl MarkdownPage {
    fn paragraph(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(text.trim_end());
        self.0.push('\n');
    }

    fn entry(&mut self, fact: &Fact, result: Option<&ToolOutcome>) {
        match fact {
            Fact::ModelReplied(reply) => {
                self.paragraph(&format!("**{}:**", escape(&reply.call.purpose.to_string())));
                self.paragraph(&quote(&text::words(&reply.message.text())));
            }
            Fact::ModelFailed { error, .. } => {
                self.paragraph(&format!("**Error** {}: {}", error.code, escape(&error.message)));
            }
            Fact::TaskContinued { task } => {
                self.paragraph(&format!("## Next task: {}", escape(task)));
            }
            Fact::TaskTakenUp => self.paragraph("*The task was taken up again after its end.*"),
            Fact::SessionResumed => self.paragraph("*Another process resumed the session.*"),
            Fact::CancelRequested { reason } => {
                self.paragraph(&format!("**Asked to stop:** {}", escape(reason)));
            }
            Fact::OverrideRequested { command } => {
                self.paragraph(&format!("*{}*", escape(&text::overridden(command))));
            }
            Fact::AgentsReloaded => self.paragraph("*The configuration was read again.*"),
            Fact::Note(note) => self.note(note, result),
            _ => {}
        }
    }

    fn note(&mut self, note: &Note, result: Option<&ToolOutcome>) {
        match note {
            Note::DecisionMade(record) => {
                self.paragraph(&format!(
                    "**Decision** ({}): {} — {}",
                    text::decided_by(record.point, record.source),
                    escape(&text::decision(&record.decision)),
                    escape(record.decision.reason())
                ));
                for reason in &record.rejected {
                    self.paragraph(&format!("- an answer could not be used: {}", escape(reason)));
                }
            }
            Note::AgentStarted { agent, iteration, continued } => {
                let continued = if *continued { ", continued" } else { "" };
                self.paragraph(&format!("### Iteration {iteration}: {}{continued}", escape(agent)));
            }
            Note::ToolCalled { agent: _, call, allowed, rule } => {
                self.call(call, *allowed, rule, result);
            }
            Note::PlanUpdated { agent, plan } => {
                self.paragraph(&format!("**Plan** of {}:", escape(agent)));
                self.paragraph(&steps(plan));
            }
            Note::CheckpointTaken { iteration, checkpoint } => {
                self.paragraph(&format!("*Checkpoint before iteration {iteration}: {}*", escape(checkpoint)));
            }
            Note::ApprovalRequested(question) => {
                self.paragraph(&format!("**Asked:** {}", escape(&text::asked(question))));
            }
            Note::ApprovalAnswered { approval, .. } => {
                self.paragraph(&format!("**Answer:** {}", escape(&text::approval(approval))));
            }
            Note::Steered { ignored: Some(reason), .. } => {
                self.paragraph(&format!("*Ignored: {}*", escape(reason)));
            }
            Note::RunPaused => self.paragraph("*The run is paused.*"),
            Note::RunUnpaused { .. } => self.paragraph("*The run goes on.*"),
            Note::Warned { message } => self.paragraph(&format!("**Warning:** {}", escape(message))),
            Note::MemoriesRecalled { agent, memories, .. } => {
                self.paragraph(&format!("**Memories:** {}", escape(&text::recalled(agent, memories))));
            }
            Note::MemoryKept { agent, title, kept } => {
                self.paragraph(&format!("**Learned:** {}", escape(&text::learned(agent, title, kept))));
            }
            Note::VerificationFinished { verification } => {
                self.paragraph(&format!("**Verification:** {}", escape(&text::verified(verification))));
            }
            Note::ConversationCompacted { agent, how, before, after } => {
                self.paragraph(&format!("*{}*", escape(&text::compacted(agent, *how, *before, *after))));
            }
            // A call's result is shown with the call, and a command says itself what it did. The others are for programs.
            _ => {}
        }
    }

    fn call(&mut self, call: &ToolCall, allowed: bool, rule: &str, result: Option<&ToolOutcome>) {
        let summary = text::result(allowed, result);
        // Markup around the fences: after a blank line it is Markdown again.
        self.paragraph(&format!("<details><summary><b>{}</b>: {summary}</summary>", escape(&call.name)));
        self.paragraph(&fence(&text::arguments(call)));
        if !allowed {
            self.paragraph(&format!("Rule: {}", escape(rule)));
        }
        if let Some(result) = result.filter(|result| !result.content.is_empty()) {
            self.paragraph(&fence(&text::of_tool(&result.content)));
        }
        self.paragraph("</details>");
    }
}

fn steps(plan: &Plan) -> String {
    let lines: Vec<String> = plan
        .steps
        .iter()
        .map(|step| format!("- `{}` {}", text::mark(step.status), escape(&step.description)))
        .collect();
    lines.join("\n")
}

/// A block of code that its text cannot close.
fn fence(code: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in code.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let marks = "`".repeat(3.max(longest + 1));
    format!("{marks}text\n{}\n{marks}", code.trim_end_matches('\n'))
}

/// A quote. It stays Markdown, because models write it, but holds no HTML and loads nothing.
fn quote(words: &str) -> String {
    let safe = words.replace('<', "&lt;").replace("](", "]\\(").replace("![", "!\\[");
    let lines: Vec<String> = safe.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

/// Text on one line, in which nothing is markup.
fn escape(text: &str) -> String {
    let mut safe = String::new();
    for c in text::line(text).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '!' | '~' => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        assert_eq!(escape("a|b\n<i>*x*"), "a\\|b &lt;i&gt;\\*x\\*");
        assert_eq!(quote("# a\n![x](http://h/p)\n<b>"), "> # a\n> !\\[x]\\(http://h/p)\n> &lt;b>");
        assert_eq!(fence("a\n````\nb\n"), "`````text\na\n````\nb\n`````");
    }

    proptest! {
        #[test]
        fn no_text_closes_its_fence(code in "[`a\n]{0,40}") {
            let fenced = fence(&code);
            let marks = fenced.lines().next().unwrap().trim_end_matches("text");
            let inside = &fenced[marks.len() + 5..fenced.len() - marks.len() - 1];
            prop_assert!(!inside.contains(marks));
        }

        #[test]
        fn a_quote_stays_a_quote(words in "[a<>\n#`\\[\\]!()]{0,40}") {
            let quoted = quote(&words);
            prop_assert!(quoted.lines().all(|line| line.starts_with('>')));
            prop_assert!(!quoted.contains('<'));
        }
    }
}
