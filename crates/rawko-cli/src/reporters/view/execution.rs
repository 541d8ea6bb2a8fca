//! One execution of an agent: what it is doing now, and the few lines that are left of it when it has ended.

use rawko_core::Timestamp;
use rawko_core::Usage;
use rawko_core::agent::REPORT;
use rawko_core::message::ToolCall;
use rawko_core::policy::is_control_tool;
use rawko_core::tool::ToolOutcome;
use serde_json::Value;

use super::super::line::{StyledLine, Tone, flow};
use super::super::phrase;
use super::markdown;
use crate::output::{Sanitizer, about, clean, clean_line, cost, counted, duration, tokens};

/// Files that are named when an execution has ended.
const NAMED_FILES: usize = 4;
/// Lines of its report that are kept.
const REPORT_LINES: usize = 3;
/// Most bytes of a turn's text that are kept to be shown.
const LONGEST_TEXT: usize = 32 * 1024;

/// A running execution, and how far it is.
#[derive(Debug)]
pub(super) struct ExecutionProgress {
    pub(super) agent: String,
    /// Why this agent works, and who decided that.
    pub(super) why: Option<String>,
    /// The calls of the last turn, in order.
    pub(super) calls: Vec<CallProgress>,
    /// The text of the current turn.
    pub(super) text: Speech,
    /// Since when the model has been asked.
    pub(super) asked: Timestamp,
    begun: Timestamp,
    totals: Totals,
    /// Tokens and cost of the session when it began.
    before: (u64, Option<f64>),
    report: Option<(bool, String)>,
}

/// What the calls of an execution came to.
#[derive(Debug, Default)]
struct Totals {
    turns: u64,
    calls: u64,
    failed: u64,
    denied: u64,
    memories: u64,
    files: Vec<String>,
}

/// A tool call, and how far it is.
#[derive(Debug)]
pub(super) struct CallProgress {
    id: String,
    /// The tool and its main argument.
    pub(super) tool: String,
    pub(super) argument: String,
    /// Since when it runs; `None` while it waits for the calls before it.
    pub(super) begun: Option<Timestamp>,
    pub(super) end: Option<CallEnd>,
    /// Whether its result has been shown.
    is_shown: bool,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum CallEnd {
    Denied,
    Done { failed: bool, result: String },
}

impl CallEnd {
    fn of(outcome: &ToolOutcome) -> Self {
        Self::Done { failed: phrase::failed(outcome), result: phrase::result(outcome) }
    }
}

/// A model's text as it streams.
#[derive(Debug, Default)]
pub(super) struct Speech {
    sanitizer: Sanitizer,
    text: String,
}

impl Speech {
    /// Appends a piece.
    pub(super) fn push(&mut self, piece: &str) {
        self.sanitizer.push(piece, &mut self.text);
        if self.text.len() > LONGEST_TEXT {
            // The end is what is looked at. From a paragraph's beginning, so that it reads as before.
            let half = self.text.ceil_char_boundary(LONGEST_TEXT / 2);
            let from = self.text[half..].find("\n\n").map_or(half, |end| half + end + 2);
            self.text.drain(..from);
        }
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl ExecutionProgress {
    pub(super) fn new(agent: &str, why: Option<String>, now: Timestamp, used: (u64, Option<f64>)) -> Self {
        Self {
            agent: clean_line(agent),
            why,
            calls: Vec::new(),
            text: Speech::default(),
            asked: now,
            begun: now,
            totals: Totals::default(),
            before: used,
            report: None,
        }
    }

    /// The model has answered: its calls follow.
    pub(super) fn turned(&mut self) {
        self.totals.turns += 1;
        self.calls.clear();
    }

    /// The agent was given memories.
    pub(super) fn remembers(&mut self, memories: usize) {
        self.totals.memories += memories as u64;
    }

    /// The agent speaks. What it says after calls is another turn.
    pub(super) fn says(&mut self, text: &str) {
        if self.calls.iter().any(|call| call.end.is_some()) && !self.is_calling() && self.text.text.is_empty()
        {
            self.calls.clear();
        }
        self.text.push(text);
    }

    /// Whether a call is still open.
    pub(super) fn is_calling(&self) -> bool {
        self.calls.iter().any(|call| call.end.is_none())
    }

    /// No process carried the run for so long.
    pub(super) fn shift(&mut self, ms: u64) {
        let begun = self.calls.iter_mut().filter_map(|call| call.begun.as_mut());
        for at in begun.chain([&mut self.begun, &mut self.asked]) {
            at.0 = at.0.saturating_add(ms);
        }
    }

    /// A call begins to run.
    pub(super) fn begins(&mut self, call_id: &str, now: Timestamp) {
        // A call for which a person was asked begins a second time.
        if let Some(call) = self.unshown(call_id) {
            (call.begun, call.end) = (Some(now), None);
        }
    }

    /// A call has ended whose result comes later.
    pub(super) fn ended(&mut self, call_id: &str, outcome: &ToolOutcome) {
        if let Some(call) = self.unshown(call_id) {
            call.end = Some(CallEnd::of(outcome));
        }
    }

    /// The call whose result has not been shown.
    fn unshown(&mut self, call_id: &str) -> Option<&mut CallProgress> {
        let is_denied = |call: &CallProgress| matches!(call.end, Some(CallEnd::Denied));
        self.calls.iter_mut().find(|call| call.id == call_id && !call.is_shown && !is_denied(call))
    }

    pub(super) fn called(&mut self, call: &ToolCall, allowed: bool) {
        if allowed && call.name == REPORT {
            self.report = reported(&call.input);
        }
        if allowed && is_control_tool(&call.name) {
            return;
        }
        let (tool, argument) = phrase::call(call);
        self.totals.calls += 1;
        self.totals.denied += u64::from(!allowed);
        let end = (!allowed).then_some(CallEnd::Denied);
        self.calls.push(CallProgress {
            id: call.id.clone(),
            tool,
            argument,
            begun: None,
            end,
            is_shown: false,
        });
    }

    pub(super) fn finished(&mut self, call_id: &str, outcome: &ToolOutcome, now: Timestamp) {
        for file in &outcome.files_modified {
            if !self.totals.files.contains(file) {
                self.totals.files.push(file.clone());
            }
        }
        if let Some(call) = self.unshown(call_id) {
            call.is_shown = true;
            call.end = Some(CallEnd::of(outcome));
            self.totals.failed += u64::from(phrase::failed(outcome));
        }
        if !self.is_calling() {
            // The model is asked again.
            self.asked = now;
            self.text = Speech::default();
        }
    }

    /// What is left of it: who, why, what came of it, and the figures.
    pub(super) fn folded(&self, now: Timestamp, used: &Usage, cost_usd: Option<f64>) -> Vec<StyledLine> {
        let (mark, tone) = match &self.report {
            Some((true, _)) => ("✓", Tone::Good),
            Some((false, _)) => ("✗", Tone::Bad),
            None => ("●", Tone::Name),
        };
        let mut head =
            StyledLine::of(tone, mark).and(Tone::Normal, " ").and(Tone::Strong, &self.agent).hanging(2);
        if let Some(why) = &self.why {
            head = head.and(Tone::Faint, format!(": {why}"));
        }
        let mut lines = vec![head];
        let said = self.report.as_ref().map_or(self.text.text(), |(_, text)| text.as_str());
        let mut said: Vec<StyledLine> =
            markdown::lines(said).into_iter().filter(|line| !line.is_blank()).collect();
        let is_cut = said.len() > REPORT_LINES;
        said.truncate(REPORT_LINES);
        if let Some(last) = said.last_mut().filter(|_| is_cut) {
            *last = std::mem::take(last).and(Tone::Faint, " …");
        }
        lines.extend(said.into_iter().map(|line| StyledLine::plain("    ").join(line).hanging(4)));
        lines.push(
            StyledLine::of(Tone::Faint, format!("    {}", self.figures(now, used, cost_usd))).hanging(4),
        );
        lines
    }

    fn figures(&self, now: Timestamp, used: &Usage, cost_usd: Option<f64>) -> String {
        let Totals { turns, calls, failed, denied, memories, files } = &self.totals;
        let mut parts = vec![counted(*turns, "turn")];
        if *calls > 0 {
            let mut text = counted(*calls, "call");
            let bad: Vec<String> = [(failed, "failed"), (denied, "denied")]
                .into_iter()
                .filter(|(count, _)| **count > 0)
                .map(|(count, how)| format!("{count} {how}"))
                .collect();
            if !bad.is_empty() {
                text.push_str(&format!(" ({})", bad.join(", ")));
            }
            parts.push(text);
        }
        if *memories > 0 {
            parts.push(if *memories == 1 { "1 memory".to_owned() } else { format!("{memories} memories") });
        }
        if !files.is_empty() {
            let named: Vec<String> = files.iter().take(NAMED_FILES).map(|file| clean_line(file)).collect();
            let more = match files.len().saturating_sub(NAMED_FILES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            parts.push(format!("wrote {}{more}", named.join(", ")));
        }
        parts.push(duration(now.since(self.begun)));
        let spent = used.total_tokens().saturating_sub(self.before.0);
        if spent > 0 {
            parts.push(format!("{}{} tokens", about(used), tokens(spent)));
            if let (Some(after), Some(before)) = (cost_usd, self.before.1) {
                parts.push(cost(Some((after - before).max(0.0))));
            }
        }
        parts.join(" · ")
    }

    /// The calls of the turn: a line each, or two side by side where there is room. At most `height` lines.
    pub(super) fn call_lines(&self, columns: usize, height: usize, now: Timestamp) -> Vec<StyledLine> {
        let wide = columns >= 110 && self.calls.len() > 1;
        let width = if wide { (columns - 4) / 2 } else { columns.saturating_sub(2) };
        let room = if wide { height * 2 } else { height };
        // The open ones matter most; the order stays.
        let mut shown: Vec<&CallProgress> = self.calls.iter().collect();
        let mut hidden = 0;
        while shown.len() > room.saturating_sub(usize::from(hidden > 0)) && !shown.is_empty() {
            let done = shown.iter().position(|call| call.end.is_some());
            shown.remove(done.unwrap_or(shown.len() - 1));
            hidden += 1;
        }
        let cells: Vec<StyledLine> = shown.iter().map(|call| call.line(width, now)).collect();
        let mut lines: Vec<StyledLine> = cells
            .chunks(if wide { 2 } else { 1 })
            .map(|cells| {
                let cells = cells.iter().cloned();
                cells.fold(StyledLine::default(), |line, cell| line.and(Tone::Normal, "  ").join(cell))
            })
            .collect();
        if hidden > 0 && height > 0 {
            lines.truncate(height - 1);
            lines.push(StyledLine::of(Tone::Faint, format!("  … {}", counted(hidden, "more call"))));
        }
        lines
    }
}

impl CallProgress {
    /// In exactly `columns`: a mark, the call, and on the right its duration or its result.
    fn line(&self, columns: usize, now: Timestamp) -> StyledLine {
        let (mark, tone, right) = match &self.end {
            None => match self.begun {
                Some(begun) => ("▸", Tone::Name, whole_seconds(now.since(begun))),
                None => ("·", Tone::Faint, "waits".to_owned()),
            },
            Some(CallEnd::Denied) => ("✗", Tone::Bad, "denied".to_owned()),
            Some(CallEnd::Done { failed: true, result }) => ("✗", Tone::Bad, result.clone()),
            Some(CallEnd::Done { failed: false, result }) => ("✓", Tone::Good, result.clone()),
        };
        // The duration, which is the end of a result, is shown in any case.
        let right = if right.chars().count() * 2 > columns {
            right.rsplit(", ").next().unwrap_or_default().to_owned()
        } else {
            right
        };
        let right = StyledLine::of(Tone::Faint, right);
        let left = StyledLine::of(tone, mark)
            .and(Tone::Normal, " ")
            .and(Tone::Strong, &self.tool)
            .and(Tone::Normal, format!(" {}", self.argument).trim_end());
        left.fitted(columns.saturating_sub(right.width() + 1)).and(Tone::Normal, " ").join(right)
    }
}

/// A length of time that still grows: in whole seconds, so that nothing changes more often.
pub(super) fn whole_seconds(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..60 => format!("{seconds} s"),
        _ => duration(ms),
    }
}

/// Whether an agent's report says that it went well, and its words.
fn reported(input: &Value) -> Option<(bool, String)> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let is_good = match text("verdict").or_else(|| text("outcome")) {
        Some(word) => matches!(word, "success" | "approved"),
        None => true,
    };
    text("summary").map(|summary| (is_good, clean(summary).into_owned()))
}

/// Figures of the run so far, as pieces that flow.
pub(super) fn flowing(pieces: Vec<StyledLine>, columns: usize) -> Vec<StyledLine> {
    let lines = flow(pieces, " · ", columns.saturating_sub(2));
    lines.into_iter().map(|line| StyledLine::plain("  ").join(line)).collect()
}
