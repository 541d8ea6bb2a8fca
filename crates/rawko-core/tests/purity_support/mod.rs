//! The checker behind `purity.rs`: which sources are compiled into the crate, and what in them reaches outside.

pub(crate) mod modules;
pub(crate) mod scan;
