//! Built-in tools: file access and child processes for agents (`docs/tools.md`).
//!
//! The only crate that touches the project for an agent. It knows nothing of providers and holds no key.

mod access;
mod background;
mod bash;
mod bounded;
mod builtin;
pub mod call;
mod canonical;
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "no_sandbox.rs")]
mod confine;
mod confinement;
mod custom;
mod edit;
mod file_lock;
mod file_stamp;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod folder;
mod git;
mod glob;
mod grep;
mod hook;
mod line_numbers;
mod look_alike;
mod miscopied;
mod mounts;
mod named_files;
mod nearest;
mod other_picture;
#[cfg_attr(not(feature = "pictures"), path = "no_pictures.rs")]
pub mod picture;
mod process;
mod program;
mod read;
mod refusals;
mod registry;
mod regular;
mod runner;
mod search_results;
mod server;
pub mod temporary;
mod tool;
mod tracker;
mod walk;
mod write;

pub use access::{AccessError, FileAccess, OpenedFile, protected_name};
pub use builtin::builtin_tools;
pub use confine::{Offer, Sandbox, denied_and_tracked};
pub use confinement::{Confinement, Shortage};
pub use custom::CommandTool;
pub use edit::edit_fault;
pub use file_lock::{FileLock, FileLockError};
pub use file_stamp::{FileId, FileStamp, file_id};
pub use git::{Git, GitError};
pub use hook::{EndedHook, HookEnd, HookProcess};
pub use picture::picture;
pub use process::{
    LeftOpen, RunScope, Survivor, command_mark, end_survivors, kill_all_now, looks_like_secret, on_thread,
    settle, settle_run, shell, take_secret_variables,
};
pub use program::program_outside;
pub use rawko_sandbox::{
    MountNamespace, NamespaceStep, can_hold_layers, gain_mounts, may_mount, run_helper_if_asked,
};
pub use registry::{RegistryError, ToolRegistry};
pub use regular::{open_regular, open_regular_below, read_regular, text_of};
pub use runner::CommandRunner;
pub use server::{ServerProcess, ServerProgram};
pub use tool::{BoxFuture, CallRefusal, Tool, ToolContext};
pub use tracker::{Digest, FileTracker};
pub use walk::{FilesSeen, project_files};
