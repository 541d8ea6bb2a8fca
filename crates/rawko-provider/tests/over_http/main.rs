//! Tests providers against a model server on loopback, over real HTTP and both wires.

#![allow(clippy::expect_used, clippy::panic)]

mod answers;
mod faults;
mod pictures;
mod requests;
mod retries;
mod secrets;
mod services;
mod thinking;
mod trial;
