//! What other processes of the user say to a running session, and how they find it: steering, answers, cancelling, the
//! process file, the sessions beside it. What is left as a file has the user's seal.

pub(crate) mod approval;
pub(crate) mod beside;
pub(crate) mod cancel;
pub(crate) mod control;
pub(crate) mod holder;
pub(crate) mod left;
pub(crate) mod seal;
pub(crate) mod steering;

#[cfg(test)]
mod place;
