//! Goes on after the end of a session's task (`docs/sessions.md#continue-with-the-next-task`): the next task, or the same one with
//! higher limits.

use std::sync::Arc;

use rawko_core::session::{Event, Lost, Outcome};
use rawko_core::setup::Setup;
use rawko_tools::FileTracker;

use crate::channel::beside::StartPermit;
use crate::error::Error;
use crate::journal::{Folded, Journal, JournalWriter, SessionTask, fold, tasks};
use crate::run::Run;
use crate::run::driver::Start;
use crate::run::launch::Launch;
use crate::run::resume::{end_commands, lost, remember, take_scripts_up, without_task};
use crate::setup::rawko::Rawko;

impl Rawko {
    /// Prepares the next task of a session that has ended, however it ended: `id` is an id, the beginning or end of one, or
    /// `last`; without one, it is the newest session of the project.
    ///
    /// The task runs with today's configuration, in the same journal. Agents go on in their conversations where their model,
    /// system prompt and tools are still the same, and the arbiter knows the earlier tasks and how they ended. Budgets,
    /// iterations and verification are the new task's own, and so are the figures of the [`Outcome`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), rawko::Error> {
    /// let rawko = rawko::Rawko::builder().project(".").build()?;
    /// let run = rawko.run("Add a --version flag")?;
    /// let session = run.session_id().to_owned();
    /// run.await?;
    /// let outcome = rawko.continue_session(Some(&session), "Now document it")?.await?;
    /// println!("{}", outcome.summary);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyTask`]; [`Error::Setup`] if there is no session, if it has not ended, or for a dry run;
    /// [`Error::Journal`] if its journal cannot be opened or a process is running it; [`Error::Diverged`] if this rawko
    /// derives something else than it recorded; [`Error::UntrustedJournal`] if it does not have the seal of the user;
    /// [`Error::NoKey`].
    pub fn continue_session(&self, id: Option<&str>, task: &str) -> Result<Run, Error> {
        let task = task.trim();
        if task.is_empty() {
            return Err(Error::EmptyTask);
        }
        if self.builder.dry_run {
            return Err(Error::Setup {
                message: "a dry run cannot continue a session: it would change its journal".to_owned(),
                hint: "leave out --dry-run, or make the dry run without the session: rawko --dry-run TASK"
                    .to_owned(),
            });
        }
        self.complete_landings();
        let (journal, old) = self.open_to_continue(id)?;
        match self.in_tree_of(journal.path(), &old)? {
            Some(there) => there.in_tree(|| there.continue_opened(journal, &old, task))?,
            None => self.continue_opened(journal, &old, task),
        }
    }

    fn continue_opened(&self, journal: JournalWriter, old: &Journal, task: &str) -> Result<Run, Error> {
        let folded = self.folded(old)?;
        let session = old.header.session.clone();
        let beginning = self.begin_here(Some(&session))?;
        let Some(before) = folded.session.setup().map(|setup| setup.limits) else {
            return Err(without_task(&session));
        };
        if !folded.session.state().is_final() {
            return Err(Error::Setup {
                message: format!("session {session} has not ended its task, and takes another one only then"),
                hint: format!(
                    "finish it first: rawko resume {session}\nor give it up: rawko cancel {session}"
                ),
            });
        }
        end_commands(&session, &journal)?;
        let mut setup = self.with_attachments(self.setup()?);
        setup.limits = self.of_next_task(&setup.limits, &before);
        let redactor = self.redactor(&self.providers(&setup)?);
        let task = &redactor.text(task);
        redactor.setup(&mut setup)?;
        self.check_prices(&setup)?;
        self.go_on((journal, old), folded, task, &setup, &beginning, |changed_files, lost| {
            Event::TaskContinued {
                task: task.clone(),
                setup: Box::new(setup.clone()),
                changed_files,
                lost,
                ended: tasks(old).iter().filter_map(SessionTask::ended).collect(),
            }
        })
    }

    /// The journal of the session `id`, or of the newest one.
    fn open_to_continue(&self, id: Option<&str>) -> Result<(JournalWriter, Journal), Error> {
        let store = self.sessions();
        let path = match id {
            Some(id) => store.find(id)?,
            None => {
                let sessions = store.list()?;
                let newest = sessions.last().ok_or_else(|| Error::Setup {
                    message: "there is no session here to continue".to_owned(),
                    hint: "begin one: rawko \"your task\"".to_owned(),
                })?;
                store.find(&newest.id)?
            }
        };
        Ok(JournalWriter::reopen(&path)?)
    }

    /// The state that a journal of the user's own leads to.
    fn folded(&self, old: &Journal) -> Result<Folded, Error> {
        self.check_origin(&old.header)?;
        let folded = fold(old);
        match folded.divergence {
            Some(divergence) => Err(Error::Diverged { session: old.header.session.clone(), divergence }),
            None => Ok(folded),
        }
    }

    /// Takes up the task of a session that ended with `outcome`, in the same conversations. Earlier spending counts.
    pub(crate) fn take_up(
        &self,
        journal: JournalWriter,
        old: &Journal,
        folded: Folded,
        outcome: &Outcome,
        beginning: &StartPermit,
    ) -> Result<Run, Error> {
        let session = &old.header.session;
        let (Some(setup), Some(context)) = (folded.session.setup(), folded.session.context()) else {
            return Err(Error::Interrupted);
        };
        let limits = self.raised(&setup.limits);
        if let Some(limit) = self.standing(&setup.limits, outcome) {
            let (session, summary) = (session.clone(), outcome.summary.clone());
            return Err(Error::LimitStands { session, limit, summary });
        }
        self.check_spent(session, &folded)?;
        let (task, setup) = (context.task.clone(), Setup { limits, ..setup.clone() });
        self.check_prices(&setup)?;
        let verify = self.verify_anew();
        self.redactor(&self.providers(&setup)?).check(&verify)?;
        self.go_on((journal, old), folded, &task, &setup, beginning, |changed_files, lost| {
            Event::TaskTakenUp { limits, changed_files, verify, lost }
        })
    }

    fn go_on(
        &self,
        (journal, old): (JournalWriter, &Journal),
        folded: Folded,
        task: &str,
        setup: &Setup,
        beginning: &StartPermit,
        event: impl FnOnce(Vec<String>, Lost) -> Event,
    ) -> Result<Run, Error> {
        let providers = self.providers(setup)?;
        take_scripts_up(&providers, &folded);
        let tracker = Arc::new(FileTracker::new());
        let event = event(remember(&tracker, &folded, self.tree()), lost(old, &folded));
        let start = Start::Continued { folded: Box::new(folded), event, torn_bytes: old.torn_bytes };
        self.launch(Launch {
            id: old.header.session.clone(),
            forked_from: old.header.forked_from.clone(),
            task,
            journal,
            setup,
            providers,
            tracker,
            start,
            scratch: None,
            beside: beginning.beside(),
        })
    }
}
