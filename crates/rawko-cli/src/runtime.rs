//! The tokio runtimes on which commands run their asynchronous work.

use std::time::Duration;

use tokio::runtime::Builder;

use crate::exit::Exit;
use crate::failure::Failure;

/// How long uninterruptible work or a stopped reader may delay the end after a second signal.
pub(crate) const LAST_WAIT: Duration = Duration::from_millis(300);

/// Runs `work` on a runtime of its own. Everything that still runs afterwards is ended, including child processes.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run_on(&mut Builder::new_current_thread(), work)
}

/// The same with several threads, for what does many things at once: a worker, and an agent of an editor.
#[cfg(any(feature = "fleet", feature = "acp"))]
pub(crate) fn block_on_threads<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run_on(&mut Builder::new_multi_thread(), work)
}

fn run_on<T>(builder: &mut Builder, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = builder.enable_all().build().map_err(|error| no_runtime(&error))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_WAIT);
    // Gives dropped child processes time to end. A process that even the kernel cannot end is not waited for.
    let _ = rawko::tools::settle();
    result
}

pub(crate) fn no_runtime(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot start the runtime: {error}"))
        .with_hint("the system may be short of file descriptors or threads: ulimit -n, ulimit -u")
}
