//! `rawko fleet show ID`: how a task stands, what it asks, how it ended, and where its work is.

use rawko_temporal::{FleetTask, TaskStatus};

use super::arguments::{ShowArgs, TaskPhase};
use super::connection::{FleetAddress, OrFailure as _};
use super::phase::{as_json, timestamp};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Paint, clean, clean_line, cost, duration, indent, quoted};
use crate::reporters::question_alone;
use crate::runtime::block_on;
use crate::workspace::Workspace;

/// Characters of a digest that are shown.
const DIGEST_CHARS: usize = 12;

pub(super) fn run(workspace: &Workspace, arguments: &ShowArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let task = block_on(async { target.connect().await?.show(&arguments.task).await.or_failure() })?;
    let text = |paint| text(&task, Clock::local(), paint);
    workspace.console.output(arguments.output.json, &as_json(&task), text)?;
    Ok(Exit::Success)
}

/// The question of a task, with the commands that answer it; `None` where it asks nothing.
pub(super) fn asked(task: &FleetTask, clock: Clock) -> Option<String> {
    let asked = task.status.as_ref()?.question.as_ref()?;
    let id = clean_line(&task.id);
    let digest = asked.digest.get(..DIGEST_CHARS).unwrap_or(&asked.digest);
    let text = question_alone(asked, clock);
    Some(format!(
        "{}; without an answer by then it is a no (`permissions.askTimeout`)\n\
         to answer: rawko fleet approve {id} --question {digest} yes|no",
        text.trim_end()
    ))
}

/// How to look at the work of a task.
pub(super) fn commands(status: &TaskStatus) -> String {
    let (url, branch) = (quoted(status.repository.url()), quoted(&status.branch));
    // A task that has changed nothing has no branch.
    let changes = status.outcome.as_ref().map(|outcome| !outcome.files_modified.is_empty());
    let if_any = if changes == Some(true) { "" } else { "  # if it has changed something" };
    format!("git fetch {url} {branch} && git switch --detach FETCH_HEAD{if_any}")
}

fn text(task: &FleetTask, clock: Clock, paint: Paint) -> String {
    let mut rows = vec![("State:", state(task))];
    let id = clean_line(&task.id);
    if let Some(status) = &task.status {
        rows.extend([
            ("Submitter:", clean_line(&status.submitter)),
            ("Repository:", clean_line(status.repository.url())),
            ("Branch:", clean_line(&status.branch)),
            ("Iterations:", status.iterations.to_string()),
        ]);
        rows.extend(status.submission.iter().map(|name| ("Submission:", clean_line(name))));
        rows.extend(status.head.iter().map(|head| ("Commit:", head.to_string())));
        rows.extend(status.session.iter().map(|session| ("Session:", clean_line(session))));
        if let Some(outcome) = &status.outcome {
            rows.push(("Files changed:", clean_line(&outcome.changed_files())));
            let spent = outcome.cost_usd.map_or_else(|| "unknown".to_owned(), |usd| cost(Some(usd)));
            rows.push(("Cost:", spent));
            rows.push(("Time:", duration(outcome.duration_ms)));
        }
        rows.extend(status.merge_request.iter().map(|said| ("Merge request:", clean_line(said))));
    }
    rows.extend(task.waits_for.iter().map(|waiting| {
        let since = clock.time(timestamp(waiting.since));
        ("Waits for:", format!("a worker with a free slot for {}, since {since}", clean_line(&waiting.queue)))
    }));
    rows.extend(task.submitted_at.map(|at| ("Submitted:", clock.time(timestamp(at)))));
    rows.extend(task.ended_at.map(|at| ("Ended:", clock.time(timestamp(at)))));
    let status = task.status.as_ref();
    let heading = status.map_or_else(|| id.clone(), |status| clean(status.task.trim()).into_owned());
    let mut text = format!("{}\n\n", paint.strong(&heading));
    for (name, value) in rows {
        text.push_str(&format!("{} {value}\n", paint.faint(&format!("{name:<14}"))));
    }
    let summary = status.and_then(|status| status.outcome.as_ref()).map(|outcome| outcome.summary.clone());
    if let Some(said) = summary.or_else(|| task.failure.clone()).filter(|said| !said.trim().is_empty()) {
        text.push_str(&format!("\n{}\n", indent(&clean(said.trim()), 2)));
    }
    if let Some(asked) = asked(task, clock) {
        text.push_str(&format!("\n{asked}\n"));
    }
    let mut next: Vec<String> = Vec::new();
    if status.is_some_and(|status| status.session.is_some()) {
        next.extend(status.map(commands));
        next.push(match TaskPhase::of(task) {
            TaskPhase::Running | TaskPhase::Asking | TaskPhase::Paused => format!("rawko fleet watch {id}"),
            _ => format!("rawko fleet export {id}"),
        });
    }
    if !next.is_empty() {
        text.push_str(&format!("\n{} {}\n", paint.hint("next:"), next.join("\n      ")));
    }
    text
}

fn state(task: &FleetTask) -> String {
    let word = TaskPhase::of(task).as_str();
    let agent = task.status.as_ref().and_then(|status| Some((status.agent.as_ref()?, status.state)));
    match (TaskPhase::of(task), agent) {
        (TaskPhase::Running, Some((agent, state))) => {
            format!("{word} ({}, {})", clean_line(agent), state.as_str())
        }
        (TaskPhase::Waiting, _) => format!("{word} for a worker"),
        (TaskPhase::Released, _) => format!("{word} to a process that drives it itself"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rawko_temporal::EngineState;

    use super::super::phase::tests::{question, task};
    use super::*;
    use crate::output::Paint;

    #[test]
    fn the_page_of_a_task_says_where_its_work_is_and_what_comes_next() {
        let clock = Clock::standing(|| rawko_core::Timestamp(1_769_160_600_000));
        let page = text(&task(EngineState::Running, |_| {}), clock, Paint::new(false));
        for part in [
            "fix it\n",
            "State:         running\n",
            "Repository:    https://example.com/a.git\n",
            "git fetch https://example.com/a.git rawko/one",
            "rawko fleet watch one",
        ] {
            assert!(page.contains(part), "{page}\nlacks {part}");
        }
        let waits =
            text(&task(EngineState::Running, |status| status.session = None), clock, Paint::new(false));
        assert!(waits.contains("waiting for a worker") && !waits.contains("git fetch"), "{waits}");
        let asks = task(EngineState::Running, |status| status.question = Some(question()));
        let asks = text(&asks, clock, Paint::new(false));
        assert!(asks.contains("rawko fleet approve one --question 0123456789ab yes|no"), "{asks}");
        let until = format!(
            "waits until {}; without an answer by then it is a no",
            clock.time(rawko_core::Timestamp(0))
        );
        assert!(asks.contains(&until) && asks.contains("permissions.askTimeout"), "{asks}");
    }
}
