//! Progress at a terminal: past events scroll up, and the last lines show the current state.

use std::io::{self, IsTerminal as _, Write};
use std::time::Instant;

use rawko::RunEvent;
use rawko_core::Timestamp;
use rawko_core::Usage;
use rawko_core::agent::UPDATE_PLAN;
use rawko_core::facts::Verification;
use rawko_core::machine::{Plan, StepStatus};
use rawko_core::message::ToolCall;
use rawko_core::policy::is_control_tool;
use rawko_core::session::Note;
use rawko_core::setup::RunLimits;
use rawko_core::tool::ToolOutcome;

use super::live::{Columns, Live};
use super::{Reporter, Verbosity, phrase};
use crate::output::{Clock, Paint, Sanitizer, about, clean, clean_line, cost, duration, indent, tokens};

/// Frames of the spinner.
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Shows events on a terminal.
pub(crate) struct Terminal<W> {
    paint: Paint,
    verbosity: Verbosity,
    clock: Clock,
    live: Live<W>,
    begun: Instant,
    frame: usize,
    now: StatusLine,
    sanitizer: Sanitizer,
    /// The line of a model's text that is not complete yet.
    partial: String,
    /// Whether another process carries the run: nobody answers its questions here.
    only_watches: bool,
}

/// The state that the last lines show.
#[derive(Debug, Default)]
struct StatusLine {
    /// The running agent, or the state of the machine.
    doing: String,
    /// What the run waits for, and until when.
    wait: Option<(String, Timestamp)>,
    /// The open tool calls, oldest first: the provider's id and a phrase.
    calls: Vec<(String, String)>,
    iteration: u32,
    used: Usage,
    cost_usd: Option<f64>,
    speaker: String,
    running: bool,
}

impl<W: Write> Terminal<W> {
    /// Writes to `out`; `columns` gives its width.
    pub(crate) fn new(paint: Paint, verbosity: Verbosity, clock: Clock, out: W, columns: Columns) -> Self {
        Self {
            paint,
            verbosity,
            clock,
            live: Live::new(out, columns, paint),
            begun: Instant::now(),
            frame: 0,
            now: StatusLine::default(),
            sanitizer: Sanitizer::default(),
            partial: String::new(),
            only_watches: false,
        }
    }

    /// Of a run that another process carries.
    pub(crate) fn only_watching(self) -> Self {
        Self { only_watches: true, ..self }
    }

    fn verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    fn show(&mut self) -> io::Result<()> {
        let mut lines = Vec::new();
        if !self.partial.is_empty() {
            lines.push(format!("  {}", self.partial.replace('\t', " ")));
        }
        if self.now.running {
            let elapsed = self.begun.elapsed().as_millis();
            let mark = FRAMES[self.frame % FRAMES.len()];
            let mut parts = match self.wait_left() {
                Some((wait, left_ms)) => vec![format!("{mark} waiting {wait}, {} left", duration(left_ms))],
                None => vec![format!("{mark} {}", self.now.doing)],
            };
            if let Some((_, call)) = self.now.calls.first() {
                parts.push(call.clone());
            }
            parts.push(format!("iteration {}", self.now.iteration));
            parts.push(duration(u64::try_from(elapsed).unwrap_or(u64::MAX)));
            let used = self.now.used;
            if used.total_tokens() > 0 {
                parts.push(format!("{}{} tokens", about(&used), tokens(used.total_tokens())));
                parts.push(cost(self.now.cost_usd));
            }
            lines.push(parts.join(" · "));
        }
        self.live.show(lines)
    }

    /// What the run waits for, and the milliseconds left.
    fn wait_left(&self) -> Option<(&str, u64)> {
        let (wait, until) = self.now.wait.as_ref()?;
        let left_ms = until.since(self.clock.now());
        (left_ms > 0).then_some((wait.as_str(), left_ms))
    }

    fn text(&mut self, agent: &str, text: &str) -> io::Result<()> {
        if self.now.speaker != agent {
            self.end_text()?;
            self.now.speaker = agent.to_owned();
        }
        self.sanitizer.push(text, &mut self.partial);
        // Whole lines stay; the last one is shown as it grows, at the next tick.
        if let Some(end) = self.partial.rfind('\n') {
            let rest = self.partial.split_off(end + 1);
            let lines = std::mem::replace(&mut self.partial, rest);
            self.live.print(&indent(&lines, 2))?;
        }
        Ok(())
    }

    fn end_text(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.partial);
        self.sanitizer = Sanitizer::default();
        if line.trim().is_empty() { Ok(()) } else { self.live.print(&indent(&line, 2)) }
    }

    fn print_plan(&mut self, plan: &Plan) -> io::Result<()> {
        let mut text = format!("  {} {}", self.paint.strong("plan"), phrase::progress(plan));
        for step in &plan.steps {
            let line = format!("{} {}. {}", phrase::mark(step), step.index, phrase::step(step));
            let line = match step.status {
                StepStatus::Complete => self.paint.good(&line),
                StepStatus::InProgress => self.paint.name(&line),
                StepStatus::Failed => self.paint.bad(&line),
                StepStatus::Pending | StepStatus::Skipped => self.paint.faint(&line),
            };
            text.push_str(&format!("\n    {line}"));
        }
        self.live.print(&text)
    }

    fn started(
        &mut self,
        session: &str,
        task: &str,
        journal: &str,
        limits: Option<RunLimits>,
        confined: Option<&str>,
        degraded: &[String],
    ) -> io::Result<()> {
        let paint = self.paint;
        let mut text = format!("{} {}", paint.strong(&clean_line(task)), paint.faint(session));
        if self.verbose() {
            text.push_str(&format!("\n{}", paint.faint(&clean_line(journal))));
        }
        if let Some(limits) = limits.as_ref().and_then(phrase::limits) {
            text.push_str(&format!("\n{}", paint.faint(&limits)));
        }
        if let Some(walls) = confined {
            let line = format!("commands are confined by {}", clean_line(walls));
            text.push_str(&format!("\n{}", paint.faint(&line)));
        }
        for missing in degraded {
            text.push_str(&format!("\n{} {}", paint.warning("careful:"), paint.faint(&clean_line(missing))));
        }
        self.live.print(&text)
    }

    fn call(&mut self, call: &ToolCall, allowed: bool, rule: &str) -> io::Result<()> {
        let (tool, arguments) = phrase::call(call);
        let paint = self.paint;
        if allowed {
            self.now.calls.push((call.id.clone(), format!("{tool} {arguments}").trim_end().to_owned()));
        }
        let mut line =
            format!("  {} {} {arguments}", paint.name("▸"), paint.strong(&tool)).trim_end().to_owned();
        if !allowed {
            line.push_str(&format!(" {}", paint.bad("denied")));
        }
        if self.verbose() || !allowed {
            line.push_str(&format!(" {}", paint.faint(&format!("[{}]", clean_line(rule)))));
        }
        self.live.print(&line)
    }

    fn result(&mut self, call_id: &str, tool: &str, outcome: &ToolOutcome) -> io::Result<()> {
        self.now.calls.retain(|(open, _)| open != call_id);
        let paint = self.paint;
        let failed = phrase::failed(outcome);
        let mark = if failed { paint.bad("✗") } else { paint.good("✓") };
        let mut line = format!("    {mark} {}", phrase::result(outcome));
        if self.verbose() {
            line.push_str(&format!(" {}", paint.faint(&clean_line(tool))));
        }
        if !outcome.files_modified.is_empty() {
            line.push_str(&format!(", wrote {}", clean_line(&outcome.files_modified.join(", "))));
        }
        if failed
            && !self.verbose()
            && let Some(last) = phrase::last_line(&outcome.content)
        {
            line.push_str(&format!("\n      {}", paint.faint(&last)));
        }
        if self.verbose() {
            let head = indent(&phrase::head(&outcome.content), 6);
            let faint: Vec<String> = head.lines().map(|line| paint.faint(line)).collect();
            line.push_str(&format!("\n{}", faint.join("\n")));
        }
        self.live.print(&line)
    }

    fn verified(&mut self, verification: &Verification) -> io::Result<()> {
        let paint = self.paint;
        for run in &verification.runs {
            let mark = if run.passed() { paint.good("✓") } else { paint.bad("✗") };
            let mut line = format!("    {mark} {}", phrase::command_run(run));
            let shown = phrase::last_line(&run.output).filter(|_| !run.passed() && !self.verbose());
            let shown = shown.or_else(|| self.verbose().then(|| phrase::head(&run.output)));
            if let Some(shown) = shown.filter(|shown| !shown.is_empty()) {
                let faint: Vec<String> = indent(&shown, 6).lines().map(|line| paint.faint(line)).collect();
                line.push_str(&format!("\n{}", faint.join("\n")));
            }
            self.live.print(&line)?;
        }
        let verdict = phrase::verdict(verification);
        let verdict = if verification.proves() { paint.good(&verdict) } else { paint.warning(&verdict) };
        self.live.print(&format!("  {verdict}"))
    }

    fn show_event(&mut self, event: &RunEvent) -> io::Result<()> {
        let paint = self.paint;
        match event {
            RunEvent::SessionStarted {
                session,
                task,
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
                at: _,
                agents: _,
            } => {
                self.now.running = true;
                "starting".clone_into(&mut self.now.doing);
                let session = phrase::session(session, *resumed, *continued, forked_from.as_ref());
                self.started(&session, task, journal, *limits, confined.as_deref(), degraded)?;
                match phrase::given(instructions.as_ref(), skills) {
                    Some(given) => self.live.print(&paint.faint(&given)),
                    None => Ok(()),
                }
            }
            RunEvent::TextDelta { agent, text } => {
                if self.verbose() || !matches!(agent.as_str(), "select" | "evaluate") {
                    self.text(agent, text)
                } else {
                    Ok(())
                }
            }
            RunEvent::Waiting { provider, until, .. } => {
                self.now.wait = Some((phrase::waited_for(provider.as_deref(), *until, self.clock), *until));
                let line = phrase::waiting(event, self.clock);
                self.live.print(&format!("{} {line}", paint.warning("waiting:")))
            }
            RunEvent::Error { error } => {
                self.live.print(&format!("{} {}", paint.error("error:"), phrase::error(error)))
            }
            RunEvent::SessionFinished { .. } => {
                self.now.running = false;
                self.live.clear()
            }
            RunEvent::Note(note) => self.note(note),
            // An event of a newer SDK, which this version cannot describe.
            _ => Ok(()),
        }
    }

    fn note(&mut self, note: &Note) -> io::Result<()> {
        let paint = self.paint;
        match note {
            Note::StateChanged { from: _, to, iteration } => {
                self.now.iteration = *iteration;
                self.now.wait = None;
                self.now.calls.clear();
                to.to_string().replace('_', " ").clone_into(&mut self.now.doing);
                Ok(())
            }
            Note::DecisionMade(record) => {
                let mut by = phrase::source(record.source).to_owned();
                if self.verbose() {
                    by.push_str(&format!(", {}, {} ms", phrase::point(record.point), record.latency_ms));
                }
                let line = format!(
                    "{} {} {}",
                    paint.name("◆"),
                    phrase::decision(&record.decision),
                    paint.faint(&format!("({by}) {}", phrase::reason(&record.decision)))
                );
                self.live.print(&line)
            }
            Note::AgentStarted { agent, iteration, continued } => {
                let agent = clean_line(agent);
                self.now.iteration = *iteration;
                self.now.doing.clone_from(&agent);
                let how = if *continued { "continues" } else { "starts" };
                let rest = paint.faint(&format!("{how}, iteration {iteration}"));
                self.live.print(&format!("{} {} {rest}", paint.good("●"), paint.strong(&agent)))
            }
            Note::ToolCalled { call, allowed: true, .. } if call.name == UPDATE_PLAN && !self.verbose() => {
                Ok(())
            }
            Note::ToolCalled { agent: _, call, allowed, rule } => self.call(call, *allowed, rule),
            Note::ApprovalRequested(question) => {
                "waiting for your answer".clone_into(&mut self.now.doing);
                let label = self.paint.warning("approval needed:");
                let typed = match io::stdin().is_terminal() && !self.only_watches {
                    true => "\n  Allow this call? Type y or n, then Enter",
                    false => "",
                };
                self.live.print(&format!("  {label} {}{typed}", phrase::question(question, self.clock)))
            }
            Note::ApprovalAnswered { agent, approval, .. } => {
                self.now.doing = clean_line(agent);
                self.live.print(&format!("  approval: {}", phrase::approval(approval)))
            }
            Note::ToolFinished { tool, outcome, .. }
                if is_control_tool(tool) && !outcome.is_error && !self.verbose() =>
            {
                Ok(())
            }
            Note::ToolFinished { agent: _, call_id, tool, outcome } => self.result(call_id, tool, outcome),
            Note::PlanUpdated { agent: _, plan } => self.print_plan(plan),
            Note::VerificationStarted { commands } => {
                let commands = phrase::commands(commands);
                self.now.doing = format!("verifying · {commands}");
                self.live.print(&format!("{} {commands}", paint.strong("verifying")))
            }
            Note::VerificationFinished { verification } => self.verified(verification),
            Note::ConversationCompacted { agent, how, before, after } => {
                let how = phrase::compaction(*how, *before, *after);
                self.live.print(&paint.faint(&format!("  {}: {how}", clean_line(agent))))
            }
            Note::CachePrefixChanged { agent, change } if self.verbose() => {
                self.live.print(&paint.faint(&format!("  {}", phrase::cache_prefix(agent, *change))))
            }
            Note::MemoriesRecalled { agent, memories, iteration: _ } => {
                let memories = phrase::memories(memories);
                self.live.print(&paint.faint(&format!("  {} gets {memories}", clean_line(agent))))
            }
            Note::MemoriesUsed { agent, uses, .. } => match phrase::used(uses).filter(|_| self.verbose()) {
                Some(used) => self.live.print(&paint.faint(&format!("  {} used {used}", clean_line(agent)))),
                None => Ok(()),
            },
            Note::MemoryKept { agent: _, title, kept } => {
                self.live.print(&format!("  {}", phrase::kept(title, kept)))
            }
            Note::TokensUsed { agent, usage, total, cost_usd, effect: _ } => {
                self.now.used = *total;
                self.now.cost_usd = *cost_usd;
                if !self.verbose() {
                    return Ok(());
                }
                let line = format!("  {}: {}", clean_line(agent), phrase::usage(usage, total, *cost_usd));
                self.live.print(&paint.faint(&line))
            }
            Note::CachePrefixChanged { .. } | Note::CheckpointTaken { .. } => Ok(()),
            Note::Steered { command, ignored, request: _ } => {
                self.live.print(&format!("  {}", phrase::steered(command, ignored.as_deref())))
            }
            Note::RunPaused => {
                "paused".clone_into(&mut self.now.doing);
                self.live.print(&paint.warning(phrase::PAUSED))
            }
            Note::RunUnpaused { after_ms } => {
                "going on".clone_into(&mut self.now.doing);
                self.live.print(&phrase::unpaused(*after_ms))
            }
            Note::Warned { message } => {
                self.live.print(&format!("{} {}", paint.warning("warning:"), clean(message)))
            }
        }
    }
}

impl<W: Write> Reporter for Terminal<W> {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        if !matches!(event, RunEvent::TextDelta { .. }) {
            self.end_text()?;
        }
        self.show_event(event)
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.end_text()?;
        self.live.print(text)
    }

    fn is_animated(&self) -> bool {
        true
    }

    fn tick(&mut self) -> io::Result<()> {
        self.frame += 1;
        self.show()
    }

    fn close(&mut self) -> io::Result<()> {
        self.end_text()?;
        self.now.running = false;
        self.live.clear()
    }
}
