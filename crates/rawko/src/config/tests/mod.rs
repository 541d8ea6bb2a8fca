//! Tests of the whole: a project in a directory of its own goes in, a configuration or a report comes out.

mod errors;
mod project;
mod schemas;
mod trust;
mod values;
