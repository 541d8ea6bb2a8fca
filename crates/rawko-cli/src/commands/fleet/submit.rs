//! `rawko submit "TASK"…`: gives tasks to a fleet.

use std::collections::BTreeSet;
use std::path::Path;

use rawko::Rawko;
use rawko_temporal::{Fleet, FleetTask, Submitted, TaskSpec};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::arguments::{SubmitArgs, TaskPhase};
use super::connection::{FleetAddress, OrFailure as _, of_error};
use super::git::{Checkout, TaskBase, no_repository};
use super::phase::{as_json, exit_of};
use super::task_list::{self, ListedTask, id_of, submission_of};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean, clean_line, shortened};
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// Characters of a task that are shown.
const TASK_CHARS: usize = 60;
/// Tasks that are waited for at once, and submitted at once.
const AT_ONCE: usize = 20;

pub(super) fn run(workspace: &Workspace, mut arguments: SubmitArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    arguments.settings.takeover = arguments.settings.takeover.or(target.takeover);
    let handed_over = match &arguments.session {
        Some(session) => Some(HandedOver::of(workspace, session)?),
        None => None,
    };
    let specs = specs(workspace, &arguments, handed_over.as_ref(), &target)?;
    let ids: Vec<String> = specs.iter().map(|spec| spec.id.clone()).collect();
    let tasks: Vec<String> = specs.iter().map(|spec| spec.task.clone()).collect();
    let (submitted, ended) = block_on(async {
        let fleet = target.connect().await?;
        let mut new_budget = None;
        if let (Some(usd), Some(submission)) =
            (arguments.max_total_cost, specs.first().and_then(|spec| spec.submission.clone()))
        {
            let is_new = fleet.open_budget(&submission, usd, &ids).await.or_failure()?;
            new_budget = Some(submission).filter(|_| is_new);
        }
        let submitted = match &handed_over {
            Some(HandedOver { rawko, session, .. }) => {
                let mut submitted = Vec::new();
                for spec in specs {
                    submitted.push(fleet.submit_session(rawko, session, spec).await.or_failure()?);
                }
                submitted
            }
            None => submit_all(&fleet, specs).await?,
        };
        if let Some(budget) = new_budget {
            // They have ended, or have another one.
            let known: Vec<String> =
                submitted.iter().filter(|one| !one.is_new).map(|one| one.id.clone()).collect();
            fleet.leave_budget(&budget, &known).await.or_failure()?;
        }
        if !arguments.output.json {
            tell(workspace, &target, &submitted, &tasks)?;
        }
        let ended = match arguments.wait {
            true => Some(wait_for_all(workspace, &fleet, &submitted, arguments.output.json).await?),
            false => None,
        };
        Ok((submitted, ended))
    })?;
    if arguments.output.json {
        let tasks: Vec<Value> = submitted
            .iter()
            .enumerate()
            .map(|(at, submitted)| {
                let mut value = json!(submitted);
                if let Some(task) = ended.as_ref().and_then(|ended| ended.get(at)) {
                    value["task"] = as_json(task);
                }
                value
            })
            .collect();
        workspace.console.json(&tasks)?;
    }
    let exits = ended.iter().flatten().map(exit_of);
    Ok(exits.into_iter().find(|exit| *exit != Exit::Success).unwrap_or(Exit::Success))
}

/// The name under which this user submits and answers.
pub(super) fn user_name(workspace: &Workspace) -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| workspace.environment.var(name));
    named.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}

/// A session of this folder that goes on in the fleet.
struct HandedOver {
    rawko: Rawko,
    session: String,
    task: String,
}

impl HandedOver {
    fn of(workspace: &Workspace, session: &str) -> Result<Self, Failure> {
        let rawko = workspace.open()?;
        let path = rawko.sessions().find(session)?;
        let journal = rawko::journal::JournalTail::open(&path)?;
        let rawko::journal::JournalHeader { session, task, .. } = journal.header().clone();
        Ok(Self { rawko, session, task })
    }
}

/// What is submitted. All of it is checked before the first task is.
fn specs(
    workspace: &Workspace,
    arguments: &SubmitArgs,
    handed_over: Option<&HandedOver>,
    target: &FleetAddress,
) -> Result<Vec<TaskSpec>, Failure> {
    let mut listed = match handed_over {
        // Named by its session, so that the same one is the same a second time.
        Some(HandedOver { task, session, .. }) => {
            let mut listed = ListedTask::of_words(task);
            listed.id = Some(format!("session-{session}"));
            vec![listed]
        }
        None => listed(&arguments.tasks, arguments.file.as_deref())?,
    };
    if let Some(id) = &arguments.id {
        match listed.as_mut_slice() {
            [one] => one.id = Some(id.clone()),
            several => {
                return Err(Failure::usage(format!("--id names one task, and there are {}", several.len()))
                    .with_hint("in a file, give each its own: {\"id\": \"one\", \"task\": \"fix it\"}"));
            }
        }
    }
    // A task names itself, its branch and its summary.
    listed.iter_mut().for_each(|one| one.task = target.redactor.text(&one.task));
    let submitter = arguments.submitter.clone().unwrap_or_else(|| user_name(workspace));
    // The files of a session are pushed as they are.
    let is_named = arguments.branch.is_some() || handed_over.is_some();
    let mut here = Here { workspace, is_named, origin: None };
    let mut specs = Vec::new();
    for task in &listed {
        let revision = task.branch.clone().or_else(|| arguments.branch.clone());
        let given = task.repo.clone().or_else(|| arguments.repo.clone());
        let (repository, revision) = match given {
            Some(repository) => (repository, revision),
            None => {
                here.is_named = revision.is_some() || handed_over.is_some();
                let origin = here.origin()?;
                (origin.url.clone(), revision.or_else(|| origin.commit.clone()))
            }
        };
        let id = task.id.clone().unwrap_or_else(|| id_of(&repository, revision.as_deref(), task.task.trim()));
        rawko_temporal::tree::branch_of(&id).map_err(|error| of_error(&error.into()))?;
        let (options, carriage) = task.settings(&arguments.settings).map_err(|why| {
            let name = shortened(task.task.trim(), TASK_CHARS);
            Failure::usage(format!("the task \"{name}\" cannot be submitted: {why}"))
        })?;
        specs.push(TaskSpec {
            id,
            task: task.task.trim().to_owned(),
            repository: repository
                .parse()
                .map_err(|error: rawko_temporal::tree::TreeError| of_error(&error.into()))?,
            revision,
            submitter: submitter.clone(),
            submission: arguments.submission.clone(),
            has_budget: arguments.max_total_cost.is_some(),
            queue: target.queue.clone(),
            options,
            carriage,
        });
    }
    let mut ids = BTreeSet::new();
    if let Some(twice) = specs.iter().find(|spec| !ids.insert(spec.id.as_str())) {
        let id = clean_line(&twice.id);
        return Err(Failure::usage(format!("two tasks have the id `{id}`")).with_hint("give each its own"));
    }
    if arguments.max_total_cost.is_some() && arguments.submission.is_none() {
        let submission = submission_of(&specs);
        specs.iter_mut().for_each(|spec| spec.submission = Some(submission.clone()));
    }
    Ok(specs)
}

/// The repository of this folder, asked once.
struct Here<'a> {
    workspace: &'a Workspace,
    is_named: bool,
    origin: Option<TaskBase>,
}

impl Here<'_> {
    fn origin(&mut self) -> Result<&TaskBase, Failure> {
        let is_enough = self.origin.as_ref().is_some_and(|origin| origin.commit.is_some() || self.is_named);
        if !is_enough {
            let checkout = Checkout::find(self.workspace)?.ok_or_else(no_repository)?;
            let origin = checkout.origin(self.is_named)?;
            if origin.has_changes && !self.is_named {
                let label = self.workspace.console.error_paint().warning("warning:");
                let text = "changes here that are not committed are not part of the task";
                let _ = self.workspace.console.write_error(&format!("{label} {text}\n"));
            }
            self.origin = Some(origin);
        }
        self.origin.as_ref().ok_or_else(no_repository)
    }
}

/// The tasks of the command line and the file.
fn listed(words: &[String], file: Option<&Path>) -> Result<Vec<ListedTask>, Failure> {
    let is_word = |task: &String| !task.trim().contains(char::is_whitespace) && task.is_ascii();
    if words.len() > 1 && words.iter().all(is_word) {
        let line = clean_line(&words.join(" "));
        return Err(Failure::usage(format!("each argument is a task, and these are {} words", words.len()))
            .with_hint(format!("to submit them as one task: rawko submit \"{line}\"")));
    }
    if words.iter().any(|task| task.trim().is_empty()) {
        return Err(Failure::no_task());
    }
    let mut tasks: Vec<ListedTask> = words.iter().map(|task| ListedTask::of_words(task)).collect();
    if let Some(file) = file {
        tasks.extend(task_list::read(file)?);
    }
    if tasks.is_empty() {
        return Err(Failure::usage("there is no task to submit").with_hint(
            "rawko submit \"fix the parser\" \"document it\"\nor a file of tasks: rawko submit --file TASKS",
        ));
    }
    Ok(tasks)
}

/// Submits the tasks, several at once, and gives their answers in order. If one is refused, the error names those that were
/// submitted.
async fn submit_all(fleet: &Fleet, specs: Vec<TaskSpec>) -> Result<Vec<Submitted>, Failure> {
    let mut submitted = Vec::with_capacity(specs.len());
    let mut specs = specs.into_iter().peekable();
    while specs.peek().is_some() {
        let mut under_way = JoinSet::new();
        for (at, spec) in specs.by_ref().take(AT_ONCE).enumerate() {
            let fleet = fleet.clone();
            under_way.spawn(async move { (at, fleet.submit(spec).await) });
        }
        let mut answers = under_way.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let mut failure = None;
        for (_, answer) in answers {
            match answer.or_failure() {
                Ok(one) => submitted.push(one),
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        if let Some(failure) = failure {
            let done: Vec<String> = submitted.iter().map(|one: &Submitted| clean_line(&one.id)).collect();
            let done = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
            return Err(failure.with_hint(format!("these tasks were submitted all the same: {done}")));
        }
    }
    Ok(submitted)
}

fn tell(
    workspace: &Workspace,
    target: &FleetAddress,
    submitted: &[Submitted],
    tasks: &[String],
) -> Result<(), Failure> {
    let console = &workspace.console;
    for (submitted, task) in submitted.iter().zip(tasks) {
        let (id, branch) = (clean_line(&submitted.id), clean_line(&submitted.branch));
        let task = shortened(task, TASK_CHARS);
        console.line(&match submitted.is_new {
            true => format!("submitted {id}: {task}\n  its work will be on the branch {branch}"),
            false => format!("{id} was submitted before, and nothing changes: {task}"),
        })?;
    }
    if target.has_default_store {
        let store = target.store_in_words();
        console
            .write_error(&format!("store: {}; workers elsewhere need another one\n", clean_line(&store)))?;
    }
    if let [one] = submitted {
        console.write_error(&format!("to follow it: rawko fleet watch {}\n", clean_line(&one.id)))?;
    }
    Ok(())
}

/// Waits for the ends, and reports each as it comes.
async fn wait_for_all(
    workspace: &Workspace,
    fleet: &Fleet,
    submitted: &[Submitted],
    as_json: bool,
) -> Result<Vec<FleetTask>, Failure> {
    let mut signals = StopSignals::listen()?;
    let mut waiting = JoinSet::new();
    let places = std::sync::Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    for (at, submitted) in submitted.iter().enumerate() {
        let (fleet, id, places) = (fleet.clone(), submitted.id.clone(), std::sync::Arc::clone(&places));
        waiting.spawn(async move {
            let _place = places.acquire_owned().await;
            (at, fleet.wait(&id).await)
        });
    }
    let mut ended: Vec<(usize, FleetTask)> = Vec::new();
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => {
                workspace.console.write_error(
                    "no longer waiting; the tasks go on. To stop them: rawko fleet cancel ID…\n",
                )?;
                return Err(Failure::new(Exit::Cancelled, "stopped waiting"));
            }
            next = waiting.join_next() => match next {
                None => break,
                Some(Err(error)) => return Err(Failure::new(Exit::Failed, format!("cannot wait: {error}"))),
                Some(Ok((at, task))) => {
                    let task = task.or_failure()?;
                    if !as_json {
                        workspace.console.line(&end(&task))?;
                    }
                    ended.push((at, task));
                }
            }
        }
    }
    ended.sort_by_key(|(at, _)| *at);
    Ok(ended.into_iter().map(|(_, task)| task).collect())
}

/// The end of a task in a line or two.
fn end(task: &FleetTask) -> String {
    let outcome = task.status.as_ref().and_then(|status| status.outcome.as_ref());
    let said = outcome.map(|outcome| outcome.summary.clone()).or_else(|| task.failure.clone());
    let said = said.map(|said| clean(said.trim()).into_owned()).filter(|said| !said.is_empty());
    let said = said.map(|said| format!("\n  {}", said.replace('\n', "\n  "))).unwrap_or_default();
    format!("{} {}{said}", clean_line(&task.id), TaskPhase::of(task).as_str())
}

#[cfg(test)]
mod tests {

    #[test]
    fn words_without_quotes_are_not_taken_for_tasks() {
        let listed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            super::listed(&words, None).map(|tasks| tasks.len())
        };
        assert!(matches!(listed(&["fix it", "document it"]), Ok(2)));
        assert!(matches!(listed(&["greet"]), Ok(1)));
        let failure = listed(&["fix", "the", "parser"]).unwrap_err();
        assert!(format!("{failure:?}").contains("rawko submit \\\"fix the parser\\\""), "{failure:?}");
        assert!(listed(&[" "]).is_err());
        assert!(listed(&[]).unwrap_err().message().contains("no task"));
    }
}
