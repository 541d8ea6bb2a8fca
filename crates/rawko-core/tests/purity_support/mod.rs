//! The checker of `purity.rs`: which sources are compiled into the crate, and what in them is impure.

pub(crate) mod modules;
pub(crate) mod scan;
