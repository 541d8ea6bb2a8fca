//! The work tree of one task on one worker.
//!
//! A task of a fleet works on the branch `rawko/<task>` of a repository. Each step can be done by any worker: it takes the
//! tree to the commit that the step begins with, works in it, commits, and pushes to the task's branch. A push says which
//! commit it expects there, so a worker that was thought dead cannot overwrite what another has done since.
//!
//! This module owns a worker's folder: mirrors of repositories and a clone for each task, which borrows the mirror's
//! objects. Nothing of a repository is run: no hooks, no filters, no helper that its files or settings name. It knows
//! nothing of sessions, effects or the engine beyond the numbers in a commit's trailers.
//!
//! The calls block: git is a process. Asynchronous callers use `spawn_blocking`.

mod commit;
mod error;
mod files;
mod git;
mod lock;
mod mirror;
mod names;
mod place;
mod remote;
mod task;
#[cfg(test)]
mod tests;

pub use commit::MadeBy;
pub use error::TreeError;
pub use mirror::resolve;
pub use names::{CommitId, Repository, branch_of};
pub(crate) use place::AUTHOR;
pub use place::{WorkPlace, forget, forget_unused_mirrors};
pub use remote::{PushOutcome, PushRef, RemoteHead};
pub use task::TaskTree;
