//! How one memory names another, in `supersedes` and `conflictsWith`.
//!
//! By its path below the memories' folder (with or without that folder, with or without `.md`), by its file's name, or by its title.
//! Two keys are equal where a reference means a memory.

use super::words::fold;

/// The folder as references may write it.
const FOLDER: &str = ".rawko/memories/";

/// The key of a reference.
#[must_use]
pub fn reference_key(reference: &str) -> String {
    let text = reference.trim();
    let text = text.strip_prefix("./").unwrap_or(text);
    let text = text.strip_prefix(FOLDER).unwrap_or(text);
    normal(text.strip_suffix(".md").unwrap_or(text))
}

/// The keys by which a memory can be referred to: path, file name, title.
#[must_use]
pub fn referred_keys(path: &str, title: &str) -> [String; 3] {
    let path = path.strip_suffix(".md").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    [normal(path), normal(name), normal(title)]
}

/// Case and runs of blanks make no difference.
fn normal(text: &str) -> String {
    fold(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_named_by_path_file_or_title() {
        let keys = referred_keys("auth/jwt.md", "Project uses  JWT");
        for reference in [
            "auth/jwt.md",
            "auth/jwt",
            "jwt",
            "jwt.md",
            "./auth/jwt.md",
            ".rawko/memories/auth/jwt.md",
            "project uses JWT",
        ] {
            assert!(keys.contains(&reference_key(reference)), "{reference}");
        }
        assert!(!keys.contains(&reference_key("uses JWT")));
    }
}
