//! Background jobs: commands that go on while their agent does something else.
//!
//! Owns the jobs of one run, the output that was not reported yet, and their end. Only the agent that started a job
//! gets its reports. A job does not outlive its process. The results of calls hold which ones were begun and ended, so
//! that a resumed run can inform their agents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rawko_core::text::keep_ends;
use rawko_core::tool::Refusal;

use crate::process::{CommandLine, HeadAndTail, KillHandle, RunningCommand};
use crate::refusals::{RefusalSummary, Refusals};

/// The most jobs at the same time in one run.
const MAX_JOBS: usize = 8;
/// How long a job may take to end: it is asked first, and then killed.
const STOP_PATIENCE: Duration = Duration::from_secs(8);
/// Bytes of a job's output that are kept until the next report.
const MAX_KEPT: usize = 8_000;
/// Bytes of a word that are kept back while it may go on: split over two reports it would not be recognised.
const MAX_WORD: usize = 1_000;
/// Bytes of output of all jobs in one report.
const MAX_REPORT: usize = 16_000;

/// The jobs of one run.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<JobTable>);

#[derive(Debug, Default)]
struct JobTable {
    /// The run is over: no job may start any more.
    is_closed: bool,
    last: u32,
    jobs: BTreeMap<u32, Job>,
}

#[derive(Debug)]
struct Job {
    agent: String,
    handle: KillHandle,
    unreported: Arc<Mutex<UnreportedOutput>>,
    /// What the sandbox refuses to it.
    refusals: Refusals,
}

/// The output and the end that are not reported to the job's agent yet.
#[derive(Debug)]
struct UnreportedOutput {
    output: HeadAndTail,
    /// How it ended; `None` while it runs.
    end: Option<String>,
}

/// The report to an agent on its jobs.
#[derive(Debug)]
pub(crate) struct JobReport {
    /// One paragraph for each; empty if there is none.
    pub(crate) text: String,
    /// The jobs whose end it reports.
    pub(crate) ended: Vec<u32>,
    /// What they were refused.
    pub(crate) refused: Vec<Refusal>,
}

/// Why a job was not started, or not ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The limit on jobs is reached.
    #[error(
        "{MAX_JOBS} background jobs are running already, which is the limit. End one that is not needed, or wait \
         until one ends"
    )]
    TooMany,
    /// There is no such job.
    #[error("there is no background job {job} ({running})")]
    Unknown { job: u32, running: String },
    /// It was killed and is there all the same.
    #[error("background job {0} has not ended yet")]
    Lives(u32),
    /// The run is over.
    #[error("the run is ending, so no background job can start")]
    Closed,
    /// The system could not start it.
    #[error("the background job could not be started: {0}")]
    NotStarted(#[from] io::Error),
}

impl Jobs {
    /// Starts a job for `agent` and returns its number. Blocks while the system starts the process.
    pub(crate) fn start(&self, agent: String, line: &CommandLine) -> Result<u32, JobError> {
        let mut table = lock(&self.0);
        if table.is_closed {
            return Err(JobError::Closed);
        }
        if table.jobs.values().filter(|job| lock(&job.unreported).end.is_none()).count() >= MAX_JOBS {
            return Err(JobError::TooMany);
        }
        let handle = KillHandle::default();
        let running = handle.start(line)?;
        let unreported =
            Arc::new(Mutex::new(UnreportedOutput { output: HeadAndTail::new(MAX_KEPT), end: None }));
        let (reported, refusals) = (Arc::clone(&unreported), running.refusals());
        // A thread of its own, because a job may outlive the runtime that its agent's call ran in. If no thread can be
        // started, dropping the closure drops the command, which kills it.
        std::thread::Builder::new()
            .name("background job".to_owned())
            .spawn(move || follow(running, &reported))?;
        table.last += 1;
        let job = table.last;
        table.jobs.insert(job, Job { agent, handle, unreported, refusals });
        Ok(job)
    }

    /// Ends a job of `agent`. Blocks until it has ended, which the next report says.
    pub(crate) fn stop(&self, agent: &str, job: u32) -> Result<(), JobError> {
        let unreported = {
            let table = lock(&self.0);
            let Some(found) = table.jobs.get(&job).filter(|found| found.agent == agent) else {
                let own = table.jobs.iter().filter(|(_, job)| job.agent == agent);
                let running = own.map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(", ");
                let running =
                    if running.is_empty() { "you have none".to_owned() } else { format!("yours: {running}") };
                return Err(JobError::Unknown { job, running });
            };
            found.handle.kill();
            Arc::clone(&found.unreported)
        };
        let deadline = Instant::now() + STOP_PATIENCE;
        while lock(&unreported).end.is_none() {
            if Instant::now() >= deadline {
                return Err(JobError::Lives(job));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Reports on the jobs of `agent` since its last report. Removes the jobs that have ended.
    pub(crate) fn report(&self, agent: &str) -> JobReport {
        let mut table = lock(&self.0);
        let own = table.jobs.iter().filter(|(_, job)| job.agent == agent);
        // In this order: what a job is refused is recorded before its end is known.
        let reported: Vec<(u32, UnreportedOutput, RefusalSummary)> =
            own.map(|(number, job)| (*number, lock(&job.unreported).take(), job.refusals.take())).collect();
        let talkative = reported.iter().filter(|(_, unreported, _)| !unreported.output.is_empty()).count();
        let (mut report, mut ended, mut refused) = (String::new(), Vec::new(), Vec::new());
        for (number, unreported, hosts) in reported {
            let state = match &unreported.end {
                Some(end) => end.as_str(),
                None if unreported.output.is_empty() => "running, no new output",
                None => "running",
            };
            // Writing to a String cannot fail.
            let _ = writeln!(report, "[background job {number}: {state}]");
            if !unreported.output.is_empty() {
                let _ = writeln!(
                    report,
                    "{}",
                    keep_ends(unreported.output.text().trim_end(), MAX_REPORT / talkative)
                );
            }
            let denials = hosts.text();
            if !denials.is_empty() {
                let _ = writeln!(report, "{denials}");
            }
            refused.extend(hosts.refusals());
            if unreported.end.is_some() {
                table.jobs.remove(&number);
                ended.push(number);
            }
        }
        JobReport { text: report, ended, refused }
    }

    /// The next job gets a higher number than `last`.
    pub(crate) fn number_after(&self, last: u32) {
        let mut table = lock(&self.0);
        table.last = table.last.max(last);
    }

    /// Ends all jobs, and reports their end as usual. New jobs may start. Does not wait: `settle` does.
    pub(crate) fn interrupt(&self) {
        for job in lock(&self.0).jobs.values() {
            job.handle.kill();
        }
    }

    /// Ends all jobs and lets none start any more. Does not wait: `settle` does.
    pub(crate) fn end(&self) {
        let mut table = lock(&self.0);
        table.is_closed = true;
        for job in std::mem::take(&mut table.jobs).into_values() {
            job.handle.kill();
        }
    }
}

impl UnreportedOutput {
    /// Takes the output so far; the next report begins after it. A word that may go on is left for that one.
    fn take(&mut self) -> Self {
        let mut output = std::mem::replace(&mut self.output, HeadAndTail::new(MAX_KEPT));
        if self.end.is_none() {
            self.output.push(&output.take_open_word(MAX_WORD));
        }
        Self { output, end: self.end.clone() }
    }
}

/// Collects the output of a job until it ends.
fn follow(running: RunningCommand, unreported: &Mutex<UnreportedOutput>) {
    let finished = running.finish(&mut |_, bytes| lock(unreported).output.push(bytes));
    lock(unreported).end = Some(match finished {
        Ok(finished) => finished.cause.text(),
        Err(error) => format!("lost: {error}"),
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
