//! What git takes for a repository.
//!
//! Git looks for one in the folder that it is started in and in each around it, whatever they are called, and runs what the
//! settings and hooks there name. It checks more than names: a valid `HEAD`, the right to search. rawko does not check
//! these, so that no one can make a repository by changing only a mode or the text of a file.

/// Whether a folder is one, by what is there in it.
pub(crate) fn is_repository(is_there: impl Fn(&str) -> bool) -> bool {
    is_there("HEAD") && (is_there("commondir") || is_there("objects") && is_there("refs"))
}

/// Whether a folder becomes one when something with this name is made in it.
pub(crate) fn becomes_repository(name: &str, is_there: impl Fn(&str) -> bool) -> bool {
    let is_part = ["HEAD", "commondir", "objects", "refs"].iter().any(|part| part.eq_ignore_ascii_case(name));
    is_part
        && !is_repository(&is_there)
        && is_repository(|part| part.eq_ignore_ascii_case(name) || is_there(part))
}
