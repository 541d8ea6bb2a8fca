//! The filter against the real bash: runs lines that it allows, with programs that only print their names. No unlisted
//! program may run, and no file may be written.
//!
//! A grammar generates the lines from what is hard to parse: substitutions, here-documents, joined lines, tests, `case`,
//! comments and quotes, with unlisted programs wherever bash should see text. They are the same in every run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rawko_core::agent::BashFilter;
use rawko_core::policy::bash_verdict;

/// Lines that are run.
const RUNS: usize = 300;
/// Programs that are listed, and programs that are not: these, and the ends of here-documents, must not run.
const LISTED: [&str; 5] = ["ls", "cat", "wc", "xargs", "env"];
const UNLISTED: [&str; 8] = ["touch", "evil", "rm", "E", "EOF", "a", "x", "src"];

/// Numbers that are the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }

    /// Fills in a template: `@` is a word, `&` a script, `~` text that must not run, `^` a here-document, `%` an
    /// unlisted program, `\u{1}` an occasional joined line.
    fn fill(&mut self, template: &str, depth: usize) -> String {
        let mut text = String::new();
        for c in template.chars() {
            match c {
                '@' => text.push_str(&self.word(depth)),
                '&' if depth == 0 => text.push_str("ls"),
                '&' => text.push_str(&self.script(depth - 1)),
                '~' => text.push_str(self.of(&INERT)),
                '^' => text.push_str(&self.heredoc()),
                '%' => text.push_str(self.of(&["evil", "touch z", "rm z"])),
                '\u{1}' => text.push_str(if self.below(4) == 0 { "\\\n" } else { "" }),
                c => text.push(c),
            }
        }
        text
    }

    fn word(&mut self, depth: usize) -> String {
        let templates: &[&str] = if depth == 0 { &PLAIN_WORDS } else { &WORDS };
        let template = self.of(templates);
        self.fill(template, depth.saturating_sub(1))
    }

    fn script(&mut self, depth: usize) -> String {
        let template = self.of(&COMMANDS);
        let mut text = self.fill(template, depth);
        while self.below(3) == 0 {
            let (joint, template) = (self.of(&JOINTS), self.of(&COMMANDS));
            text.push_str(&self.fill(joint, 0));
            text.push_str(&self.fill(template, depth.saturating_sub(1)));
        }
        text
    }

    fn heredoc(&mut self) -> String {
        let end = self.of(&["E", "EOF"]);
        let start = self.of(&["<<'%'", "<<%", "<<-%", "<<\\%", "<<-\"%\""]).replace('%', end);
        let mut text = format!("{start}{}\n", self.of(&["", "", " | wc", " && ls", " # ~", " >/dev/null"]));
        for _ in 0..self.below(4) {
            text.push_str(&self.of(&BODY).replace('%', end));
            text.push('\n');
        }
        text + end + "\n"
    }
}

/// Text that would run something if it were parsed in another way than bash does.
const INERT: [&str; 14] = [
    "touch z",
    "; evil",
    "$(evil)",
    "`evil`",
    " <(evil)",
    ")evil",
    "E\nevil",
    "]] ; evil",
    "esac; evil",
    "\\\nevil",
    "\nevil\n",
    "| rm z",
    "E) evil",
    "#",
];
const PLAIN_WORDS: [&str; 16] = [
    "a", "src", "-n", "x=y", "a*", "{a,b}", "a#b", "!", "\\'", "\\\"", "\\$", "\\\\", "E", "EOF)", "[a]",
    "$a",
];
const WORDS: [&str; 19] = [
    "a",
    "src",
    "'~'",
    "\"a\u{1}b\"",
    "\"$\u{1}(&)\"",
    "$(&)",
    "$\u{1}(&)",
    "`ls`",
    "<\u{1}(&)",
    "$'\\''",
    "$((1<<2))",
    "${a}",
    "a\u{1}b",
    "\\#",
    "$(cat ^)",
    "\"$(cat ^)\"",
    "$\u{1}(%)",
    "\"$\u{1}(%)\"",
    "<\u{1}(%)",
];
const COMMANDS: [&str; 25] = [
    "ls @",
    "cat @ @",
    "wc -l \u{1}@",
    "ls @ @ # ~",
    "cat ^",
    "cat <<<@",
    "ls 2>&1 @",
    "cat <a @",
    "a=@ ls",
    "( & )",
    "{ &; }",
    "if &; then &; fi",
    "case @ in a) &;; esac",
    "case @ in (a|'~') & ;& *) &\nesac",
    "for i in @; do &; done",
    "[[ -e @ ]]",
    "[[ @ == @ && ! -f @ ]]",
    "[[ @ <\u{1}(&) ]]",
    "[[\n@ < @ ]] && ls",
    "((1 < 2)) # ~",
    "! ls @",
    "ls >(&) @",
    "[[ -e <\u{1}(%) ]]",
    "ls $\u{1}(%)",
    "[[ @ == <\u{1}(%) ]]",
];
const JOINTS: [&str; 10] =
    ["; ", "\n", " && ", " || ", " | ", " \u{1}|& ", "&\u{1}&\n", " \\\n; ", "\n# ~\n", " |\u{1}| "];
const BODY: [&str; 14] =
    ["text", "", "% ", "%)", "%; evil", "%) evil", "\t%", "(", "'", "\"", "x\\", "\\", "touch z", "$x"];

/// A directory in which programs only print their names.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let programs = place.path("bin");
        fs::create_dir(&programs).unwrap();
        fs::create_dir_all(place.path("work/src")).unwrap();
        fs::write(place.path("work/a"), "A\n").unwrap();
        let script = format!("#!/bin/sh\necho \"${{0##*/}}\" >>'{}'\n", place.path("log").display());
        for name in LISTED.iter().chain(&UNLISTED) {
            let program = programs.join(name);
            fs::write(&program, &script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Names of the programs that bash runs for this line.
    fn run(&self, line: &str) -> Vec<String> {
        let log = self.path("log");
        let _ = fs::remove_file(&log);
        let mut bash = Command::new(rawko_tools::shell().unwrap())
            .args(["-c", line])
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", self.path("bin"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        bash.wait().unwrap();
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn no_line_that_the_filter_allows_runs_what_is_not_listed() {
    let place = Place::new();
    let filter = BashFilter {
        allowed_commands: Some(LISTED.iter().map(|&n| n.to_owned()).collect()),
        blocked_patterns: Vec::new(),
    };
    let project = place.path("work").display().to_string();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut ran, mut tried) = (0, 0);
    let mut programs = 0;
    while ran < RUNS {
        tried += 1;
        let line = dice.script(2);
        if !bash_verdict(&filter, &project, &line).is_allowed() {
            continue;
        }
        ran += 1;
        let called = place.run(&line);
        programs += called.len();
        let unlisted: Vec<&String> = called.iter().filter(|name| !LISTED.contains(&name.as_str())).collect();
        assert!(unlisted.is_empty(), "{unlisted:?} ran in {line:?}");
        assert_eq!(names(&place.path("work")), ["a", "src"], "a file was written by {line:?}");
    }
    assert!(tried < 10 * RUNS, "the filter refuses too much of this: {tried} tries");
    assert!(programs > RUNS / 2, "the lines run something: {programs}");
}

#[test]
fn long_commands_are_judged_in_time() {
    let repeated = |part: &str| part.repeat(30_000 / part.len());
    let listed = LISTED.iter().map(|&n| n.to_owned()).collect();
    let filter = BashFilter { allowed_commands: Some(listed), blocked_patterns: vec!["rm -rf /".to_owned()] };
    let begun = Instant::now();
    let check = |commands: &[String], allowed: bool| {
        for command in commands {
            let verdict = bash_verdict(&filter, "/project", command);
            let head: String = command.chars().take(40).collect();
            assert_eq!(verdict.is_allowed(), allowed, "{head:?}: {verdict:?}");
        }
    };
    check(
        &[
            repeated("ls;"),
            repeated("ls || cd a; "),
            repeated("x="),
            format!("ls {}", repeated("a ")),
            format!("ls {}\\\nb", repeated("\\\n")),
            format!("[[ {}a ]]", repeated("a && ")),
            format!("cat <<EOF\n{}\nEOF\n", repeated("\\\\\\\nx\n")),
        ],
        true,
    );
    check(
        &[
            format!("ls {}", "a".repeat(200_000)),
            repeated("cat <<E "),
            repeated("\"${"),
            repeated("{a,"),
            repeated("[[ ( "),
            repeated("`"),
            repeated("\\`"),
            repeated("$'\\"),
            repeated("\\\n$"),
            repeated("xargs "),
        ],
        false,
    );
    // Far more than it takes; an algorithm of quadratic cost would take many minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
