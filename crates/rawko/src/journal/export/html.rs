//! The transcript as one HTML page: no script, nothing loaded from anywhere, every text escaped.

use rawko_core::machine::Plan;
use rawko_core::message::ToolCall;
use rawko_core::session::Note;
use rawko_core::tool::ToolOutcome;

use super::text;
use super::transcript::{Transcript, TranscriptEvent};

const STYLE: &str = include_str!("page.css");

impl Transcript {
    /// As an HTML page of its own, for people.
    #[must_use]
    pub fn to_html(&self) -> String {
        let title = escape(&text::line(&self.header.session));
        let mut page = HtmlPage(format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>Session {title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Session {title}</h1>\n"
        ));
        page.block("blockquote", &text::words(&self.task));
        page.facts(self);
        if let Some(outcome) = &self.outcome {
            page.0.push_str("<h2>Outcome</h2>\n");
            page.block("blockquote", &text::words(&outcome.summary));
        }
        if let Some(plan) = &self.plan {
            page.0.push_str("<h2>Plan</h2>\n");
            page.plan(plan);
        }
        page.0.push_str("<h2>Transcript</h2>\n");
        for (at, entry) in self.entries.iter().enumerate() {
            page.entry(&entry.event, self.result_of(at));
        }
        page.0.push_str("</body>\n</html>\n");
        page.0
    }
}

struct HtmlPage(String);

impl HtmlPage {
    /// An element that holds nothing but text.
    fn block(&mut self, element: &str, text: &str) {
        self.0.push_str(&format!("<{element}>{}</{element}>\n", escape(text)));
    }

    /// A line that begins with a label.
    fn labelled(&mut self, label: &str, rest: &str) {
        self.0.push_str(&format!("<p><b>{}</b> {}</p>\n", escape(label), escape(&text::line(rest))));
    }

    fn facts(&mut self, transcript: &Transcript) {
        let agents: Vec<String> =
            transcript.agents.iter().map(|(name, model)| format!("{name} ({model})")).collect();
        let mut facts = vec![
            ("Begun", transcript.header.created_at.to_rfc3339()),
            ("Agents", agents.join(", ")),
            ("rawko", transcript.header.rawko.clone()),
        ];
        facts.extend(text::origin(&transcript.header));
        match &transcript.outcome {
            Some(outcome) => facts.extend(text::facts(outcome)),
            None => facts.push(("Status", format!("no end yet, in state {}", transcript.state))),
        }
        self.0.push_str("<table>\n");
        for (name, value) in facts {
            let value = escape(&text::line(&value));
            self.0.push_str(&format!("<tr><th>{name}</th><td>{value}</td></tr>\n"));
        }
        self.0.push_str("</table>\n");
    }

    fn plan(&mut self, plan: &Plan) {
        self.0.push_str("<ul class=\"plan\">\n");
        for step in &plan.steps {
            let description = text::line(&step.description);
            self.block("li", &format!("{} {description}", text::mark(step.status)));
        }
        self.0.push_str("</ul>\n");
    }

    fn entry(&mut self, event: &TranscriptEvent, result: Option<&ToolOutcome>) {
        match event {
            TranscriptEvent::ModelReplied { agent, text } => {
                self.labelled(&format!("{}:", text::line(agent)), "");
                self.block("blockquote", &text::words(text));
            }
            TranscriptEvent::ModelFailed { error } => {
                self.labelled("Error", &format!("{}: {}", error.code, error.message));
            }
            TranscriptEvent::TaskContinued { task } => {
                self.block("h2", &format!("Next task: {}", text::line(task)));
            }
            TranscriptEvent::TaskTakenUp => {
                self.labelled("Taken up:", "the task goes on after its end");
            }
            TranscriptEvent::SessionResumed => {
                self.labelled("Resumed:", "another process resumed the session");
            }
            TranscriptEvent::CancelRequested { reason } => self.labelled("Asked to stop:", reason),
            TranscriptEvent::OverrideRequested { command } => {
                self.labelled("By hand:", &text::overridden(command));
            }
            TranscriptEvent::AgentsReloaded => {
                self.labelled("Reloaded:", "the configuration was read again");
            }
            TranscriptEvent::Note(note) => self.note(note, result),
        }
    }

    fn note(&mut self, note: &Note, result: Option<&ToolOutcome>) {
        match note {
            Note::DecisionMade(record) => {
                let by = text::decided_by(record.point, record.source);
                let what = text::decision(&record.decision);
                self.labelled("Decision", &format!("({by}): {what} — {}", record.decision.reason()));
                for reason in &record.rejected {
                    self.labelled("Rejected", &format!("an answer could not be used: {reason}"));
                }
            }
            Note::AgentStarted { agent, iteration, continued } => {
                let continued = if *continued { ", continued" } else { "" };
                self.block("h3", &format!("Iteration {iteration}: {}{continued}", text::line(agent)));
            }
            Note::ToolCalled { agent: _, call, allowed, rule } => {
                self.call(call, *allowed, rule, result);
            }
            Note::PlanUpdated { agent, plan } => {
                self.labelled("Plan", &format!("of {agent}:"));
                self.plan(plan);
            }
            Note::CheckpointTaken { iteration, checkpoint } => {
                self.labelled("Checkpoint", &format!("before iteration {iteration}: {checkpoint}"));
            }
            Note::ApprovalRequested(question) => {
                self.labelled("Asked:", &text::asked(question));
            }
            Note::ApprovalAnswered { approval, .. } => {
                self.labelled("Answer:", &text::approval(approval));
            }
            Note::Warned { message } => self.labelled("Warning:", message),
            Note::Steered { ignored: Some(reason), .. } => self.labelled("Ignored:", reason),
            Note::RunPaused => self.labelled("Paused:", "nothing new begins"),
            Note::RunUnpaused { .. } => self.labelled("Unpaused:", "the run goes on"),
            Note::MemoriesRecalled { agent, iteration: _, memories } => {
                self.labelled("Memories:", &text::recalled(agent, memories));
            }
            Note::MemoryKept { agent, title, kept } => {
                self.labelled("Learned:", &text::learned(agent, title, kept));
            }
            Note::VerificationFinished { verification } => {
                self.labelled("Verification:", &text::verified(verification));
            }
            Note::ConversationCompacted { agent, how, before, after } => {
                self.labelled("Shortened:", &text::compacted(agent, *how, *before, *after));
            }
            // A call's result is shown with the call. The others are for programs.
            Note::ToolFinished { .. }
            | Note::StateChanged { .. }
            | Note::MemoriesUsed { .. }
            | Note::VerificationStarted { .. }
            // The command itself says it.
            | Note::Steered { ignored: None, .. }
            | Note::CachePrefixChanged { .. }
            | Note::TokensUsed { .. } => {}
        }
    }

    fn call(&mut self, call: &ToolCall, allowed: bool, rule: &str, result: Option<&ToolOutcome>) {
        let tool = escape(&text::line(&call.name));
        let summary = escape(&text::result(allowed, result));
        self.0.push_str(&format!("<details><summary><b>{tool}</b>: {summary}</summary>\n"));
        self.block("pre", &text::arguments(call));
        if !allowed {
            self.labelled("Rule:", rule);
        }
        if let Some(result) = result.filter(|result| !result.content.is_empty()) {
            self.block("pre", &text::of_tool(&result.content));
        }
        self.0.push_str("</details>\n");
    }
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
