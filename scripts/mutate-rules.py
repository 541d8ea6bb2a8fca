#!/usr/bin/env python3
"""Takes each rule of the checks away, one at a time, and says which tests notice.

A rule that no test notices is not tested. Run it in a clone of its own: sources are changed and put back. It takes a
minute or two for each rule.

    scripts/mutate-rules.py            # all
    scripts/mutate-rules.py hash use   # those whose names have one of these words
"""
import os, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKS = "crates/rawko/src/integrity/"
TREES = "crates/rawko/src/checkpoint/"
SESSION = "crates/rawko-core/src/session/"

# The rule, the file, a line of it, and what stands in its place.
MUTANTS = [
    # What a check is.
    ("the runner says what a check is: unittest's pattern", CHECKS + "named/mod.rs",
     "        self.discovered(arguments, folder);\n", ""),
    ("the runner says what a check is: loops of a script", CHECKS + "named/mod.rs",
     'loops.push(((*variable).to_owned(), patterns));', "let _: (_, Vec<String>, _) = (variable, patterns, &mut loops);"),
    ("the runner says what a check is: targets of make", CHECKS + "named/mod.rs",
     '"make" | "gmake" => self.make(arguments, folder, depth),', '"make" | "gmake" => {}'),
    ("a file is a check by what it is made of", CHECKS + "used_by_checks.rs",
     "    expressions(path, part).any(|regex| regex.is_match(text))\n", "    let _ = (path, text, part);\n    false\n"),
    ("what only checks use is a check: product files", CHECKS + "used_by_checks.rs",
     "            && self.imports.is_match(text)\n", "            && false\n"),
    ("what only checks use is a check: checks", CHECKS + "used_by_checks.rs",
     "            && self.imports.is_match(text)\n", "            && true\n"),
    ("what is found before an installed package is a changed check", CHECKS + "comparison.rs",
     "            before.has_installed(package) && !fates.iter().any(was_there)\n",
     "            let _ = (package, was_there, before);\n            false\n"),
    ("what is found before a check is a changed check", CHECKS + "comparison.rs",
     "                        || newcomers.come_before(path)\n", ""),
    ("a suppression counts where a checker judges", CHECKS + "suppressions.rs",
     "    (text != now).then(|| text.into_bytes())\n", "    let _ = (text, now);\n    None\n"),
    ("a suppression counts only for old code", CHECKS + "suppressions.rs",
     '            "" => next.is_some_and(|next| old.contains(next)),\n            rest => old.contains(rest),\n',
     '            _ => next.is_some() || !old.is_empty(),\n'),
    ("what is kept is read by its hash", TREES + "verified.rs",
     "Some(object) if object.name(scratch.format) == **id => Ok(object),",
     "Some(object) if object.name(scratch.format) == **id || true => Ok(object),"),
    ("no silent limit", CHECKS + "comparison.rs",
     "limit: (is_cut || before.truncated || now.truncated).then_some(CUT),",
     "limit: (is_cut && before.truncated && now.truncated).then_some(CUT),"),
    ("no silent limit: a copy", CHECKS + "bounds.rs",
     "if self.since.elapsed() > time {", "if self.since.elapsed() > time * 0 + Duration::MAX {"),
    ("the code under test is no check: what a script sources", CHECKS + "named/mod.rs",
     "            if belongs_to_checks(file) {\n                self.file(file, folder, depth);\n            } else",
     "            if self.file(file, folder, depth) {\n            } else"),
    ("the code under test is no check: what a script compares", CHECKS + "named/mod.rs",
     "is_source || shell::written(&command).is_some_and(|file| self.compared.contains(file));", "false;"),
    ("repositories inside the project are part of it", TREES + "nested.rs",
     "let mut open: Vec<TreePath> = parts.project.repositories.iter().rev().cloned().collect();",
     "let mut open: Vec<TreePath> = Vec::new();"),
    # Another tree.
    ("a view hides new files", CHECKS + "view.rs",
     "hidden.iter().map(String::as_str).chain(built)", "hidden.iter().map(String::as_str).take(0).chain(built)"),
    ("a view that does not work is not used", CHECKS + "view.rs",
     ".iter().all(CommandRun::passed)", ".iter().all(|_| true)"),
    ("what differs around the project makes base results unknown", CHECKS + "comparison.rs",
     "        self.differences.lasting.is_empty()\n", "        true\n"),
    # Work that stops.
    ("a change in a new place is progress", SESSION + "stagnation.rs",
     "            ProgressLevel::NewPlace => self.idle = CallStreak::default(),\n", "            ProgressLevel::NewPlace => {}\n"),
    ("new words in the same place are none", SESSION + "stagnation.rs",
     "ProgressLevel::None | ProgressLevel::NewOutput | ProgressLevel::NewChange => {}",
     "ProgressLevel::None | ProgressLevel::NewOutput => {}\n            ProgressLevel::NewChange => self.idle = CallStreak::default(),"),
    ("a better check is progress", SESSION + "stagnation.rs",
     "            ProgressLevel::Better => self.proven(),\n", "            ProgressLevel::Better => {}\n"),
    ("useless work ends", SESSION + "stagnation.rs", "stop: 140 }", "stop: 400 }"),
]


def run(*command):
    environment = {**os.environ, "INSTA_UPDATE": "no", "CARGO_TERM_COLOR": "never"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def tests_of(name):
    """What is built for a rule in this file, and the tests that are run: the quick ones first."""
    if name.startswith("crates/rawko-core/"):
        return ["-p", "rawko-core"], ["kind(lib) & test(session::) | binary(runaways) | binary(session_guards)"]
    # With all members, dependencies have the features that they are built with otherwise.
    return ["--lib", "--bins", "--test", "e2e"], [
        "package(rawko) & kind(lib) & (test(integrity::) | test(checkpoint::))",
        "package(rawko-cli) & binary(e2e) & (test(integrity::) | test(verification::) | test(adopted::))",
    ]


def red_of(built, tests):
    """The first tests of these that fail."""
    for some in tests:
        code, output = run("cargo", "nextest", "run", "--locked", *built, "--status-level", "none",
                           "--final-status-level", "fail", "-E", some)
        red = set(re.findall(r"^\s+(?:FAIL|TIMEOUT|SIGABRT|ABORT) \[[^\]]*\] (?:\([^)]*\) )?(.+)$", output, re.M))
        if red:
            return sorted(test.split(" ", 1)[-1] for test in red)
        if code:
            sys.exit(f"the tests could not be run:\n{output[-3000:]}")
    return []


def main():
    wanted = sys.argv[1:]
    unnoticed, broken = [], []
    for rule, name, old, new in MUTANTS:
        if wanted and not any(word in rule for word in wanted):
            continue
        path = ROOT / name
        text = path.read_text()
        if text.count(old) != 1:
            sys.exit(f"{name} does not have this once, for the rule `{rule}`:\n{old}")
        try:
            path.write_text(text.replace(old, new))
            built, tests = tests_of(name)
            code, output = run("cargo", "nextest", "run", "--locked", *built, "--no-run")
            if code:
                print(f"{rule}: does not compile\n{output[-3000:]}", flush=True)
                broken.append(rule)
                continue
            red = red_of(built, tests)
        finally:
            path.write_text(text)
        print(f"{rule}: {', '.join(red) or 'no test is red'}", flush=True)
        if not red:
            unnoticed.append(rule)
    said = [f"{what}: {'; '.join(rules)}" for what, rules in (
        ("no test notices the loss of", unnoticed), ("what takes their place does not compile", broken)) if rules]
    if said:
        sys.exit("\n".join(said))


main()
