//! Progress where there is no terminal: one plain line for each event, without control codes.

use std::io::{self, Write};

use rawko::RunEvent;
use rawko_core::agent::UPDATE_PLAN;
use rawko_core::facts::Verification;
use rawko_core::policy::is_control_tool;
use rawko_core::session::Note;

use super::{Reporter, Verbosity, phrase};
use crate::output::{Clock, Paint, Sanitizer, clean, clean_line, counted};

/// Writes each event as a line.
pub(crate) struct Plain<W> {
    paint: Paint,
    verbosity: Verbosity,
    clock: Clock,
    out: W,
    partial: TextLine,
}

/// A model's text until its line is complete.
#[derive(Debug, Default)]
struct TextLine {
    agent: String,
    sanitizer: Sanitizer,
    line: String,
}

impl<W: Write> Plain<W> {
    /// To `out`.
    pub(crate) fn new(paint: Paint, verbosity: Verbosity, clock: Clock, out: W) -> Self {
        Self { paint, verbosity, clock, out, partial: TextLine::default() }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(format!("{text}\n").as_bytes())
    }

    fn verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// The arbiter's text is its decision, which is shown anyway.
    fn is_shown(&self, agent: &str) -> bool {
        self.verbose() || !matches!(agent, "select" | "evaluate")
    }

    fn text(&mut self, agent: &str, text: &str) -> io::Result<()> {
        if self.partial.agent != agent {
            self.end_text()?;
            self.partial.agent = agent.to_owned();
        }
        self.partial.sanitizer.push(text, &mut self.partial.line);
        while let Some(end) = self.partial.line.find('\n') {
            let rest = self.partial.line.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial.line, rest);
            self.text_line(line.trim_end())?;
        }
        Ok(())
    }

    fn end_text(&mut self) -> io::Result<()> {
        let TextLine { line, .. } = &mut self.partial;
        let line = std::mem::take(line);
        self.text_line(line.trim_end())?;
        self.partial = TextLine::default();
        Ok(())
    }

    fn text_line(&mut self, line: &str) -> io::Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        let text = format!("{}: {line}", clean_line(&self.partial.agent));
        self.line(&text)
    }

    fn verified(&mut self, verification: &Verification) -> io::Result<()> {
        for run in &verification.runs {
            let mut line = format!("verify< {}", phrase::command_run(run));
            if !run.passed()
                && !self.verbose()
                && let Some(last) = phrase::last_line(&run.output)
            {
                line.push_str(&format!(": {last}"));
            }
            self.line(&line)?;
            if self.verbose() {
                for line in phrase::head(&run.output).lines() {
                    self.line(&format!("  | {line}"))?;
                }
            }
        }
        self.line(&format!("verification: {}", phrase::verdict(verification)))
    }

    fn show_event(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::SessionStarted {
                session,
                task,
                at,
                agents,
                journal,
                resumed,
                continued,
                forked_from,
                degraded,
                confined,
                limits,
                instructions,
                skills,
                dry_run: _,
                so_far: _,
            } => {
                let session = phrase::session(session, *resumed, *continued, forked_from.as_ref());
                self.line(&format!("session {session}: {}", clean_line(task)))?;
                if self.verbose() {
                    self.line(&format!(
                        "  at {}, agents {}",
                        at.to_rfc3339(),
                        clean_line(&agents.join(", "))
                    ))?;
                    self.line(&format!("  journal {}", clean_line(journal)))?;
                }
                if let Some(limits) = limits.as_ref().and_then(phrase::limits) {
                    self.line(&format!("  {limits}"))?;
                }
                if let Some(walls) = confined {
                    self.line(&format!("  commands are confined by {}", clean_line(walls)))?;
                }
                if let Some(given) = phrase::given(instructions.as_ref(), skills) {
                    self.line(&format!("  {given}"))?;
                }
                for missing in degraded {
                    let label = self.paint.warning("careful:");
                    self.line(&format!("{label} {}", clean_line(missing)))?;
                }
                Ok(())
            }
            RunEvent::TextDelta { agent, text } if self.is_shown(agent) => self.text(agent, text),
            RunEvent::TextDelta { .. } => Ok(()),
            RunEvent::Waiting { .. } => {
                let label = self.paint.warning("waiting:");
                self.line(&format!("{label} {}", phrase::waiting(event, self.clock)))
            }
            RunEvent::Error { error } => {
                let label = self.paint.error("error:");
                self.line(&format!("{label} {}", phrase::error(error)))
            }
            RunEvent::SessionFinished { outcome, .. } => {
                let status = outcome.status.as_str();
                let iterations = counted(outcome.iterations.into(), "iteration");
                self.line(&format!("session ended: {status} after {iterations}"))
            }
            RunEvent::Note(note) => self.note(note),
            // An event of a newer SDK, which this version cannot describe.
            _ => Ok(()),
        }
    }

    fn note(&mut self, note: &Note) -> io::Result<()> {
        let verbose = self.verbose();
        match note {
            Note::StateChanged { from, to, iteration } => {
                self.line(&format!("state: {from} -> {to} (iteration {iteration})"))
            }
            Note::DecisionMade(record) => {
                let mut by = phrase::source(record.source).to_owned();
                if verbose {
                    by.push_str(&format!(", {}, {} ms", phrase::point(record.point), record.latency_ms));
                }
                self.line(&format!(
                    "decision: {} ({by}): {}",
                    phrase::decision(&record.decision),
                    phrase::reason(&record.decision)
                ))
            }
            Note::AgentStarted { agent, iteration, continued } => {
                let how = if *continued { "continues" } else { "starts" };
                self.line(&format!("agent: {} {how} (iteration {iteration})", clean_line(agent)))
            }
            Note::ToolCalled { call, allowed: true, .. } if call.name == UPDATE_PLAN && !verbose => Ok(()),
            Note::ToolCalled { agent, call, allowed, rule } => {
                let (tool, arguments) = phrase::call(call);
                let mut line = format!("{}> {tool} {arguments}", clean_line(agent)).trim_end().to_owned();
                if !allowed {
                    line.push_str(&format!(" {}", self.paint.bad("denied")));
                }
                if verbose || !allowed {
                    line.push_str(&format!(" [{}]", clean_line(rule)));
                }
                self.line(&line)
            }
            Note::ApprovalRequested(question) => {
                let label = self.paint.warning("approval needed:");
                self.line(&format!("{label} {}", phrase::question(question, self.clock)))
            }
            Note::ApprovalAnswered { approval, .. } => {
                self.line(&format!("approval: {}", phrase::approval(approval)))
            }
            Note::ToolFinished { tool, outcome, .. }
                if is_control_tool(tool) && !outcome.is_error && !verbose =>
            {
                Ok(())
            }
            Note::ToolFinished { agent, call_id: _, tool, outcome } => {
                let result = phrase::result(outcome);
                let mut line = format!("{}< {}: {result}", clean_line(agent), clean_line(tool));
                if !verbose && phrase::failed(outcome) {
                    let last = phrase::last_line(&outcome.content);
                    line.push_str(&last.map(|last| format!(": {last}")).unwrap_or_default());
                }
                if !outcome.files_modified.is_empty() {
                    line.push_str(&format!(", wrote {}", clean_line(&outcome.files_modified.join(", "))));
                }
                self.line(&line)?;
                if verbose {
                    for line in phrase::head(&outcome.content).lines() {
                        self.line(&format!("  | {line}"))?;
                    }
                }
                Ok(())
            }
            Note::PlanUpdated { agent, plan } => {
                self.line(&format!("plan: {} done (by {})", phrase::progress(plan), clean_line(agent)))?;
                for step in &plan.steps {
                    self.line(&format!("  {} {}. {}", phrase::mark(step), step.index, phrase::step(step)))?;
                }
                Ok(())
            }
            Note::VerificationStarted { commands } => {
                self.line(&format!("verifying: {}", phrase::commands(commands)))
            }
            Note::VerificationFinished { verification } => self.verified(verification),
            Note::ConversationCompacted { agent, how, before, after } => {
                let how = phrase::compaction(*how, *before, *after);
                self.line(&format!("context: {}: {how}", clean_line(agent)))
            }
            Note::CachePrefixChanged { agent, change } if verbose => {
                self.line(&phrase::cache_prefix(agent, *change))
            }
            Note::MemoriesRecalled { agent, memories, unmet, iteration: _ } => self.line(&format!(
                "memory: {} gets {}",
                clean_line(agent),
                phrase::memories(memories, *unmet)
            )),
            Note::MemoriesUsed { agent, uses, .. } => match phrase::used(uses).filter(|_| verbose) {
                Some(used) => self.line(&format!("memory: {} used {used}", clean_line(agent))),
                None => Ok(()),
            },
            Note::MemoryKept { agent, title, kept } => {
                self.line(&format!("memory: {} {}", clean_line(agent), phrase::kept(title, kept)))
            }
            Note::TokensUsed { agent, usage, total, cost_usd, effect: _ } if verbose => self.line(&format!(
                "usage: {}: {}",
                clean_line(agent),
                phrase::usage(usage, total, *cost_usd)
            )),
            Note::TokensUsed { .. } | Note::CachePrefixChanged { .. } | Note::CheckpointTaken { .. } => {
                Ok(())
            }
            Note::Steered { command, ignored, request: _ } => {
                self.line(&phrase::steered(command, ignored.as_deref()))
            }
            Note::RunPaused => self.line(phrase::PAUSED),
            Note::RunUnpaused { after_ms } => self.line(&phrase::unpaused(*after_ms)),
            Note::Warned { message } => {
                let label = self.paint.warning("warning:");
                self.line(&format!("{label} {}", clean(message)))
            }
        }
    }
}

impl<W: Write> Reporter for Plain<W> {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        if !matches!(event, RunEvent::TextDelta { .. }) {
            self.end_text()?;
        }
        self.show_event(event)?;
        self.out.flush()
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.end_text()?;
        self.line(text)?;
        self.out.flush()
    }

    fn close(&mut self) -> io::Result<()> {
        self.end_text()?;
        self.out.flush()
    }
}
