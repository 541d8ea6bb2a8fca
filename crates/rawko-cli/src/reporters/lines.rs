//! The lines of a run's events, for a log and for a terminal that is watched. Both say the same in the same words. A log
//! opens a line with a word, a terminal with a mark; and a terminal keeps only what a person will look for later, unless
//! `--verbose` keeps everything.

use rawko::RunEvent;
use rawko_core::agent::UPDATE_PLAN;
use rawko_core::facts::Verification;
use rawko_core::machine::{Decision, Plan, StepStatus};
use rawko_core::message::ToolCall;
use rawko_core::policy::is_control_tool;
use rawko_core::session::Note;
use rawko_core::tool::ToolOutcome;

use super::line::{StyledLine, Tone};
use super::{Verbosity, phrase};
use crate::output::{Clock, clean, clean_line, counted};

/// Where lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    /// A file, a pipe, the output of a CI job: lines that stand by themselves.
    Log,
    /// A terminal, above the part that is drawn anew.
    Terminal,
}

/// Turns events into lines.
#[derive(Debug)]
pub(super) struct EventFormatter {
    surface: Surface,
    verbosity: Verbosity,
    clock: Clock,
    /// The open calls: the provider's id and a phrase, so that a terminal can tell their results apart.
    calls: Vec<(String, String)>,
}

/// What a line is about, which its beginning shows.
#[derive(Debug, Clone, Copy)]
enum LineSubject<'a> {
    State,
    Decision,
    Agent,
    /// A call of this agent.
    Call(&'a str),
    /// The result of a call of this agent, and whether it is well.
    Result(&'a str, bool),
    Plan,
    Verifying,
    /// A verification command, and whether it passed.
    Command(bool),
    Verdict,
    Context,
    Memory,
    Usage,
}

impl EventFormatter {
    pub(super) fn new(surface: Surface, verbosity: Verbosity, clock: Clock) -> Self {
        Self { surface, verbosity, clock, calls: Vec::new() }
    }

    pub(super) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    fn is_log(&self) -> bool {
        self.surface == Surface::Log
    }

    /// The lines of an event. The text of models is not among them: it comes in pieces.
    pub(super) fn of(&mut self, event: &RunEvent) -> Vec<StyledLine> {
        match event {
            RunEvent::SessionStarted { .. } => self.started(event),
            RunEvent::Waiting { .. } => {
                labelled(Tone::Warning, "waiting:", &phrase::waiting(event, self.clock))
            }
            RunEvent::Error { error } => labelled(Tone::Error, "error:", &phrase::error(error)),
            // At a terminal the summary follows.
            RunEvent::SessionFinished { outcome, .. } if self.is_log() => {
                let iterations = counted(outcome.iterations.into(), "iteration");
                vec![StyledLine::plain(format!(
                    "session ended: {} after {iterations}",
                    outcome.status.as_str()
                ))]
            }
            RunEvent::Note(note) if self.shows(note) => self.note(note),
            // An event of a newer SDK cannot be described.
            _ => Vec::new(),
        }
    }

    /// Whether a note has lines here.
    fn shows(&self, note: &Note) -> bool {
        match note {
            Note::CheckpointTaken { .. } => false,
            Note::StateChanged { .. } => self.is_log(),
            Note::ToolFinished { tool, outcome, .. } if is_control_tool(tool) && !outcome.is_error => {
                self.is_log() && self.is_verbose()
            }
            Note::ToolCalled { call, allowed: true, .. } if call.name == UPDATE_PLAN => self.is_verbose(),
            Note::TokensUsed { .. } | Note::CachePrefixChanged { .. } | Note::MemoriesUsed { .. } => {
                self.is_verbose()
            }
            Note::Warned { .. }
            | Note::ApprovalRequested(_)
            | Note::ApprovalAnswered { .. }
            | Note::VerificationFinished { .. }
            | Note::MemoryKept { .. }
            | Note::Steered { ignored: None, .. }
            | Note::RunPaused
            | Note::RunUnpaused { .. } => true,
            // Other decisions are the reason of the execution that follows.
            Note::DecisionMade(record) if matches!(record.decision, Decision::Complete { .. }) => true,
            _ => self.is_log() || self.is_verbose(),
        }
    }

    /// The beginning of a line.
    fn subject(&self, subject: LineSubject<'_>) -> StyledLine {
        if self.is_log() {
            return StyledLine::plain(match subject {
                LineSubject::State => "state: ".to_owned(),
                LineSubject::Decision => "decision: ".to_owned(),
                LineSubject::Agent => "agent: ".to_owned(),
                LineSubject::Call(agent) => format!("{}> ", clean_line(agent)),
                LineSubject::Result(agent, _) => format!("{}< ", clean_line(agent)),
                LineSubject::Plan => "plan: ".to_owned(),
                LineSubject::Verifying => "verifying: ".to_owned(),
                LineSubject::Command(_) => "verify< ".to_owned(),
                LineSubject::Verdict => "verification: ".to_owned(),
                LineSubject::Context => "context: ".to_owned(),
                LineSubject::Memory => "memory: ".to_owned(),
                LineSubject::Usage => "usage: ".to_owned(),
            });
        }
        match subject {
            LineSubject::Decision => StyledLine::of(Tone::Name, "◆ ").hanging(2),
            LineSubject::Agent => StyledLine::of(Tone::Good, "● "),
            LineSubject::Call(_) => StyledLine::of(Tone::Name, "  ▸ ").hanging(4),
            LineSubject::Result(_, true) | LineSubject::Command(true) => {
                StyledLine::plain("    ").and(Tone::Good, "✓ ").hanging(6)
            }
            LineSubject::Result(_, false) | LineSubject::Command(false) => {
                StyledLine::plain("    ").and(Tone::Bad, "✗ ").hanging(6)
            }
            LineSubject::Plan => StyledLine::plain("  ").and(Tone::Strong, "plan "),
            LineSubject::Verifying => StyledLine::of(Tone::Strong, "verifying ").hanging(4),
            LineSubject::Verdict
            | LineSubject::State
            | LineSubject::Context
            | LineSubject::Memory
            | LineSubject::Usage => StyledLine::plain("  ").hanging(4),
        }
    }

    /// The first lines of an output, below the line that it belongs to.
    fn block(&self, text: &str) -> Vec<StyledLine> {
        let text = phrase::head(text);
        match self.surface {
            Surface::Log => {
                text.lines().map(|line| StyledLine::verbatim(Tone::Normal, format!("  | {line}"))).collect()
            }
            Surface::Terminal => StyledLine::block(Tone::Faint, &text, 6),
        }
    }

    fn started(&self, event: &RunEvent) -> Vec<StyledLine> {
        let RunEvent::SessionStarted {
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
        } = event
        else {
            return Vec::new();
        };
        let session = phrase::session(session, *resumed, *continued, forked_from.as_ref());
        let task = clean_line(task);
        let first = match self.surface {
            Surface::Log => StyledLine::plain(format!("session {session}: {task}")),
            Surface::Terminal => StyledLine::of(Tone::Strong, task).and(Tone::Faint, format!(" {session}")),
        };
        let margin = if self.is_log() { "  " } else { "" };
        let mut more = Vec::new();
        if self.is_verbose() {
            more.push(format!("at {}, agents {}", at.to_rfc3339(), clean_line(&agents.join(", "))));
            more.push(format!("journal {}", clean_line(journal)));
        }
        more.extend(limits.as_ref().and_then(phrase::limits));
        more.extend(confined.as_ref().map(|by| format!("commands are confined by {}", clean_line(by))));
        more.extend(phrase::given(instructions.as_ref(), skills));
        let more = more.into_iter().map(|text| StyledLine::plain(margin).and(Tone::Faint, text));
        let warnings =
            degraded.iter().flat_map(|missing| labelled(Tone::Warning, "warning:", &clean_line(missing)));
        std::iter::once(first).chain(more).chain(warnings).collect()
    }

    fn note(&mut self, note: &Note) -> Vec<StyledLine> {
        match note {
            Note::StateChanged { from, to, iteration } => {
                let text = format!("{from} -> {to} (iteration {iteration})");
                vec![self.subject(LineSubject::State).and(Tone::Normal, text)]
            }
            Note::DecisionMade(record) => {
                let mut by = phrase::source(record.source).to_owned();
                if self.is_verbose() {
                    by.push_str(&format!(", {}, {} ms", phrase::point(record.point), record.latency_ms));
                }
                let why = format!(" ({by}): {}", phrase::reason(&record.decision));
                let line = self.subject(LineSubject::Decision);
                vec![line.and(Tone::Normal, phrase::decision(&record.decision)).and(Tone::Faint, why)]
            }
            Note::AgentStarted { agent, iteration, continued } => {
                let how = if *continued { "continues" } else { "starts" };
                let line = self.subject(LineSubject::Agent).and(Tone::Strong, clean_line(agent));
                vec![line.and(Tone::Faint, format!(" {how} (iteration {iteration})"))]
            }
            Note::ToolCalled { agent, call, allowed, rule } => vec![self.call(agent, call, *allowed, rule)],
            Note::ToolFinished { agent, call_id, tool, outcome } => {
                self.result(agent, call_id, tool, outcome)
            }
            Note::ApprovalRequested(question) => {
                labelled(Tone::Warning, "approval needed:", &phrase::question(question, self.clock))
            }
            Note::ApprovalAnswered { approval, .. } => {
                vec![StyledLine::plain(format!("approval: {}", phrase::approval(approval)))]
            }
            Note::PlanUpdated { agent, plan } => self.plan(agent, plan),
            Note::VerificationStarted { commands } => {
                vec![self.subject(LineSubject::Verifying).and(Tone::Normal, phrase::commands(commands))]
            }
            Note::VerificationFinished { verification } => self.verified(verification),
            Note::ConversationCompacted { agent, how, before, after } => {
                let how = phrase::compaction(*how, *before, *after);
                vec![self.detail(LineSubject::Context, &format!("{}: {how}", clean_line(agent)))]
            }
            Note::CachePrefixChanged { agent, change } => {
                vec![StyledLine::of(Tone::Faint, phrase::cache_prefix(agent, *change)).hanging(4)]
            }
            Note::MemoriesRecalled { agent, memories, unmet, iteration: _ } => {
                let memories = phrase::memories(memories, *unmet);
                vec![self.detail(LineSubject::Memory, &format!("{} gets {memories}", clean_line(agent)))]
            }
            Note::MemoriesUsed { agent, uses, .. } => {
                let used = phrase::used(uses).map(|used| format!("{} used {used}", clean_line(agent)));
                used.map(|used| self.detail(LineSubject::Memory, &used)).into_iter().collect()
            }
            Note::MemoryKept { agent, title, kept } => {
                let text = format!("{} {}", clean_line(agent), phrase::kept(title, kept));
                vec![self.subject(LineSubject::Memory).and(Tone::Normal, text)]
            }
            Note::TokensUsed { agent, usage, total, cost_usd, effect: _ } => {
                let usage = phrase::usage(usage, total, *cost_usd);
                vec![self.detail(LineSubject::Usage, &format!("{}: {usage}", clean_line(agent)))]
            }
            Note::Steered { command, ignored, request: _ } => {
                vec![StyledLine::plain(phrase::steered(command, ignored.as_deref())).hanging(2)]
            }
            Note::RunPaused => vec![StyledLine::of(Tone::Warning, phrase::PAUSED).hanging(2)],
            Note::RunUnpaused { after_ms } => vec![StyledLine::plain(phrase::unpaused(*after_ms))],
            Note::Warned { message } => labelled(Tone::Warning, "warning:", &clean(message)),
            Note::CheckpointTaken { .. } => Vec::new(),
        }
    }

    fn detail(&self, subject: LineSubject<'_>, text: &str) -> StyledLine {
        self.subject(subject).and(Tone::Faint, text)
    }

    fn call(&mut self, agent: &str, call: &ToolCall, allowed: bool, rule: &str) -> StyledLine {
        let (tool, arguments) = phrase::call(call);
        let arguments = format!(" {arguments}").trim_end().to_owned();
        if allowed && !self.is_log() {
            self.calls.push((call.id.clone(), format!("{tool}{arguments}")));
        }
        let mut line = self.subject(LineSubject::Call(agent)).and(Tone::Strong, tool);
        line = line.and(Tone::Normal, arguments);
        if !allowed {
            line = line.and(Tone::Normal, " ").and(Tone::Bad, "denied");
        }
        if self.is_verbose() || !allowed {
            line = line.and(Tone::Faint, format!(" [{}]", clean_line(rule)));
        }
        line
    }

    fn result(&mut self, agent: &str, call_id: &str, tool: &str, outcome: &ToolOutcome) -> Vec<StyledLine> {
        let is_failed = phrase::failed(outcome);
        let open = self.calls.iter().position(|(open, _)| open == call_id);
        let call = open.map_or_else(|| clean_line(tool), |at| self.calls.remove(at).1);
        let mut result = phrase::result(outcome);
        if is_failed
            && !self.is_verbose()
            && let Some(last) = phrase::last_line(&outcome.content)
        {
            result.push_str(&format!(": {last}"));
        }
        if !outcome.files_modified.is_empty() {
            result.push_str(&format!(", wrote {}", clean_line(&outcome.files_modified.join(", "))));
        }
        let line = self.subject(LineSubject::Result(agent, !is_failed)).and(Tone::Faint, format!("{call}: "));
        let mut lines = vec![line.and(Tone::Normal, result)];
        if self.is_verbose() {
            lines.extend(self.block(&outcome.content));
        }
        lines
    }

    fn plan(&self, agent: &str, plan: &Plan) -> Vec<StyledLine> {
        let progress = format!("{} done (by {})", phrase::progress(plan), clean_line(agent));
        let steps = plan.steps.iter().map(|step| {
            let tone = match step.status {
                StepStatus::Complete => Tone::Good,
                StepStatus::InProgress => Tone::Name,
                StepStatus::Failed => Tone::Bad,
                StepStatus::Pending | StepStatus::Skipped => Tone::Faint,
            };
            let text = format!("{} {}. {}", phrase::mark(step), step.index, phrase::step(step));
            let margin = if self.is_log() { "  " } else { "    " };
            StyledLine::plain(margin).and(tone, text).hanging(8)
        });
        let head = self.subject(LineSubject::Plan).and(Tone::Normal, progress);
        std::iter::once(head).chain(steps).collect()
    }

    fn verified(&self, verification: &Verification) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        for run in &verification.runs {
            let mut text = phrase::command_run(run);
            if !run.passed()
                && !self.is_verbose()
                && let Some(last) = phrase::last_line(&run.output)
            {
                text.push_str(&format!(": {last}"));
            }
            lines.push(self.subject(LineSubject::Command(run.passed())).and(Tone::Normal, text));
            if self.is_verbose() {
                lines.extend(self.block(&run.output));
            }
        }
        let tone = if verification.proves() { Tone::Good } else { Tone::Warning };
        lines.push(self.subject(LineSubject::Verdict).and(tone, phrase::verdict(verification)));
        lines
    }
}

/// A text after a label. Its further lines follow as they are.
fn labelled(tone: Tone, label: &str, text: &str) -> Vec<StyledLine> {
    let mut lines = text.lines();
    let first = StyledLine::of(tone, label)
        .and(Tone::Normal, format!(" {}", lines.next().unwrap_or_default()))
        .hanging(2);
    // The user must see the call in question letter by letter.
    std::iter::once(first).chain(lines.map(|line| StyledLine::verbatim(Tone::Normal, line))).collect()
}
