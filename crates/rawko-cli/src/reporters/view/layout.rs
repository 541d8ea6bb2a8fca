//! Draws the view: a pure function of the model, the size of the terminal and the time. It takes at most half of the
//! window, and no line is wider than the window.

use rawko_core::Timestamp;
use rawko_core::machine::{Plan, State, StepStatus};

use super::super::line::{StyledLine, Tone, flow};
use super::super::phrase;
use super::area::{Frame, Size};
use super::control::KeyboardControl;
use super::execution::{flowing, whole_seconds};
use super::markdown;
use super::model::Model;
use crate::output::{about, cost, duration, tokens};

/// Most lines of the view.
const HIGHEST: usize = 18;
/// Most lines of the calls, and of the text.
const SECTION: usize = 6;
/// Most lines of the plan.
const PLAN: usize = 8;
/// Text is not wider than this: longer lines are hard to read.
const TEXT_COLUMNS: usize = 100;
/// Cells of a bar.
const BAR: usize = 8;
/// Narrower terminals have no bars.
const BAR_COLUMNS: usize = 60;

/// What is to be seen.
pub(super) fn frame(model: &Model, control: &KeyboardControl, size: Size, now: Timestamp) -> Frame {
    if !model.running {
        return Frame::default();
    }
    // Some terminals wrap when the last column is written, so it stays free.
    let columns = size.columns.saturating_sub(1).max(1);
    let height = (size.rows / 2).clamp(1, HIGHEST).min(size.rows.saturating_sub(1)).max(1);
    let status = status(model, columns, now);
    let mut figures = figures(model, columns, now);
    let (mut bottom, mut cursor) = control.lines(model, columns);
    // In a low window, what the user types is kept, then the status.
    let room = height.saturating_sub(bottom.len());
    let mut top: Vec<StyledLine> = status.into_iter().take(room.max(1)).collect();
    figures.truncate(height.saturating_sub(top.len() + bottom.len()));
    let left = height.saturating_sub(top.len() + figures.len() + bottom.len());
    let middle = middle(model, columns, left, now);
    top.extend(middle);
    top.extend(figures);
    if let Some((row, _)) = &mut cursor {
        *row += top.len();
    }
    top.append(&mut bottom);
    let lines: Vec<StyledLine> = top.into_iter().map(|line| line.cut(columns)).collect();
    let surplus = lines.len().saturating_sub(size.rows.saturating_sub(1).max(1));
    let cursor = cursor.and_then(|(row, column)| Some((row.checked_sub(surplus)?, column.min(columns))));
    Frame { lines: lines.into_iter().skip(surplus).collect(), cursor }
}

/// Who does what, and for how long.
fn status(model: &Model, columns: usize, now: Timestamp) -> Vec<StyledLine> {
    // A pause outlasts a wait; a question is asked in any case.
    let wait = model.wait.as_ref().filter(|_| model.paused.is_none());
    if let Some(wait) = wait.filter(|wait| wait.until > now) {
        let left = whole_seconds(wait.until.since(now));
        let head = StyledLine::of(Tone::Warning, "◷ waiting ").and(Tone::Normal, wait.what.as_str());
        let mut lines =
            flow(vec![head, StyledLine::of(Tone::Normal, format!("{left} left"))], " · ", columns);
        let why = StyledLine::of(Tone::Faint, format!("  {}", wait.why)).hanging(2);
        lines.extend(why.folded(columns).into_iter().take(2));
        return lines;
    }
    if let Some(question) = &model.question {
        let left = whole_seconds(question.until.since(now));
        let head = StyledLine::of(Tone::Warning, "? ").and(Tone::Strong, &question.agent).and(
            Tone::Normal,
            format!(" waits for your answer until {} · {left} left", question.until_shown),
        );
        return head.hanging(2).folded(columns);
    }
    if let Some(since) = model.paused {
        let time = whole_seconds(now.since(since));
        let head = StyledLine::of(Tone::Warning, "○ paused").and(Tone::Faint, format!(" · {time}"));
        let what = StyledLine::of(Tone::Faint, "  what is under way ends, and nothing new begins").hanging(2);
        return std::iter::once(head).chain(what.folded(columns)).collect();
    }
    let (who, doing, since) = match (&model.verifying, &model.execution) {
        (Some((commands, since)), _) => ("verifying", commands.clone(), *since),
        (None, Some(execution)) => {
            let open: Vec<_> = execution.calls.iter().filter(|call| call.end.is_none()).collect();
            let running: Vec<_> = open.iter().filter_map(|call| Some((call, call.begun?))).collect();
            let agent = execution.agent.as_str();
            match running.as_slice() {
                [] if !open.is_empty() => (agent, "about to run a call".to_owned(), execution.asked),
                [] if !execution.text.text().is_empty() => (agent, "writing".to_owned(), execution.asked),
                [] => (agent, "asking the model".to_owned(), execution.asked),
                [(call, begun)] => (agent, format!("running {}", call.tool), *begun),
                [(_, begun), ..] => (agent, format!("running {} calls", running.len()), *begun),
            }
        }
        (None, None) => match model.state {
            State::Selecting => ("arbiter", "choosing the next agent".to_owned(), model.since),
            State::Evaluating => ("arbiter", "judging the work".to_owned(), model.since),
            State::ErrorHandling => ("rawko", "handling an error".to_owned(), model.since),
            State::Executing => ("rawko", "preparing the agent".to_owned(), model.since),
            State::Idle => ("rawko", "starting".to_owned(), model.since),
            State::Complete | State::Failed | State::Cancelled => ("rawko", "ending".to_owned(), model.since),
        },
    };
    let time = format!(" · {}", whole_seconds(now.since(since)));
    let head =
        StyledLine::of(Tone::Good, "● ").and(Tone::Strong, who).and(Tone::Normal, format!(" · {doing}"));
    vec![head.cut(columns.saturating_sub(time.chars().count())).and(Tone::Faint, time)]
}

/// Why the agent works, the plan, what it says and what it calls: as much of each as there is room for.
fn middle(model: &Model, columns: usize, height: usize, now: Timestamp) -> Vec<StyledLine> {
    let mut why = Vec::new();
    let (mut text, mut calls) = (Vec::new(), 0);
    if let Some(execution) = &model.execution {
        if let Some(reason) = &execution.why {
            why = StyledLine::of(Tone::Faint, format!("  why: {reason}")).hanging(7).folded(columns);
            why.truncate(2);
        }
        text = said(execution.text.text(), columns);
        calls = execution.call_lines(columns, SECTION, now).len();
    }
    let plan = model.plan.as_ref().filter(|plan| !plan.steps.is_empty());
    let wanted =
        [calls, text.len().min(SECTION), plan.map_or(0, |plan| plan.steps.len() + 1).min(PLAN), why.len()];
    let [calls, says, steps, reasons] = shares(wanted, height);
    why.truncate(reasons);
    let mut lines = why;
    lines.extend(plan.map(|plan| plan_lines(plan, columns, steps)).unwrap_or_default());
    let end = text.split_off(text.len() - says);
    lines.extend(end.into_iter().skip_while(StyledLine::is_blank));
    lines.extend(model.execution.iter().flat_map(|execution| execution.call_lines(columns, calls, now)));
    lines
}

/// Deals lines out, one to each in turn, until all have what they want or nothing is left.
fn shares<const N: usize>(wanted: [usize; N], mut left: usize) -> [usize; N] {
    let mut given = [0; N];
    while left > 0 && given != wanted {
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if *given < wanted && left > 0 {
                *given += 1;
                left -= 1;
            }
        }
    }
    given
}

/// The text of a turn, as far as it is written.
fn said(text: &str, columns: usize) -> Vec<StyledLine> {
    let columns = columns.saturating_sub(2).min(TEXT_COLUMNS);
    let lines = markdown::lines(text);
    let folded = lines.iter().flat_map(|line| line.folded(columns));
    folded.map(|line| StyledLine::plain("  ").join(line)).collect()
}

/// The plan in so many lines: its progress, and the steps around the current one.
fn plan_lines(plan: &Plan, columns: usize, height: usize) -> Vec<StyledLine> {
    let current = plan.current_step_index.min(plan.steps.len() - 1);
    let step = |at: usize| {
        let step = &plan.steps[at];
        let tone = match step.status {
            StepStatus::Complete => Tone::Good,
            StepStatus::InProgress => Tone::Name,
            StepStatus::Failed => Tone::Bad,
            StepStatus::Pending | StepStatus::Skipped => Tone::Faint,
        };
        StyledLine::of(tone, format!("{} {}. {}", phrase::mark(step), step.index, phrase::step(step)))
    };
    let progress = format!("  plan {}", phrase::progress(plan));
    match height {
        0 => Vec::new(),
        1 => vec![StyledLine::plain(format!("{progress} · ")).join(step(current)).cut(columns)],
        _ => {
            let shown = (height - 1).min(plan.steps.len());
            let first = current.saturating_sub(shown / 2).min(plan.steps.len() - shown);
            let steps =
                (first..first + shown).map(|at| StyledLine::plain("    ").join(step(at)).cut(columns));
            std::iter::once(StyledLine::plain(progress)).chain(steps).collect()
        }
    }
}

/// Time, cost, tokens and iterations, each with its limit.
fn figures(model: &Model, columns: usize, now: Timestamp) -> Vec<StyledLine> {
    let limits = model.limits.as_ref();
    let bars = columns >= BAR_COLUMNS;
    let piece = |now: String, of: Option<(String, f64)>| match of {
        None => StyledLine::of(Tone::Faint, now),
        Some((of, share)) => {
            let line = StyledLine::of(Tone::Faint, format!("{now} of {of}"));
            if bars { line.and(Tone::Normal, " ").join(bar(share)) } else { line }
        }
    };
    let mut pieces = Vec::new();
    let elapsed = now.since(model.begun);
    let time = limits.and_then(|limits| limits.max_duration_ms);
    pieces.push(piece(
        whole_seconds(elapsed),
        time.map(|max| (duration(max), elapsed as f64 / max.max(1) as f64)),
    ));
    let used = model.used.total_tokens();
    let (shared_tokens, shared_cost) = model.shared;
    if used > 0 || shared_tokens > 0 {
        // Where there is a limit, all that counts towards it is shown.
        let spent = model.cost_usd.zip(shared_cost).map(|(own, shared)| own + shared);
        let money = limits.and_then(|limits| limits.max_cost_usd).filter(|max| *max > 0.0);
        let money = money.zip(spent).map(|(max, spent)| (format!("${max:.2}"), spent / max));
        pieces.push(piece(cost(if money.is_some() { spent } else { model.cost_usd }), money));
        let most = limits.and_then(|limits| limits.max_tokens);
        let counted = used + shared_tokens;
        let share = most.map(|max| (tokens(max), counted as f64 / max.max(1) as f64));
        let count = format!("{}{}", about(&model.used), tokens(if share.is_some() { counted } else { used }));
        pieces.push(piece(
            if share.is_some() { count } else { format!("{count} tokens") },
            share.map(|(of, share)| (format!("{of} tokens"), share)),
        ));
    }
    let iteration = model.iteration.saturating_sub(model.earlier);
    if iteration > 0 {
        let of = limits.map(|limits| format!(" of {}", limits.max_iterations)).unwrap_or_default();
        pieces.push(StyledLine::of(Tone::Faint, format!("iteration {iteration}{of}")));
    }
    flowing(pieces, columns)
}

/// How much of a budget is used.
fn bar(share: f64) -> StyledLine {
    let share = share.clamp(0.0, 1.0);
    let full = ((share * BAR as f64).round() as usize).min(BAR);
    let tone = if share >= 0.8 { Tone::Warning } else { Tone::Name };
    StyledLine::of(tone, "█".repeat(full)).and(Tone::Faint, "░".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bar_shows_the_share() {
        for (share, expected) in [(0.0, "░░░░░░░░"), (0.1, "█░░░░░░░"), (0.5, "████░░░░"), (7.0, "████████")]
        {
            assert_eq!(bar(share).text(), expected);
        }
    }

    proptest! {
        #[test]
        fn shares_are_fair(wanted in prop::array::uniform4(0usize..10), left in 0usize..30) {
            let given = shares(wanted, left);
            prop_assert_eq!(given.iter().sum::<usize>(), left.min(wanted.iter().sum()));
            for (one, other) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                prop_assert!(given[one] + 1 >= given[other] || given[one] == wanted[one]);
            }
        }
    }
}
