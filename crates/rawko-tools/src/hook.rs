//! Runs the user's hooks: shell commands that read a JSON object from standard input.
//!
//! They run like the commands of `Bash`, in the same sandbox, with a clean environment without any key, and everything that
//! they started is ended with them. Unlike those, they have an input, two streams of output, and a home of their own: what an
//! agent leaves in its home decides nothing here. What the output means is not known here.

use std::time::Duration;

use crate::process::{
    Cause, CommandLine, HeadAndTail, Invocation, KillHandle, KillOnDrop, OrphanReaper, OutputStream, shell,
};
use crate::tool::ToolContext;

/// The most bytes of standard output that are kept whole; of more, its two ends.
const MAX_OUT: usize = 64 * 1024;
/// The same for standard error.
const MAX_ERR: usize = 8 * 1024;

/// Runs hooks.
#[derive(Debug, Clone, Default)]
pub struct HookProcess {
    reaper: OrphanReaper,
}

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookEnd {
    /// By itself, with this exit code.
    Exited(i32),
    /// It took too long.
    TimedOut,
    /// It did not run to its end, for this reason.
    Failed(String),
}

/// A hook that has ended, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedHook {
    /// How it ended.
    pub end: HookEnd,
    /// Its standard output.
    pub stdout: String,
    /// Whether a part of it was cut.
    pub is_cut: bool,
    /// Its standard error, bounded.
    pub stderr: String,
}

impl EndedHook {
    fn failed(why: String) -> Self {
        Self { end: HookEnd::Failed(why), stdout: String::new(), is_cut: false, stderr: String::new() }
    }
}

impl HookProcess {
    /// Runs `command` by `bash -c` in the project with `input` as its standard input, confined as `context` says. `variables`
    /// are added to its environment. Dropping the future ends it, with everything it started.
    pub async fn run(
        &self,
        command: &str,
        input: Vec<u8>,
        variables: &[(String, String)],
        context: &ToolContext,
        timeout: Duration,
    ) -> EndedHook {
        let line = match self.line(command, input, variables, context, timeout) {
            Ok(line) => line,
            Err(why) => return EndedHook::failed(why),
        };
        let handle = KillHandle::default();
        let guard = KillOnDrop::new(&handle);
        let ended = tokio::task::spawn_blocking(move || wait_for(&handle, &line)).await;
        drop(guard);
        ended.unwrap_or_else(|error| EndedHook::failed(error.to_string()))
    }

    fn line(
        &self,
        command: &str,
        input: Vec<u8>,
        variables: &[(String, String)],
        context: &ToolContext,
        timeout: Duration,
    ) -> Result<CommandLine, String> {
        let bash = shell().map_err(|error| error.to_string())?;
        let mut environment = context.environment();
        for (name, value) in variables {
            environment.retain(|(known, _)| *known != **name);
            environment.push((name.into(), value.into()));
        }
        let confined = context.confined()?.map(|mut confined| {
            "hooks".clone_into(&mut confined.who);
            confined
        });
        Ok(CommandLine {
            program: Invocation::File {
                path: bash.into(),
                arguments: vec!["-c".into(), command.into()],
                input,
            },
            directory: context.root.clone(),
            environment,
            timeout: Some(timeout),
            reaper: self.reaper.clone(),
            confined,
        })
    }
}

fn wait_for(handle: &KillHandle, line: &CommandLine) -> EndedHook {
    let (mut out, mut err) = (HeadAndTail::new(MAX_OUT), HeadAndTail::new(MAX_ERR));
    let mut total = 0;
    let finished = handle.start(line).and_then(|running| {
        running.finish(&mut |source, bytes| match source {
            OutputStream::Out => {
                total += bytes.len();
                out.push(bytes);
            }
            OutputStream::Err => err.push(bytes),
        })
    });
    let end = match finished {
        Ok(finished) => match finished.cause {
            Cause::Exited { code: Some(code), .. } => HookEnd::Exited(code),
            Cause::TimedOut => HookEnd::TimedOut,
            cause @ (Cause::Exited { code: None, .. } | Cause::OutOfMemory { .. } | Cause::Cancelled) => {
                HookEnd::Failed(cause.text())
            }
        },
        Err(error) => HookEnd::Failed(error.to_string()),
    };
    EndedHook { end, stdout: out.text(), is_cut: total > MAX_OUT, stderr: err.text() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::confinement::Confinement;
    use rawko_core::agent::Permissions;

    fn context(root: &Path) -> ToolContext {
        ToolContext {
            root: root.to_owned(),
            agent: "developer".into(),
            permissions: Arc::new(Permissions::default()),
            approved: Vec::new(),
            confinement: Confinement::Off,
            traceparent: None,
            progress: Arc::new(|_| {}),
        }
    }

    async fn run(command: &str, input: &str, timeout: Duration) -> EndedHook {
        let folder = tempfile::tempdir().unwrap();
        let variables = [("CLAUDE_PROJECT_DIR".to_owned(), "/p".to_owned())];
        let context = context(folder.path());
        HookProcess::default().run(command, input.as_bytes().to_vec(), &variables, &context, timeout).await
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn it_reads_its_input_and_its_streams_are_two() {
        let ended = run("cat; echo \"$CLAUDE_PROJECT_DIR\"; echo no >&2; exit 2", "{}\n", LONG).await;
        assert_eq!((ended.end, ended.stdout.as_str()), (HookEnd::Exited(2), "{}\n/p\n"));
        assert_eq!((ended.stderr.as_str(), ended.is_cut), ("no\n", false));
    }

    #[tokio::test]
    async fn one_that_does_not_read_its_input_ends_well() {
        let ended = run("exec <&-; exit 0", &"x".repeat(1024 * 1024), LONG).await;
        assert_eq!(ended.end, HookEnd::Exited(0));
    }

    #[tokio::test]
    async fn one_that_hangs_is_ended() {
        let begun = Instant::now();
        let ended = run("sleep 600", "", Duration::from_millis(200)).await;
        assert_eq!(ended.end, HookEnd::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_megabyte_is_cut_and_a_long_answer_is_not() {
        let ended = run("head -c 1048576 /dev/zero | tr '\\0' x", "", LONG).await;
        assert_eq!((ended.end, ended.is_cut), (HookEnd::Exited(0), true));
        assert!(ended.stdout.len() < MAX_OUT + 100, "{}", ended.stdout.len());
        let ended = run("head -c 60000 /dev/zero | tr '\\0' x", "", LONG).await;
        assert_eq!((ended.stdout.len(), ended.is_cut), (60_000, false));
    }

    #[tokio::test]
    async fn a_daemon_that_it_leaves_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let context = context(folder.path());
        let command = "(setsid sleep 617 & echo $! > pid)";
        let ended = HookProcess::default().run(command, Vec::new(), &[], &context, LONG).await;
        assert_eq!(ended.end, HookEnd::Exited(0));
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let gone = || {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::test_kill_process(pid).is_err()
        };
        let begun = Instant::now();
        while !gone() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert!(gone(), "process {pid} is still there");
    }
}
