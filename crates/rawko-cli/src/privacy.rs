//! Keeps this process's own memory and environment to itself.
//!
//! Provider keys come in the environment, and `/proc/PID/environ` shows it to every process of the same user: to the
//! commands that agents run, too. A process that may not be dumped shows it to nobody but a tracer with privileges.
//! Where the system has no such switch nothing is done, and nothing is claimed.

/// Closes this process to others of the same user. Children are not affected: a new program opens itself again.
pub(crate) fn close() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It has no way to fail that anything could be done about.
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
