//! Hides this process's memory and environment from other processes of the same user.
//!
//! Every process of the same user can read `/proc/PID/environ` and `/proc/PID/mem`, including the commands that agents
//! run, and provider keys are in memory. Only a privileged process can read those of a process that is not dumpable, and
//! no core is written of it. The environment that it was started with is overwritten besides, against root
//! (`ProcessEnv::take`). On systems without this switch nothing is done.

/// Makes this process not dumpable. Children are not affected: `exec` resets the flag.
pub(crate) fn close() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // If it fails, there is nothing to do about it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use rustix::process::{DumpableBehavior, dumpable_behavior};

    #[test]
    fn others_of_the_same_user_are_kept_out() {
        super::close();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
