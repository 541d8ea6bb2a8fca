//! What a person is shown before they trust a folder: each claim whole, and every file that the trust covers.
//!
//! Nothing is left out without saying so, and what is most dangerous comes first.

use rawko::Rawko;
use rawko::config::{ChangeSinceTrust, ChangedFile, Claim, ClaimKind, Loaded, Scope};
use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::output::{clean_line, counted, escaped};

/// Most claims that are shown; the others are counted by kind.
const SHOWN_CLAIMS: usize = 200;
/// Most characters of one claim that are shown.
const SHOWN_CHARACTERS: usize = 4_000;
/// A file with more lines is shown in part: its head, its tail and what claims something.
const WHOLE: usize = 200;
const HEAD: usize = 60;
const TAIL: usize = 20;
/// Lines shown on either side of a claim.
const CONTEXT: usize = 2;
/// As many blanks are shown as they are.
const BLANKS: usize = 3;

/// The claims, one a line, the most dangerous first.
pub(crate) fn claims(claims: &[Claim]) -> String {
    let mut sorted: Vec<&Claim> = claims.iter().collect();
    sorted.sort_by_key(|claim| claim.kind);
    let mut text = String::new();
    for claim in sorted.iter().take(SHOWN_CLAIMS) {
        let _ = writeln!(text, "  {}", line(&claim.to_string()));
    }
    let left = sorted.get(SHOWN_CLAIMS..).unwrap_or_default();
    if !left.is_empty() {
        let kinds: BTreeSet<ClaimKind> = left.iter().map(|claim| claim.kind).collect();
        let kinds = kinds.into_iter().map(|kind| {
            let count = left.iter().filter(|claim| claim.kind == kind).count();
            format!("{count} of kind {}", name(kind))
        });
        let kinds: Vec<String> = kinds.collect();
        let _ = writeln!(text, "  … {} more, not shown here: {}", left.len(), kinds.join(", "));
    }
    text
}

/// What changed since the folder was trusted, a file a line.
pub(crate) fn changed(files: &[ChangedFile]) -> String {
    let mut text = String::new();
    if !files.is_empty() {
        text.push_str("Since it was trusted, these files changed:\n");
    }
    for ChangedFile { path, change } in files {
        let how = match change {
            ChangeSinceTrust::New => " (new)",
            ChangeSinceTrust::Changed => "",
            ChangeSinceTrust::Gone => " (gone)",
        };
        let _ = writeln!(text, "  {}{how}", clean_line(path));
    }
    text
}

fn name(kind: ClaimKind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What else becomes active with the trust.
pub(crate) fn also_active(rawko: &Rawko) -> String {
    let (folder, loaded) = (rawko.project(), rawko.config());
    let mut parts = Vec::new();
    let templates = &loaded.templates;
    let own = [&templates.select, &templates.evaluate, &templates.extractor];
    match own.iter().filter(|template| template.is_some()).count() {
        0 => {}
        count => {
            parts.push(format!("{} in .rawko/prompts are used", counted(count as u64, "prompt template")));
        }
    }
    let entries = std::fs::read_dir(folder.join(".rawko/memories")).into_iter().flatten().flatten();
    let memories = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")).count();
    if memories > 0 && loaded.config.memory.enabled {
        parts.push("agents are shown the memories in .rawko/memories".to_owned());
    }
    // Of several with one name agents are offered the first.
    let effective = loaded.skills_if(true);
    let of_project = effective.iter().filter(|skill| skill.scope() == Scope::Project && skill.is_used());
    let skills: Vec<String> = of_project.map(|skill| clean_line(&skill.name)).collect();
    if !skills.is_empty() {
        parts.push(format!("agents are offered the skills {}", skills.join(", ")));
    }
    let of_mcp_json = loaded.mcp.iter().filter(|(_, server)| server.is_of_mcp_json());
    let servers: Vec<String> = of_mcp_json
        .map(|(name, server)| {
            let given = match server.variables().join(", ") {
                none if none.is_empty() => none,
                names => format!(", given {} of your environment", line(&names)),
            };
            format!("{}: {}{given}", clean_line(name), line(&server.target()))
        })
        .collect();
    if !servers.is_empty() {
        parts.push(format!("servers of .mcp.json are started or asked ({})", servers.join(", ")));
    }
    if let Some(file) = rawko.instructions_file() {
        parts.push(format!("agents follow {}", clean_line(&file)));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("Trusted, also: {}.\n", parts.join("; "))
}

/// Every file that the trust covers, as it was read, in the order of their names.
pub(crate) fn files(loaded: &Loaded) -> String {
    let mut text = String::new();
    for file in &loaded.project_files {
        let claimed = loaded.claims.iter().filter(|claim| claim.path == file.path).map(|claim| claim.line);
        let _ = writeln!(text, "--- {}", clean_line(&file.path.to_string_lossy()));
        text.push_str(&excerpt(&file.text, &claimed.collect()));
    }
    text
}

/// A text; of a long one its head, its tail, and these lines (from 1) with what is around them.
fn excerpt(text: &str, wanted: &BTreeSet<usize>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_shown = |n: usize| {
        lines.len() <= WHOLE
            || n <= HEAD
            || n + TAIL > lines.len()
            || wanted.range(n.saturating_sub(CONTEXT)..=n + CONTEXT).next().is_some()
    };
    let (mut shown, mut left) = (String::new(), 0);
    for (n, content) in (1..).zip(&lines) {
        if is_shown(n) {
            say_left_out(&mut shown, &mut left);
            let _ = writeln!(shown, "{}", line(content));
        } else {
            left += 1;
        }
    }
    say_left_out(&mut shown, &mut left);
    shown
}

fn say_left_out(shown: &mut String, left: &mut usize) {
    if *left > 0 {
        let _ = writeln!(shown, "… {} left out …", counted(*left as u64, "line"));
        *left = 0;
    }
}

/// One line: its blanks visible, its length bounded.
fn line(text: &str) -> String {
    // What is left out could be what is trusted.
    let text = escaped(text);
    let mut shown = String::new();
    let indent = text.len() - text.trim_start().len();
    match indent {
        0..=40 => shown.push_str(&text[..indent]),
        _ => drop(write!(shown, "[{indent} blanks] ")),
    }
    let mut blanks = 0;
    // The end of the text is no blank, and says the last ones.
    for c in text[indent..].chars().map(Some).chain([None]) {
        if c.is_some_and(char::is_whitespace) {
            blanks += 1;
            continue;
        }
        if c.is_some() || blanks > BLANKS {
            match blanks {
                0..=BLANKS => shown.push_str(&" ".repeat(blanks)),
                _ => drop(write!(shown, " [{blanks} blanks] ")),
            }
        }
        blanks = 0;
        shown.extend(c);
    }
    let length = shown.chars().count();
    if length <= SHOWN_CHARACTERS {
        return shown;
    }
    let part = SHOWN_CHARACTERS / 2;
    let head: String = shown.chars().take(part).collect();
    let tail: String = shown.chars().skip(length - part).collect();
    format!("{head} [… {} characters left out …] {tail}", length - 2 * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(text: &str, expected: &str) {
        assert_eq!(line(text), expected);
    }

    #[test]
    fn blanks_and_length_hide_nothing() {
        check_line("  a: b", "  a: b");
        check_line("make   it", "make   it");
        check_line(&format!("true;{}curl x", " ".repeat(300)), "true; [300 blanks] curl x");
        let long = line(&format!("{}evil", "x".repeat(100_000)));
        assert!(long.ends_with("evil") && long.contains("[… 96004 characters left out …]"), "{long}");
    }

    #[test]
    fn a_long_file_is_shown_with_its_claims_and_says_what_is_left_out() {
        let mut lines: Vec<String> = (1..=1_000).map(|n| format!("# {n}")).collect();
        lines[499] = "tools: evil".to_owned();
        let shown = excerpt(&lines.join("\n"), &BTreeSet::from([500]));
        assert!(
            shown.contains("\n# 498\n# 499\ntools: evil\n# 501\n# 502\n… 478 lines left out …\n"),
            "{shown}"
        );
        assert!(shown.starts_with("# 1\n") && shown.ends_with("# 1000\n"), "{shown}");
        assert_eq!(excerpt("a\nb", &BTreeSet::new()), "a\nb\n");
    }
}
