//! Fleets of rawko workers: what a worker needs to carry one step of a task, on whatever machine it runs.

pub mod store;
pub mod tree;
