//! End-to-end tests: a project in its own directory goes in, a configuration or a report comes out.

mod errors;
mod given;
mod outside;
mod project;
mod schemas;
mod seeds;
mod trust;
mod values;
