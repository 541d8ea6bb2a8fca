//! `rawko sessions` and what happens to sessions on a real disk, with the real binary; the model's answers are
//! scripted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod atomic;
mod bench;
mod damage;
mod documents;
mod full_disk;
mod hints;
mod hostile;
mod inspect;
mod matrix;
mod newest;
mod planted;
mod removal;
#[path = "../support/mod.rs"]
mod support;
mod world;
