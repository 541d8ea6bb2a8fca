//! Real commands that try what their plan does not allow.
//!
//! The test program is its own helper, so it has a main of its own. As root it runs all tests once more as a user without
//! rights.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod linux;

fn main() {
    rawko_sandbox::run_helper_if_asked();
    #[cfg(target_os = "linux")]
    linux::main();
}
