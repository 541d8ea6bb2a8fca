//! Turns what a caller wants into a setup: the builder, the configuration's models and agents, instructions,
//! confinement.

pub(crate) mod assemble;
pub(crate) mod attaching;
pub(crate) mod builder;
pub(crate) mod confinement;
pub(crate) mod found_models;
pub(crate) mod instructions;
pub(crate) mod project_folder;
pub(crate) mod rawko;
