//! A session that was begun by a process of its own goes on in the fleet.

use std::path::Path;

use bytes::Bytes;
use rawko::{HandOver, Rawko};
use rawko_core::session::Stamped;
use rawko_tools::{Git, GitError, program_outside};

use crate::error::FleetError;
use crate::fleet::Fleet;
use crate::shown::Submitted;
use crate::task::{Carried, TaskSpec};
use crate::tree::{AUTHOR, CommitId};

impl Fleet {
    /// Submits a session of a local project, which has not ended or was ended by a limit. The files of the project as they are
    /// become the first commit of the task's branch, on top of `HEAD`. The session stays here as it is; do not resume it here
    /// before the task has ended or was released, or there are two that go on differently.
    ///
    /// # Errors
    /// [`FleetError::Session`] if it cannot go on; [`FleetError::Git`] if the files cannot be pushed;
    /// [`FleetError::OtherTask`] if the id is taken.
    pub async fn submit_session(
        &self,
        rawko: &Rawko,
        session: &str,
        spec: TaskSpec,
    ) -> Result<Submitted, FleetError> {
        let branch = crate::tree::branch_of(&spec.id)?;
        if let Some(known) = self.known(&spec).await? {
            return Ok(known);
        }
        self.mark().await?;
        let HandOver { header, events, resumed, records } = rawko.hand_over(session)?;
        let (base, head) = push_files(rawko.project(), spec.repository.url(), &branch, &header.session)?;
        let folder = format!("tasks/{}", spec.id);
        for (name, content) in records {
            self.store().create(&format!("{folder}/records/{name}"), content.into()).await?;
        }
        let bytes =
            serde_json::to_vec(&header).map_err(|error| FleetError::engine("keep the session", &error))?;
        self.store().create(&format!("{folder}/header"), bytes.into()).await?;
        let lines: Vec<Bytes> = events.iter().map(line).collect::<Result<_, _>>()?;
        self.store().events(&spec.id)?.append(0, &lines).await?;
        let carried = Carried {
            session: header.session,
            base,
            head,
            stored: lines.len() as u64,
            tail: Vec::new(),
            inbox: vec![resumed],
            from_elsewhere: true,
        };
        self.start(spec, Some(carried)).await
    }
}

fn line(stamped: &Stamped) -> Result<Bytes, FleetError> {
    serde_json::to_vec(stamped)
        .map(Bytes::from)
        .map_err(|error| FleetError::engine("keep the session", &error))
}

/// Pushes the files of the project as a commit on `HEAD`, with the checkpoints of the session. The user's index, branch and
/// stash are not touched. Gives `HEAD` and the commit.
fn push_files(
    project: &Path,
    repository: &str,
    branch: &str,
    session: &str,
) -> Result<(CommitId, CommitId), FleetError> {
    let scratch = rawko_tools::temporary::private("rawko-index-", None).map_err(|source| {
        FleetError::File { doing: "make", path: "a temporary folder".to_owned(), source }
    })?;
    let index = scratch.path().join("index");
    let ask = |arguments: &[&str]| git(project, &index, arguments);
    let git = |arguments: &[&str]| ask(arguments)?.text();
    let folder = git(&["rev-parse", "--show-prefix"])?;
    if !folder.is_empty() {
        return Err(FleetError::Refused(format!(
            "the session's project is the folder {folder} of its repository, and a task of a fleet is about a whole repository: go on with it here, with `rawko resume`"
        )));
    }
    let base: CommitId = git(&["rev-parse", "--verify", "HEAD^{commit}"])?.parse()?;
    git(&["read-tree", base.as_str()])?;
    git(&["add", "--all", "--", ".", ":(exclude).rawko/sessions"])?;
    let tree = git(&["write-tree"])?;
    let message = format!("Files of session {session}\n\nRawko-Session: {session}");
    // The same files give the same commit, so that a push whose answer was lost can be made again.
    let date = git(&["show", "--no-patch", "--format=%cI", base.as_str()])?;
    let committed = ["commit-tree", &tree, "-p", base.as_str(), "-m", &message];
    let head: CommitId = ask(&committed)?.envs(author(&date)).text()?.parse()?;
    let mut push = vec![
        "push".to_owned(),
        "--quiet".to_owned(),
        "--no-verify".to_owned(),
        // Only where there is no such branch yet, or it is this very commit.
        format!("--force-with-lease=refs/heads/{branch}:"),
        "--".to_owned(),
        repository.to_owned(),
        format!("{head}:refs/heads/{branch}"),
    ];
    let refs = format!("refs/rawko/{session}");
    if !git(&["for-each-ref", "--format=%(refname)", &refs])?.is_empty() {
        push.push(format!("+{refs}/*:{refs}/*"));
    }
    git(&push.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok((base, head))
}

/// Commits of the fleet are rawko's, here as on a worker: the user may not have set a name.
fn author(date: &str) -> [(&'static str, &str); 6] {
    let (name, email) = AUTHOR;
    [
        ("GIT_AUTHOR_NAME", name),
        ("GIT_AUTHOR_EMAIL", email),
        ("GIT_AUTHOR_DATE", date),
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
        ("GIT_COMMITTER_DATE", date),
    ]
}

/// Git as in the user's terminal: the user's filters write the files into the commit, and the push logs in as the user does.
fn git(project: &Path, index: &Path, arguments: &[&str]) -> Result<Git<FleetError>, FleetError> {
    let asked = arguments.join(" ");
    let failed = move |error: GitError| FleetError::Git { arguments: asked, message: error.to_string() };
    let program = program_outside("git", std::env::var_os("PATH").as_deref(), &[project]);
    let Some(program) = program else {
        return Err(failed(GitError::Refused("git is not installed".to_owned())));
    };
    let git = Git::inheriting(&program).within(project).index(index).env("GIT_TERMINAL_PROMPT", "0");
    Ok(git.args(arguments).or(failed))
}
