//! The real binary, command by command: what it prints, how it ends, what it leaves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by a panic"
)]

mod both_outputs;
mod broken_pipe;
mod build;
mod command_line;
mod demo;
mod documentation;
mod documented_files;
mod first_steps;
mod fleet;
mod hostile;
mod inspection;
mod machine;
mod memory;
mod place;
mod rights;
mod run;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod trust;
mod version;
