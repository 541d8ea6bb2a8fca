//! Background jobs: commands that go on while their agent does something else.
//!
//! Owns the jobs of one run, what they have said since their agent last looked, and their end. Each job belongs to
//! the agent that started it; nobody else is told of it. Nothing of a job is stored: a resumed run has none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawko_core::text::keep_ends;

use crate::process::{CommandLine, HeadAndTail, Leash, Running};

/// Jobs that may run at the same time in one run.
const MAX_JOBS: usize = 8;
/// Bytes of a job's output that are kept until its agent is told.
const MAX_KEPT: usize = 8_000;
/// Bytes of output of all jobs in one report.
const MAX_REPORT: usize = 16_000;

/// The jobs of one run.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// The run is over: no job starts any more.
    is_closed: bool,
    last: u32,
    jobs: BTreeMap<u32, Job>,
}

#[derive(Debug)]
struct Job {
    agent: String,
    leash: Leash,
    news: Arc<Mutex<News>>,
}

/// What a job's agent has not been told yet.
#[derive(Debug)]
struct News {
    output: HeadAndTail,
    /// How it ended; `None` while it runs.
    end: Option<String>,
}

/// A job that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) job: u32,
    /// The number of its process.
    pub(crate) process: u32,
}

/// Why a job was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// There are enough.
    #[error(
        "{MAX_JOBS} background jobs are running, and there may be no more. End one that is not needed, or wait for \
         one to end"
    )]
    TooMany,
    /// The run is over.
    #[error("the run is ending, so no background job is started")]
    Closed,
    /// The system did not start it.
    #[error("the background job could not be started: {0}")]
    NotStarted(#[from] io::Error),
}

impl Jobs {
    /// Starts a job for `agent`. Blocks for as long as the system needs to start a process.
    pub(crate) fn start(&self, agent: String, line: &CommandLine) -> Result<Started, Refusal> {
        let mut table = lock(&self.0);
        if table.is_closed {
            return Err(Refusal::Closed);
        }
        if table.jobs.values().filter(|job| lock(&job.news).end.is_none()).count() >= MAX_JOBS {
            return Err(Refusal::TooMany);
        }
        let leash = Leash::default();
        let running = leash.start(line)?;
        let process = running.process();
        let news = Arc::new(Mutex::new(News { output: HeadAndTail::new(MAX_KEPT), end: None }));
        let told = Arc::clone(&news);
        // A thread of its own: a job may outlive the runtime in which its agent's call ran. Where there is none to
        // be had, the command is dropped with the closure, and so it is ended.
        std::thread::Builder::new()
            .name("background job".to_owned())
            .spawn(move || see_to(running, &told))?;
        table.last += 1;
        let job = table.last;
        table.jobs.insert(job, Job { agent, leash, news });
        Ok(Started { job, process })
    }

    /// What became of the jobs of `agent` since its last report, one paragraph a job; empty where it has none. Jobs
    /// that have ended are forgotten with it.
    pub(crate) fn report(&self, agent: &str) -> String {
        let mut table = lock(&self.0);
        let own = table.jobs.iter().filter(|(_, job)| job.agent == agent);
        let told: Vec<(u32, News)> = own.map(|(number, job)| (*number, lock(&job.news).take())).collect();
        let talkative = told.iter().filter(|(_, news)| !news.output.is_empty()).count();
        let mut report = String::new();
        for (number, news) in told {
            let state = match &news.end {
                Some(end) => end.as_str(),
                None if news.output.is_empty() => "running, no new output",
                None => "running",
            };
            // Writing to a String cannot fail.
            let _ = writeln!(report, "[background job {number}: {state}]");
            if !news.output.is_empty() {
                let _ =
                    writeln!(report, "{}", keep_ends(news.output.text().trim_end(), MAX_REPORT / talkative));
            }
            if news.end.is_some() {
                table.jobs.remove(&number);
            }
        }
        report
    }

    /// Ends all jobs; their end is told as any other is, and new ones may start. Does not wait: `settle` does.
    pub(crate) fn interrupt(&self) {
        for job in lock(&self.0).jobs.values() {
            job.leash.pull();
        }
    }

    /// Ends all jobs, and lets none start any more. Does not wait: `settle` does.
    pub(crate) fn end(&self) {
        let mut table = lock(&self.0);
        table.is_closed = true;
        for job in std::mem::take(&mut table.jobs).into_values() {
            job.leash.pull();
        }
    }
}

impl News {
    /// Everything so far; from now on it begins anew.
    fn take(&mut self) -> Self {
        let output = std::mem::replace(&mut self.output, HeadAndTail::new(MAX_KEPT));
        Self { output, end: self.end.clone() }
    }
}

/// Follows a job to its end.
fn see_to(running: Running, news: &Mutex<News>) {
    let finished = running.finish(&mut |_, bytes| lock(news).output.push(bytes));
    lock(news).end = Some(match finished {
        Ok(finished) => finished.cause.text(),
        Err(error) => format!("lost: {error}"),
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
