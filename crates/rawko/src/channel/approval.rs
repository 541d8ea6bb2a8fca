//! Asks people for single calls, and lets another process answer (`docs/tools.md#approvals`).
//!
//! `rawko approve` leaves its answer in the session's folder (`left.rs`), for the process that waits or for the next one that
//! resumes the session.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use rawko_core::approval::{Approval, ApprovalQuestion};
use rawko_tools::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::channel::left::{Addressee, Left, LeftContent, sealer_for};
use crate::channel::seal::Sealer;
use crate::clock::now;
use crate::config::TrustStore;
use crate::error::Error;
use crate::journal::{SessionStatus, SessionStore, fold, read};
use crate::private::Existing;

/// The file in a session's folder that holds the answer of another process.
const FILE_NAME: &str = "approval.json";
/// How often the process that waits looks for it.
const LOOK: Duration = Duration::from_millis(250);
/// Who answers by it.
const BY_COMMAND: &str = "rawko approve";

/// A function of the embedding program that answers questions: yes, no, or not at all.
pub(crate) type Approver = Arc<dyn Fn(ApprovalQuestion) -> BoxFuture<'static, Option<bool>> + Send + Sync>;

/// Puts the questions of one run.
pub(crate) struct Asker {
    pub(crate) session: String,
    pub(crate) project: PathBuf,
    /// The session's folder.
    pub(crate) folder: PathBuf,
    /// Recognises the user's own answers; absent where the user has no key.
    pub(crate) sealer: Option<Sealer>,
    /// Who answers in this process, and what they are called.
    pub(crate) person: Option<(String, Approver)>,
    /// Whether the run is unattended: then it waits for no one.
    pub(crate) unattended: bool,
}

impl Asker {
    /// Waits for the first answer, until the question's time is up. Problems go to `report`.
    pub(crate) async fn ask(&self, question: ApprovalQuestion, report: &(dyn Fn(&str) + Sync)) -> Approval {
        // While no process ran the session, the user may have answered.
        if let Some(approval) = self.answer_left(&question) {
            return approval;
        }
        if self.unattended || (self.sealer.is_none() && self.person.is_none()) {
            return Approval::Unattended;
        }
        let left = Duration::from_millis(question.until.since(now()));
        let another_process = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if let Some(approval) = self.answer_left(&question) {
                    return approval;
                }
            }
        };
        tokio::select! {
            biased;
            approval = another_process => approval,
            approval = self.ask_here(question.clone(), report) => approval,
            () = tokio::time::sleep(left) => Approval::Expired,
        }
    }

    /// Asks in this process. Without an answer here, another process may give one.
    async fn ask_here(&self, question: ApprovalQuestion, report: &(dyn Fn(&str) + Sync)) -> Approval {
        if let Some((by, person)) = &self.person {
            let answer = AssertUnwindSafe(async { person(question).await }).catch_unwind().await;
            match answer {
                Ok(Some(allowed)) => return approval(allowed, by),
                Ok(None) => {}
                Err(_) => {
                    report(&format!("the function that asks {by} panicked; the call is denied"));
                    return approval(false, by);
                }
            }
        }
        std::future::pending().await
    }

    /// The user's answer to this very question, if another process left one in time. Everything else is ignored.
    fn answer_left(&self, question: &ApprovalQuestion) -> Option<Approval> {
        let to = Addressee { session: &self.session, project: &self.project };
        let left: Left<AnsweredQuestion> =
            Left::read(&self.folder.join(FILE_NAME), self.sealer.as_ref()?, to)?;
        (left.what.question == question.digest && left.at <= question.until)
            .then(|| approval(left.what.allowed, BY_COMMAND))
    }
}

fn approval(allowed: bool, by: &str) -> Approval {
    let by = by.to_owned();
    if allowed { Approval::Allowed { by } } else { Approval::Denied { by } }
}

/// An answer, as it is left for the process that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct AnsweredQuestion {
    /// The digest of the question.
    question: String,
    allowed: bool,
}

impl LeftContent for AnsweredQuestion {
    const NAME: &'static str = "approval";
    const LONGEST: u64 = 4 * 1024;
}

/// A session that waits for a person.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingSession {
    /// Its id.
    pub session: String,
    /// What is asked.
    pub question: ApprovalQuestion,
    /// Whether a process runs it. If none does, the answer counts once the session is resumed.
    pub is_running: bool,
    /// Whether the time for an answer is over.
    pub is_over: bool,
}

/// The sessions that wait for a person, oldest first.
///
/// # Errors
/// [`Error::Journal`] if the folder of sessions cannot be read. Journals that cannot be read are left out.
pub fn waiting_sessions(store: &SessionStore) -> Result<Vec<WaitingSession>, Error> {
    let open = store.list()?.into_iter().filter(|session| session.approval_until.is_some());
    Ok(open
        .filter_map(|session| {
            let question = open_question(store, &session.id).ok()??;
            let is_running = session.status == SessionStatus::Running;
            let is_over = question.until < now();
            Some(WaitingSession { session: session.id, question, is_running, is_over })
        })
        .collect())
}

/// The question that the session `id` waits for, if any.
///
/// # Errors
/// [`Error::Journal`] if there is no such session, or it cannot be read.
pub fn open_question(store: &SessionStore, id: &str) -> Result<Option<ApprovalQuestion>, Error> {
    let journal = read(&store.find(id)?)?;
    Ok(fold(&journal).session.open_question().map(|(_, question)| question.clone()))
}

/// Answers the question that the session `id` waits for. `call` is the beginning of that question's digest, if the
/// caller knows it. Returns the question and the session's id.
///
/// # Errors
/// [`Error::Setup`] if no question waits, another one does, its time is over, or the answer cannot be left there;
/// [`Error::UntrustedJournal`] if the user did not begin the session; [`Error::Journal`] if it cannot be read.
pub fn answer_question(
    store: &SessionStore,
    project: &Path,
    trust: &TrustStore,
    id: &str,
    call: Option<&str>,
    allowed: bool,
) -> Result<(String, ApprovalQuestion), Error> {
    let path = store.find(id)?;
    let journal = read(&path)?;
    let session = journal.header.session.clone();
    let refusal = |message: String, hint: &str| Error::Setup { message, hint: hint.to_owned() };
    let (sealer, project) = sealer_for(&journal.header, project, trust)?;
    let folded = fold(&journal);
    let Some((_, question)) = folded.session.open_question() else {
        let message = format!("session {session} does not wait for an answer");
        return Err(refusal(message, "`rawko approve` lists what waits"));
    };
    if call.is_some_and(|call| call.len() < 4 || !question.digest.starts_with(call)) {
        let message = format!("session {session} waits for an answer to another call");
        return Err(refusal(message, "`rawko approve` lists what waits, with the digest of each call"));
    }
    let at = now();
    if at > question.until {
        let message =
            format!("the time for an answer was over at {}: it counts as no", question.until.to_rfc3339());
        return Err(refusal(message, "`permissions.askTimeout` sets how long a question waits"));
    }
    let answer = AnsweredQuestion { question: question.digest.clone(), allowed };
    let answer = Left::new(answer, at, &sealer, Addressee { session: &session, project: &project });
    let folder = path.parent().unwrap_or(store.folder());
    answer.leave(folder, FILE_NAME, Existing::Replaced).map_err(|error| {
        let message = format!("the answer cannot be left in {}: {error}", folder.display());
        refusal(message, "check that the folder is yours and the disk is not full")
    })?;
    Ok((session, question.clone()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::channel::place::TestFolders;
    use rawko_core::Timestamp;
    use rawko_core::tool::Refusal;
    use serde_json::json;

    impl TestFolders {
        fn asker(&self) -> Asker {
            Asker {
                session: "s".to_owned(),
                project: PathBuf::from("/p"),
                folder: self.folder.path().to_owned(),
                sealer: Some(self.sealer()),
                person: None,
                unattended: false,
            }
        }

        fn leave(&self, sealer: &Sealer, session: &str, project: &str, digest: &str, at: u64) {
            let answer = AnsweredQuestion { question: digest.into(), allowed: true };
            self.answer(answer, sealer, Addressee { session, project: Path::new(project) }, at);
        }

        fn answer(&self, answer: AnsweredQuestion, sealer: &Sealer, to: Addressee<'_>, at: u64) {
            let left = Left::new(answer, Timestamp(at), sealer, to);
            left.leave(self.folder.path(), FILE_NAME, Existing::Replaced).unwrap();
        }
    }

    fn question(until: u64) -> ApprovalQuestion {
        ApprovalQuestion {
            digest: "d1".to_owned(),
            agent: "developer".to_owned(),
            call: serde_json::from_value(json!({"id": "1", "name": "Bash", "input": {}})).unwrap(),
            needs: vec![Refusal::Command],
            why: String::new(),
            until: Timestamp(until),
        }
    }

    #[test]
    fn only_the_users_answer_to_this_question_counts() {
        let place = TestFolders::new();
        let (asker, question, yes) = (place.asker(), question(1_000), approval(true, BY_COMMAND));
        assert_eq!(asker.answer_left(&question), None);
        place.leave(&place.sealer(), "s", "/p", "d1", 1_000);
        assert_eq!(asker.answer_left(&question), Some(yes));
        for (session, project, digest, at) in
            [("t", "/p", "d1", 5), ("s", "/q", "d1", 5), ("s", "/p", "d2", 5), ("s", "/p", "d1", 1_001)]
        {
            place.leave(&place.sealer(), session, project, digest, at);
            assert_eq!(asker.answer_left(&question), None, "{session} {project} {digest} {at}");
        }
        let theirs = TestFolders::new();
        place.leave(&theirs.sealer(), "s", "/p", "d1", 5);
        assert_eq!(asker.answer_left(&question), None, "the key of somebody else");
        // What was sealed as a no does not become a yes.
        let denied = AnsweredQuestion { question: "d1".into(), allowed: false };
        place.answer(denied, &place.sealer(), Addressee { session: "s", project: Path::new("/p") }, 5);
        assert_eq!(asker.answer_left(&question), Some(approval(false, BY_COMMAND)));
        let file = place.folder.path().join(FILE_NAME);
        let sealed_as_no = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, sealed_as_no.replace("false", "true")).unwrap();
        assert_eq!(asker.answer_left(&question), None);
        std::fs::write(place.folder.path().join(FILE_NAME), "yes").unwrap();
        assert_eq!(asker.answer_left(&question), None);
    }

    #[tokio::test]
    async fn the_first_answer_counts_and_the_deadline_is_a_no() {
        let place = TestFolders::new();
        let soon = || question(now().0 + 400);
        let quiet = |text: &str| assert!(text.is_empty(), "{text}");
        assert_eq!(place.asker().ask(soon(), &quiet).await, Approval::Expired);
        let person = |answer: Option<bool>| -> Option<(String, Approver)> {
            Some(("program".to_owned(), Arc::new(move |_| async move { answer }.boxed())))
        };
        let with = |answer| Asker { person: person(answer), ..place.asker() };
        assert_eq!(with(Some(true)).ask(soon(), &quiet).await, approval(true, "program"));
        assert_eq!(with(Some(false)).ask(soon(), &quiet).await, approval(false, "program"));
        assert_eq!(with(None).ask(soon(), &quiet).await, Approval::Expired);
        let breaks: Approver = Arc::new(|_| panic!("a fault of the program"));
        let broken = Asker { person: Some(("program".to_owned(), breaks)), ..place.asker() };
        let said = Mutex::new(Vec::new());
        let report = |text: &str| said.lock().unwrap().push(text.to_owned());
        assert_eq!(broken.ask(question(u64::MAX), &report).await, approval(false, "program"));
        assert_eq!(*said.lock().unwrap(), ["the function that asks program panicked; the call is denied"]);
        let without_key = Asker { sealer: None, ..place.asker() };
        assert_eq!(without_key.ask(soon(), &quiet).await, Approval::Unattended);
        let unattended = Asker { unattended: true, ..place.asker() };
        assert_eq!(unattended.ask(question(u64::MAX), &quiet).await, Approval::Unattended);
        // If an answer was left before, no one is asked.
        place.leave(&place.sealer(), "s", "/p", "d1", 5);
        assert_eq!(with(Some(false)).ask(soon(), &quiet).await, approval(true, BY_COMMAND));
        assert_eq!(unattended.ask(soon(), &quiet).await, approval(true, BY_COMMAND));
    }
}
