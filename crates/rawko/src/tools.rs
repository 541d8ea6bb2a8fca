//! Tools of agents: what one of your own implements, those that are built in, and how commands are confined.

pub use rawko_tools::{
    AccessError, BoxFuture, CallRefusal, CommandRunner, CommandTool, Confinement, Digest, FileAccess, FileId,
    FileLock, FileLockError, FileStamp, FileTracker, FilesSeen, Git, GitError, LeftOpen, Offer, OpenedFile,
    RegistryError, Sandbox, ServerProcess, ServerProgram, Shortage, Survivor, Tool, ToolContext,
    ToolRegistry,
};
pub use rawko_tools::{
    builtin_tools, command_mark, denied_and_tracked, edit_fault, end_survivors, file_id, gain_mounts,
    kill_all_now, looks_like_secret, may_mount, on_thread, open_regular, open_regular_below, picture,
    program_outside, project_files, protected_name, read_regular, run_helper_if_asked, settle, shell,
    take_secret_variables, text_of,
};
pub use rawko_tools::{call, temporary};
