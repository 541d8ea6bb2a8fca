//! What every test through the binary has around it: a [`World`] to work in, what a command [`Said`], and a [`Process`]
//! while it runs. Each test binary adds what is its own, such as a scripted server, kills or a terminal.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

#[cfg(unix)]
mod process;
mod said;
mod sweep;
mod world;

#[cfg(unix)]
pub(crate) use process::Process;
pub(crate) use said::{Said, check_clean};
pub(crate) use sweep::{each, is_thorough, sweep};
pub(crate) use world::{BINARY, World, copy, files_below};
