//! What stays on a terminal: the lines of events that a person will look for later. `--verbose` keeps all of them, with
//! every call, its result and the agents' texts.

use rawko::RunEvent;
use rawko_core::facts::Verification;
use rawko_core::machine::{Decision, Plan, StepStatus};
use rawko_core::message::ToolCall;
use rawko_core::policy::is_control_tool;
use rawko_core::session::Note;
use rawko_core::setup::RunLimits;
use rawko_core::tool::ToolOutcome;

use super::super::{Verbosity, phrase};
use super::line::{Line, Tone};
use super::markdown;
use crate::output::{Clock, Sanitizer, clean, clean_line};

/// Turns events into lines.
#[derive(Debug)]
pub(super) struct Transcript {
    verbosity: Verbosity,
    clock: Clock,
    sanitizer: Sanitizer,
    /// A model's text until it ends.
    text: String,
    /// The open calls: the provider's id and a phrase, so that a result can be told from others.
    calls: Vec<(String, String)>,
}

impl Transcript {
    pub(super) fn new(verbosity: Verbosity, clock: Clock) -> Self {
        Self { verbosity, clock, sanitizer: Sanitizer::default(), text: String::new(), calls: Vec::new() }
    }

    /// Whether it keeps everything, so that nothing has to be folded.
    pub(super) fn keeps_all(&self) -> bool {
        self.verbose()
    }

    /// The lines of an event, behind those of a text that it ends.
    pub(super) fn take(&mut self, event: &RunEvent) -> Vec<Line> {
        if let RunEvent::TextDelta { text, .. } = event {
            if self.verbose() {
                self.sanitizer.push(text, &mut self.text);
            }
            return Vec::new();
        }
        let mut lines = self.end_text();
        lines.extend(self.event(event));
        lines
    }

    /// The text so far, which has ended.
    pub(super) fn end_text(&mut self) -> Vec<Line> {
        self.sanitizer = Sanitizer::default();
        let lines = markdown::lines(&std::mem::take(&mut self.text));
        lines.into_iter().map(|line| Line::plain("  ").join(line)).collect()
    }

    fn verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    fn event(&mut self, event: &RunEvent) -> Vec<Line> {
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
                so_far: _,
                at: _,
                agents: _,
            } => {
                let session = phrase::session(session, *resumed, *continued, forked_from.as_ref());
                let mut lines = self.started(&session, task, journal, *limits, confined.as_deref(), degraded);
                lines.extend(phrase::given(instructions.as_ref(), skills).map(faint));
                lines
            }
            RunEvent::Waiting { .. } => {
                labelled(Tone::Warning, "waiting:", &phrase::waiting(event, self.clock))
            }
            RunEvent::Error { error } => labelled(Tone::Error, "error:", &phrase::error(error)),
            RunEvent::Note(note) => self.note(note),
            // The end is told by the summary. An event of a newer SDK cannot be described.
            _ => Vec::new(),
        }
    }

    fn started(
        &self,
        session: &str,
        task: &str,
        journal: &str,
        limits: Option<RunLimits>,
        confined: Option<&str>,
        degraded: &[String],
    ) -> Vec<Line> {
        let task = Line::of(Tone::Strong, clean_line(task)).and(Tone::Faint, format!(" {session}"));
        let mut lines = vec![task];
        if self.verbose() {
            lines.push(faint(clean_line(journal)));
        }
        lines.extend(limits.as_ref().and_then(phrase::limits).map(faint));
        lines.extend(confined.map(|walls| faint(format!("commands are confined by {}", clean_line(walls)))));
        for missing in degraded {
            let line = Line::of(Tone::Warning, "careful:");
            lines.push(line.and(Tone::Faint, format!(" {}", clean_line(missing))));
        }
        lines
    }

    fn call(&mut self, call: &ToolCall, allowed: bool, rule: &str) -> Vec<Line> {
        let (tool, arguments) = phrase::call(call);
        if allowed {
            self.calls.push((call.id.clone(), format!("{tool} {arguments}").trim_end().to_owned()));
        }
        let arguments = format!(" {arguments}");
        let mut line =
            Line::of(Tone::Name, "  ▸ ").and(Tone::Strong, tool).and(Tone::Normal, arguments.trim_end());
        if !allowed {
            line = line.and(Tone::Bad, " denied");
        }
        vec![line.and(Tone::Faint, format!(" [{}]", clean_line(rule))).hanging(4)]
    }

    fn result(&mut self, call_id: &str, tool: &str, outcome: &ToolOutcome) -> Vec<Line> {
        let open = self.calls.iter().position(|(open, _)| open == call_id);
        let call = open.map_or_else(|| clean_line(tool), |at| self.calls.remove(at).1);
        let mut line = mark(!phrase::failed(outcome)).and(Tone::Faint, format!("{call}: "));
        line = line.and(Tone::Normal, phrase::result(outcome));
        if !outcome.files_modified.is_empty() {
            line =
                line.and(Tone::Normal, format!(", wrote {}", clean_line(&outcome.files_modified.join(", "))));
        }
        let mut lines = vec![line];
        lines.extend(Line::block(Tone::Faint, &phrase::head(&outcome.content), 6));
        lines
    }

    fn verified(&self, verification: &Verification) -> Vec<Line> {
        let mut lines = Vec::new();
        for run in &verification.runs {
            lines.push(mark(run.passed()).and(Tone::Normal, phrase::command_run(run)));
            let shown = phrase::last_line(&run.output).filter(|_| !run.passed() && !self.verbose());
            let shown = shown.or_else(|| self.verbose().then(|| phrase::head(&run.output)));
            lines.extend(shown.iter().flat_map(|shown| Line::block(Tone::Faint, shown, 6)));
        }
        let tone = if verification.proves() { Tone::Good } else { Tone::Warning };
        lines.push(Line::plain("  ").and(tone, phrase::verdict(verification)).hanging(4));
        lines
    }

    fn note(&mut self, note: &Note) -> Vec<Line> {
        match note {
            Note::Warned { message } => labelled(Tone::Warning, "warning:", &clean(message)),
            Note::ApprovalRequested(question) => {
                labelled(Tone::Warning, "approval needed:", &phrase::question(question, self.clock))
            }
            Note::ApprovalAnswered { approval, .. } => {
                vec![Line::plain(format!("approval: {}", phrase::approval(approval)))]
            }
            Note::VerificationStarted { commands } if self.verbose() => {
                let line = Line::of(Tone::Strong, "verifying");
                vec![line.and(Tone::Normal, format!(" {}", phrase::commands(commands))).hanging(4)]
            }
            Note::VerificationFinished { verification } => self.verified(verification),
            Note::MemoryKept { agent: _, title, kept } => {
                vec![Line::plain(format!("    {}", phrase::kept(title, kept))).hanging(4)]
            }
            Note::DecisionMade(record) => {
                // Other decisions are the reason of the execution that follows.
                if !self.verbose() && !matches!(record.decision, Decision::Complete { .. }) {
                    return Vec::new();
                }
                let mut by = phrase::source(record.source).to_owned();
                if self.verbose() {
                    by.push_str(&format!(", {}, {} ms", phrase::point(record.point), record.latency_ms));
                }
                let line = Line::of(Tone::Name, "◆ ").and(Tone::Normal, phrase::decision(&record.decision));
                let why = format!(" ({by}) {}", phrase::reason(&record.decision));
                vec![line.and(Tone::Faint, why).hanging(2)]
            }
            // What was ignored is shown for a moment.
            Note::Steered { ignored: Some(_), .. } if !self.verbose() => Vec::new(),
            Note::Steered { command, ignored, request: _ } => {
                vec![Line::plain(phrase::steered(command, ignored.as_deref())).hanging(2)]
            }
            Note::RunPaused => {
                vec![Line::of(Tone::Warning, phrase::PAUSED).hanging(2)]
            }
            Note::RunUnpaused { after_ms } => vec![Line::plain(phrase::unpaused(*after_ms))],
            note if self.verbose() => self.detail(note),
            _ => Vec::new(),
        }
    }

    /// What `--verbose` keeps.
    fn detail(&mut self, note: &Note) -> Vec<Line> {
        match note {
            Note::AgentStarted { agent, iteration, continued } => {
                let how = if *continued { "continues" } else { "starts" };
                let line = Line::of(Tone::Good, "● ").and(Tone::Strong, clean_line(agent));
                vec![line.and(Tone::Faint, format!(" {how}, iteration {iteration}"))]
            }
            Note::ToolCalled { agent: _, call, allowed, rule } => self.call(call, *allowed, rule),
            Note::ToolFinished { tool, outcome, .. } if is_control_tool(tool) && !outcome.is_error => {
                Vec::new()
            }
            Note::ToolFinished { agent: _, call_id, tool, outcome } => self.result(call_id, tool, outcome),
            Note::PlanUpdated { agent: _, plan } => plan_lines(plan),
            Note::ConversationCompacted { agent, how, before, after } => {
                let how = phrase::compaction(*how, *before, *after);
                vec![detail(&format!("{}: {how}", clean_line(agent)))]
            }
            Note::CachePrefixChanged { agent, change } => vec![detail(&phrase::cache_prefix(agent, *change))],
            Note::MemoriesRecalled { agent, memories, unmet, iteration: _ } => {
                vec![detail(&format!("{} gets {}", clean_line(agent), phrase::memories(memories, *unmet)))]
            }
            Note::MemoriesUsed { agent, uses, .. } => {
                let used = phrase::used(uses);
                used.map(|used| detail(&format!("{} used {used}", clean_line(agent)))).into_iter().collect()
            }
            Note::TokensUsed { agent, usage, total, cost_usd, effect: _ } => {
                let usage = phrase::usage(usage, total, *cost_usd);
                vec![detail(&format!("{}: {usage}", clean_line(agent)))]
            }
            _ => Vec::new(),
        }
    }
}

fn plan_lines(plan: &Plan) -> Vec<Line> {
    let head =
        Line::plain("  ").and(Tone::Strong, "plan").and(Tone::Normal, format!(" {}", phrase::progress(plan)));
    let steps = plan.steps.iter().map(|step| {
        let tone = match step.status {
            StepStatus::Complete => Tone::Good,
            StepStatus::InProgress => Tone::Name,
            StepStatus::Failed => Tone::Bad,
            StepStatus::Pending | StepStatus::Skipped => Tone::Faint,
        };
        let text = format!("{} {}. {}", phrase::mark(step), step.index, phrase::step(step));
        Line::plain("    ").and(tone, text).hanging(8)
    });
    std::iter::once(head).chain(steps).collect()
}

fn mark(is_good: bool) -> Line {
    let (tone, mark) = if is_good { (Tone::Good, "✓") } else { (Tone::Bad, "✗") };
    Line::plain("    ").and(tone, mark).and(Tone::Normal, " ").hanging(6)
}

fn faint(text: String) -> Line {
    Line::of(Tone::Faint, text)
}

fn detail(text: &str) -> Line {
    Line::of(Tone::Faint, format!("  {text}")).hanging(4)
}

/// A text behind a label. Its further lines follow as they are.
fn labelled(tone: Tone, label: &str, text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    let first =
        Line::of(tone, label).and(Tone::Normal, format!(" {}", lines.next().unwrap_or_default())).hanging(2);
    // What is asked about has to be seen letter by letter.
    std::iter::once(first).chain(lines.map(|line| Line::plain(line).verbatim())).collect()
}
