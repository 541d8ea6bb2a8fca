//! Tests providers against a model server on loopback, over real HTTP and all wires.

#![allow(clippy::expect_used, clippy::panic)]

mod answers;
mod conformance;
mod faults;
mod pictures;
mod requests;
mod retries;
mod secrets;
mod services;
mod thinking;
mod trial;
