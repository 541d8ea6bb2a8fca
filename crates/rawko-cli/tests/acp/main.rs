//! `rawko acp` with the real binary: what a client of the protocol meets.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../e2e/answers.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod answers;
mod bad_clients;
mod client;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod turns;
