//! Drives a run on threads of its own, which work in its tree.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::IsolatedTree;
use crate::error::Error;

/// Awaits `work` on a runtime whose threads are in the tree. Dropping the future drops the work, and waits for that.
///
/// # Errors
/// [`Error::Setup`] if there can be no such thread or runtime; what `work` returns otherwise.
pub(crate) async fn on_threads_of<T: Send + 'static>(
    tree: Arc<IsolatedTree>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (sender, ended) = oneshot::channel();
    let drive = move || {
        let entered = tree
            .within()
            .enter()
            .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build());
        let result = match entered {
            Ok(runtime) => {
                let result = runtime.block_on(async {
                    tokio::select! {
                        biased;
                        _ = stopped => Err(Error::Interrupted),
                        result = work => result,
                    }
                });
                runtime.shutdown_background();
                result
            }
            Err(error) => Err(no_thread(&error)),
        };
        let _ = sender.send(result);
    };
    let thread = std::thread::Builder::new().name("isolated run".to_owned()).spawn(drive);
    let _driven = Driven { stop: Some(stop), thread: Some(thread.map_err(|error| no_thread(&error))?) };
    ended.await.unwrap_or(Err(Error::Interrupted))
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::Setup {
        message: format!("the run cannot be driven in its tree: {error}"),
        hint: "the system may be short of threads or file descriptors: ulimit -u, ulimit -n".to_owned(),
    }
}

/// Ends the work when it is dropped.
struct Driven {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Driven {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic was reported as the end of the work.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
