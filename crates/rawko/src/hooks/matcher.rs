//! Which cases a hook is asked about.

use regex::Regex;

/// Names of Claude Code's tools that another name stands for in rawko.
const ALIASES: [(&str, &str); 2] = [("MultiEdit", "Edit"), ("LS", "Glob")];

/// A matcher of Claude Code's form: nothing or `*` for all, names with `|` or `,` between them, or a regular expression.
#[derive(Debug, Clone)]
pub(crate) enum HookMatcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

impl HookMatcher {
    /// Reads it.
    ///
    /// # Errors
    /// If it is no regular expression.
    pub(crate) fn parse(text: &str) -> Result<Self, regex::Error> {
        let text = text.trim();
        if text.is_empty() || text == "*" {
            return Ok(Self::All);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-|, ".contains(c);
        if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(str::to_owned).collect()));
        }
        Regex::new(text).map(Self::Pattern)
    }

    /// Whether it is about the tool, agent or beginning of this name.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        let aliases = ALIASES.into_iter().filter(|(_, ours)| *ours == name).map(|(theirs, _)| theirs);
        std::iter::once(name).chain(aliases).any(|name| match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matcher: &str, about: &[&str], not_about: &[&str]) {
        let parsed = HookMatcher::parse(matcher).unwrap();
        for name in about {
            assert!(parsed.is_about(name), "{matcher} is about {name}");
        }
        for name in not_about {
            assert!(!parsed.is_about(name), "{matcher} is not about {name}");
        }
    }

    #[test]
    fn names_are_whole_and_patterns_are_searched() {
        for all in ["", "*", " ", ".*"] {
            check(all, &["Bash", "mcp__x__y"], &[]);
        }
        check("Write", &["Write"], &["WriteAll", "write"]);
        check("Edit|Write", &["Edit", "Write"], &["Read"]);
        check("Edit, Write", &["Edit", "Write"], &["Read"]);
        check("mcp__.*", &["mcp__memory__store"], &["Bash"]);
        check("mcp__memory__.*write.*", &["mcp__memory__overwrite_all"], &["mcp__memory__read"]);
        check("^Web", &["WebFetch", "WebSearch"], &["Bash"]);
        check("MultiEdit", &["Edit"], &["Write"]);
        check("LS", &["Glob"], &["Grep"]);
        check("mcp__a__b", &["mcp__a__b"], &["mcp__a__bc"]);
        assert!(HookMatcher::parse("(").is_err());
    }
}
