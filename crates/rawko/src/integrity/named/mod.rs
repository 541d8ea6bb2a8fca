//! What a verification command names: the scripts and files that it runs, and the programs that it resolves to.
//!
//! Commands are read as a person would skim them, not as a shell: a name too many costs a second run of the checks, and
//! what is missed is found by the conventions in most cases. Scripts are followed into the files that they run, `make`
//! into the recipes of its targets and `npm` into its scripts.

mod makefile;
mod mentioned;
mod shell;

use std::collections::BTreeSet;

use serde_json::Value;

use makefile::Makefile;
use mentioned::belongs_to_checks;
pub(super) use mentioned::{Checker, documents, is_data, is_expectation, is_source, mentioned};

/// Scripts within scripts that are followed.
const DEPTH: usize = 64;
/// Most bytes of a script that is followed.
const MAX_SCRIPT: usize = 1024 * 1024;

/// Programs that run the file that is their first argument.
const INTERPRETERS: &[&str] = &[
    "bash", "sh", "dash", "zsh", "python", "python3", "node", "ruby", "perl", "php", "deno", "bun", "tsx",
    "ts-node", "source", ".", "lua", "Rscript", "bats",
];
/// Programs whose arguments are tests.
const RUNNERS: &[&str] =
    &["pytest", "py.test", "unittest", "jest", "vitest", "mocha", "rspec", "ava", "tap", "phpunit"];
/// Words before the program that matters. An interpreter or a package manager is found after any other word, too.
const WRAPPERS: &[&str] = &[
    "env", "time", "exec", "command", "nice", "nohup", "timeout", "npx", "if", "then", "do", "else", "while",
    "!", "@", "stdbuf", "setsid", "unbuffer", "sudo", "uv", "poetry", "pipenv", "bundle", "run",
];
/// Options of interpreters whose argument is a file that runs before the one that matters.
const PRELOADS: &[&str] = &["-r", "--require", "--import", "--loader", "--experimental-loader", "--rcfile"];
/// Options whose argument is a file that configures the program, whatever it is.
const CONFIG_OPTIONS: &[&str] =
    &["--file", "--config", "--makefile", "--manifest-path", "--rcfile", "--require"];
/// Package managers with scripts.
const MANAGERS: &[&str] = &["npm", "pnpm", "yarn", "bun"];
/// Their options that name the folder of another package.
const PREFIXES: &[&str] = &["--prefix", "-C", "--cwd", "--dir"];
/// Their options that mean other packages of the same project.
const WORKSPACES: &[&str] =
    &["--workspaces", "-ws", "--workspace", "-w", "--filter", "-F", "-r", "--recursive"];
/// Programs that print their arguments.
const PRINTERS: &[&str] = &["echo", "printf"];

/// What commands name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Files of the project.
    pub(super) files: BTreeSet<String>,
    /// Programs, by the names that they are called by.
    pub(super) programs: BTreeSet<String>,
    /// Targets of make: a file of that name makes them be up to date.
    pub(super) targets: BTreeSet<String>,
    /// What the commands take in if it is there, and was not there.
    pub(super) missing: BTreeSet<String>,
    /// What they take in: the code under test, as far as it is a part of the tree.
    pub(super) taken_in: BTreeSet<String>,
    /// Patterns of files that the commands run or give to runners.
    pub(super) globs: BTreeSet<String>,
    /// Every word of every command: tools such as linters are named by one.
    pub(super) words: BTreeSet<String>,
    /// Whether a script was not followed, because it is too long or too deep.
    pub(super) is_cut: bool,
}

/// What `commands` name. `read` gives the text of a file of the project at its beginning; `packages` are the paths of the
/// manifests of npm there.
pub(super) fn named(
    commands: &[String],
    packages: &[String],
    read: &dyn Fn(&str) -> Option<String>,
) -> Named {
    let mut reader = Reader {
        read,
        packages,
        named: Named::default(),
        followed: BTreeSet::new(),
        compared: shell::compared(&commands.join("\n")),
    };
    for command in commands {
        reader.script(command, "", "", 0);
    }
    reader.named
}

struct Reader<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    packages: &'a [String],
    named: Named,
    /// Targets and scripts that were followed.
    followed: BTreeSet<String>,
    /// Words of commands that compare: what writes to a file of that name is the source of a comparison.
    compared: BTreeSet<String>,
}

impl Reader<'_> {
    /// Reads shell text that runs in `folder`; `own_folder` is where it is.
    fn script(&mut self, text: &str, folder: &str, own_folder: &str, depth: usize) {
        let mut folder = folder.to_owned();
        let mut left: Vec<String> = Vec::new();
        let mut loops: Vec<(String, Vec<String>)> = Vec::new();
        let text = shell::expanded(text, own_folder);
        self.compared.extend(shell::compared(&text));
        for (command, is_source) in shell::commands(&text) {
            let is_source =
                is_source || shell::written(&command).is_some_and(|file| self.compared.contains(file));
            let words: Vec<&str> =
                command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
            match words.as_slice() {
                ["cd", to] => folder = joined(&folder, to),
                ["pushd", to, ..] => {
                    let to = joined(&folder, to);
                    left.push(std::mem::replace(&mut folder, to));
                }
                ["popd", ..] => folder = left.pop().unwrap_or(folder),
                ["for", variable, "in", patterns @ ..] => {
                    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
                    loops.push(((*variable).to_owned(), patterns));
                }
                words if !is_source => {
                    let in_loops: Vec<Vec<&str>> = loops
                        .iter()
                        .flat_map(|(variable, patterns)| turns(words, variable, patterns))
                        .collect();
                    for words in if in_loops.is_empty() { vec![words.to_vec()] } else { in_loops } {
                        self.command(&words, &folder, depth);
                    }
                }
                // The code under test, unless its name says otherwise.
                words => {
                    for word in words.iter().filter(|word| belongs_to_checks(word)) {
                        self.file(word, &folder, depth);
                    }
                }
            }
        }
    }

    fn command(&mut self, words: &[&str], folder: &str, depth: usize) {
        let is_before = |word: &&&str| {
            WRAPPERS.contains(*word)
                || word.contains('=')
                || word.starts_with('-')
                || word.starts_with(|c: char| c.is_ascii_digit())
        };
        let before = words.iter().take_while(is_before).count();
        let Some((program, arguments)) = words.get(before..).and_then(<[&str]>::split_first) else { return };
        if program.starts_with('#') {
            return;
        }
        self.named.words.extend(words.iter().map(|word| (*word).to_owned()));
        let is_file = |word: &str| (self.read)(&joined(folder, word)).is_some();
        let (patterns, inputs): (Vec<&str>, Vec<&str>) =
            shell::inputs(words).into_iter().partition(|file| file.contains(['*', '?']));
        let inputs = inputs.into_iter().filter(|file| is_file(file));
        let expectations = shell::expectations(words.get(before..).unwrap_or_default(), &is_file);
        self.named.files.extend(inputs.chain(expectations).map(|file| joined(folder, file)));
        self.named.globs.extend(patterns.into_iter().map(|pattern| joined(folder, pattern)));
        if !self.file(program, folder, depth) && !program.contains('/') {
            self.named.programs.insert((*program).to_owned());
        }
        let is_runner = words.iter().any(|word| RUNNERS.contains(word)) || arguments.contains(&"--test");
        for (at, word) in arguments.iter().enumerate() {
            let after_option = at.checked_sub(1).and_then(|before| arguments.get(before));
            let value = word.split_once('=').filter(|(option, _)| CONFIG_OPTIONS.contains(option));
            if let Some((_, file)) = value {
                self.file(file, folder, depth);
            } else if is_runner || after_option.is_some_and(|option| CONFIG_OPTIONS.contains(option)) {
                self.file(word.split("::").next().unwrap_or(word), folder, depth);
            }
        }
        self.discovered(arguments, folder);
        if matches!(*program, "." | "source")
            && let Some(file) = arguments.first().filter(|file| !file.contains('$'))
        {
            // What a check takes in is the code under test, unless its name says that it is a check.
            if belongs_to_checks(file) {
                self.file(file, folder, depth);
            } else if let Some(text) = (self.read)(&joined(folder, file)) {
                self.named.taken_in.insert(joined(folder, file));
                self.followed_text(&joined(folder, file), &text, folder, depth);
            } else {
                self.named.missing.insert(joined(folder, file));
            }
        }
        if PRINTERS.contains(program) || shell::compares(program) {
            return;
        }
        // Wrappers have options and operands of their own: any word may be the program that they start.
        let before_comment = words.iter().skip(before).take_while(|word| !word.starts_with('#'));
        for (at, word) in before_comment.enumerate() {
            let arguments = words.get(before + at + 1..).unwrap_or_default();
            match word.rsplit('/').next().unwrap_or(word) {
                "make" | "gmake" => self.make(arguments, folder, depth),
                "go" if arguments.first() == Some(&"run") => self.go_run(arguments, folder, depth),
                "cargo" => self.cargo(arguments, folder),
                "." | "source" => {}
                name if INTERPRETERS.contains(&name) => self.interpreted(name, arguments, folder, depth),
                _ if belongs_to_checks(word) => drop(self.file(word, folder, depth)),
                _ => {}
            }
            // A manager and an interpreter in one: `bun`.
            if MANAGERS.contains(word) {
                self.package(arguments, folder, depth);
            }
        }
    }

    /// Takes in the files that an interpreter runs.
    fn interpreted(&mut self, program: &str, arguments: &[&str], folder: &str, depth: usize) {
        // With these options there is no file: what is run is in the command itself, or is a module.
        let no_file: &[&str] = match program {
            "bash" | "sh" | "dash" | "zsh" => &["-c"],
            "node" | "ruby" | "perl" | "lua" | "bun" => &["-e", "--eval", "-p"],
            _ => &["-m", "-c"],
        };
        let mut option = "";
        for word in arguments.iter().take_while(|word| !no_file.contains(*word)) {
            // The value of an option is no file, as a rule.
            let is_file = !word.starts_with('-')
                && ["", "/__main__.py", "/index.js"]
                    .iter()
                    .any(|end| self.file(&format!("{word}{end}"), folder, depth));
            if is_file && !PRELOADS.contains(&option) {
                break;
            }
            option = word;
        }
        self.module(arguments, folder, depth);
    }

    /// Takes in the files that unittest is asked to look for.
    fn discovered(&mut self, arguments: &[&str], folder: &str) {
        let Some(at) = arguments.iter().position(|word| *word == "discover") else { return };
        let value = |options: [&str; 2]| {
            let at = at + arguments.get(at..)?.iter().position(|word| options.contains(word))?;
            arguments.get(at + 1)
        };
        if let Some(pattern) = value(["-p", "--pattern"]) {
            let start = value(["-s", "--start-directory"]).copied().unwrap_or_default();
            self.named.globs.insert(joined(folder, &format!("{start}/**/{pattern}")));
        }
    }

    /// Takes in the files of the program that Go builds and runs. That of the whole module is the work.
    fn go_run(&mut self, arguments: &[&str], folder: &str, depth: usize) {
        for word in arguments.iter().skip(1).filter(|word| !word.starts_with('-')) {
            let path = joined(folder, word);
            if *word != "." && !self.file(word, folder, depth) {
                self.named.globs.insert(format!("{path}/*.go"));
            }
        }
    }

    /// Takes in a module of the project that Python is asked to run.
    fn module(&mut self, arguments: &[&str], folder: &str, depth: usize) {
        let at = arguments.iter().position(|word| *word == "-m");
        let Some(module) = at.and_then(|at| arguments.get(at + 1)) else { return };
        let path = module.replace('.', "/");
        for file in [format!("{path}.py"), format!("{path}/__main__.py")] {
            self.file(&file, folder, depth);
        }
    }

    /// Takes a file of the project in, and what it names if it is a shell script.
    fn file(&mut self, name: &str, folder: &str, depth: usize) -> bool {
        let path = joined(folder, name);
        if name.contains(['*', '?']) && !name.contains('$') {
            return self.named.globs.insert(path);
        }
        let Some(text) = (self.read)(&path) else { return false };
        let is_new = self.named.files.insert(path.clone());
        let first = text.lines().next().unwrap_or_default();
        let is_shell = path.ends_with(".sh") || (first.starts_with("#!") && first.contains("sh"));
        if is_new && is_shell {
            self.followed_text(&path, &text, folder, depth);
        }
        true
    }

    /// Reads the script `path`, once.
    fn followed_text(&mut self, path: &str, text: &str, folder: &str, depth: usize) {
        if !self.followed.insert(format!("{path}\0sh")) {
            return;
        }
        if depth >= DEPTH || text.len() > MAX_SCRIPT {
            self.named.is_cut = true;
            return;
        }
        // Paths in a script are relative to where it was called, as a rule.
        let own_folder = path.rsplit_once('/').map_or("", |(own, _)| own);
        self.script(text, folder, &relative(own_folder, folder), depth + 1);
    }

    /// Takes in the package that cargo runs as a task: by an alias, or by a name that says that it is a check.
    fn cargo(&mut self, arguments: &[&str], folder: &str) {
        let Some(task) = arguments.iter().find(|word| !word.starts_with(['-', '+'])) else { return };
        let settings = [".cargo/config.toml", ".cargo/config"].map(|file| (self.read)(&joined("", file)));
        let alias = settings.into_iter().flatten().find_map(|text| cargo_alias(&text, task));
        let is_alias = alias.is_some();
        let words = alias.unwrap_or_else(|| arguments.iter().map(|word| (*word).to_owned()).collect());
        let runs = words.iter().any(|word| matches!(word.as_str(), "run" | "r"));
        let option = |word: &&String| matches!(word.as_str(), "-p" | "--package" | "--bin");
        let after = words.iter().skip_while(|word| !option(word)).nth(1);
        let joined_value = words.iter().find_map(|word| word.strip_prefix("--package="));
        if let Some(package) = after.map(String::as_str).or(joined_value).filter(|_| runs)
            && (is_alias || belongs_to_checks(package))
        {
            self.named.globs.insert(joined(folder, &format!("**/{package}/**/*.rs")));
        }
    }

    fn make(&mut self, arguments: &[&str], folder: &str, depth: usize) {
        let after = |option: &str| {
            let at = arguments.iter().position(|word| *word == option);
            at.and_then(|at| arguments.get(at + 1)).copied()
        };
        let folder = &after("-C").map_or_else(|| folder.to_owned(), |to| joined(folder, to));
        let own = after("-f");
        if let Some(own) = own {
            self.file(own, folder, depth);
        }
        let Some(makefile) = Makefile::read(own, folder, self.read) else { return };
        self.named.files.extend(makefile.files.iter().skip(1).cloned());
        self.named.missing.extend(makefile.missing.iter().cloned());
        let targets = arguments.iter().filter(|word| !word.starts_with('-') && !word.contains('='));
        for target in targets {
            self.target(&makefile, target, folder, depth);
        }
    }

    fn target(&mut self, makefile: &Makefile, target: &str, folder: &str, depth: usize) {
        if !self.followed.insert(format!("{folder}\0make\0{target}")) {
            return;
        }
        if depth >= DEPTH {
            self.named.is_cut = true;
            return;
        }
        self.named.targets.insert(joined(folder, target));
        let (needs, recipe) = makefile.rule(target);
        self.compared.extend(shell::compared(&recipe.join("\n")));
        for command in recipe {
            self.script(&command, folder, "", depth + 1);
        }
        for needed in needs {
            self.target(makefile, &needed, folder, depth + 1);
        }
    }

    fn package(&mut self, arguments: &[&str], folder: &str, depth: usize) {
        let mut own = folder.to_owned();
        let (mut names, mut has_others) = (Vec::new(), false);
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let (option, value) = word.split_once('=').unwrap_or((word, ""));
            has_others |= WORKSPACES.contains(&option);
            if PREFIXES.contains(&option) {
                let value = if value.is_empty() { rest.next().copied().unwrap_or_default() } else { value };
                own = joined(folder, value);
            } else if !word.starts_with('-') && !matches!(*word, "run" | "run-script" | "exec") {
                names.push(*word);
            }
        }
        // Which packages of a workspace are meant is not worth finding out: all that have the script.
        let below = |path: &&String| has_others && path.starts_with(&own);
        let folders = self.packages.iter().filter(below).map(|path| path.trim_end_matches("package.json"));
        let folders: Vec<String> = folders.map(|folder| joined("", folder)).collect();
        for script in if has_others { names.as_slice() } else { names.get(..1).unwrap_or_default() } {
            for folder in folders.iter().chain([&own]) {
                self.package_script(script, folder, depth);
            }
        }
    }

    fn package_script(&mut self, script: &str, folder: &str, depth: usize) {
        let package = (self.read)(&joined(folder, "package.json"));
        let Some(package) = package.and_then(|text| serde_json::from_str::<Value>(&text).ok()) else {
            return;
        };
        let script = if script == "t" { "test" } else { script };
        for name in [format!("pre{script}"), script.to_owned(), format!("post{script}")] {
            let text =
                package.pointer("/scripts").and_then(|scripts| scripts.get(&name)).and_then(Value::as_str);
            if let Some(text) = text
                && depth < DEPTH
                && self.followed.insert(format!("{folder}\0npm\0{name}"))
            {
                self.script(text, folder, "", depth + 1);
            }
        }
    }
}

/// The words that an alias of cargo expands to, by its settings.
fn cargo_alias(settings: &str, name: &str) -> Option<Vec<String>> {
    let settings = settings.parse::<toml_edit::DocumentMut>().ok()?;
    let alias = settings.get("alias")?.get(name)?.as_value()?;
    match alias {
        toml_edit::Value::Array(words) => {
            Some(words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect())
        }
        words => Some(words.as_str()?.split_whitespace().map(str::to_owned).collect()),
    }
}

/// The commands that a loop over `patterns` runs for `words`; none if they do not name its variable.
fn turns<'a>(words: &[&'a str], variable: &str, patterns: &'a [String]) -> Vec<Vec<&'a str>> {
    let is_variable = |word: &str| word.strip_prefix('$') == Some(variable);
    if !words.iter().any(|word| is_variable(word)) {
        return Vec::new();
    }
    let turn = |pattern: &'a String| {
        words.iter().map(|word| if is_variable(word) { pattern.as_str() } else { word }).collect()
    };
    patterns.iter().map(turn).collect()
}

/// The way from `folder` to another one.
fn relative(to: &str, folder: &str) -> String {
    let up = folder.split('/').filter(|part| !part.is_empty()).map(|_| "../");
    format!("{}{to}", up.collect::<String>())
}

/// A path relative to the project, without `.` and `..` where they can be resolved.
pub(super) fn joined(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        (
            "test.sh",
            "#!/usr/bin/env bash\nset -e\n# ./not-this.sh\npython3 tools/run.py --all\nscripts/more\n",
        ),
        ("scripts/more", "#!/bin/sh\ncd sub && ./deep.sh\n"),
        ("sub/deep.sh", "true\n"),
        (
            "ci/here.sh",
            "#!/bin/sh\nHERE=$(cd \"$(dirname \"$0\")\" && pwd)\n\"$HERE/../sub/deep.sh\"\n./app | diff - want.txt\n",
        ),
        ("want.txt", "3\n"),
        ("not-this.sh", ""),
        ("tools/run.py", "import os\n"),
        ("app.py", ""),
        ("checks/all.py", ""),
        ("run.js", ""),
        ("data.txt", ""),
        ("app.c", ""),
        ("proof.c", ""),
        ("web/proof.js", ""),
        ("web/package.json", r#"{"scripts": {"test": "node proof.js"}}"#),
        ("rec.mk", "go:\n\t$(MAKE) -C web -f sub.mk go\n"),
        ("web/sub.mk", "go:\n\tnode proof.js\n"),
        ("inc.mk", "LINT = sh lint.sh\ninclude ci.mk\ngo: lint\nlint:\n\t$(LINT)\n"),
        ("ci.mk", "go:\n\t./test.sh\n"),
        ("Makefile", "all: app\napp:\n\tpython3 app.py\ntest: lint\n\t@bash run.sh\nlint:\n\tsh lint.sh\n"),
        ("run.sh", ""),
        ("lint.sh", ""),
        (
            "package.json",
            r#"{"scripts": {"start": "node app.js", "pretest": "npm run lint", "test": "node run.js", "lint": "sh lint.sh"}}"#,
        ),
    ];

    #[track_caller]
    fn check(command: &str, files: &[&str], programs: &[&str]) {
        let read =
            |path: &str| FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        let packages = ["package.json".to_owned(), "web/package.json".to_owned()];
        let got = named(&[command.to_owned()], &packages, &read);
        assert_eq!(got.files.iter().map(String::as_str).collect::<Vec<_>>(), files, "{command}");
        for program in programs {
            assert!(got.programs.contains(*program), "{command}: {program} is not in {:?}", got.programs);
        }
    }

    #[test]
    fn scripts_are_followed() {
        check("./test.sh", &["scripts/more", "sub/deep.sh", "test.sh", "tools/run.py"], &["python3"]);
        check("bash -e lint.sh", &["lint.sh"], &["bash"]);
        check("CI=1 timeout 60 ./run.sh && node run.js | tail -3", &["run.js", "run.sh"], &["tail", "node"]);
        check("cd sub && ./deep.sh", &["sub/deep.sh"], &[]);
        check("ci/here.sh", &["ci/here.sh", "sub/deep.sh", "want.txt"], &[]);
        check("cd sub && ../ci/here.sh", &["ci/here.sh", "sub/deep.sh"], &[]);
        check("python3 -m checks.all -v", &["checks/all.py"], &["python3"]);
        check("python3 app.py | diff -u - want.txt", &["want.txt"], &["diff"]);
    }

    #[test]
    fn the_file_is_found_after_wrappers_and_options() {
        for command in [
            "bash -euo pipefail lint.sh",
            "stdbuf -oL bash lint.sh app.py",
            "uv run --with x sh lint.sh",
            "env -u FOO sh lint.sh",
            "sh -c 'sh lint.sh'",
            "pushd sub >/dev/null; popd; sh lint.sh",
        ] {
            check(command, &["lint.sh"], &[]);
        }
        check("pushd sub; sh deep.sh; popd; sh lint.sh", &["lint.sh", "sub/deep.sh"], &[]);
        check("python3 -W ignore -X dev app.py data.txt", &["app.py"], &[]);
        check("node -r ./app.py run.js data.txt", &["app.py", "run.js"], &[]);
        check("npm --prefix web test", &["web/proof.js"], &[]);
        check("npm test -ws", &["lint.sh", "run.js", "web/proof.js"], &[]);
        check("cc -o t app.c proof.c && ./t", &["proof.c"], &[]);
        check("gmake -f rec.mk go", &["rec.mk", "web/proof.js", "web/sub.mk"], &[]);
        // A path that is printed or searched is not run.
        check("echo python3 app.py", &[], &[]);
        check("grep -q python3 app.py", &[], &[]);
    }

    #[test]
    fn what_was_looked_for_and_missing_is_remembered() {
        let read = |path: &str| {
            (path == "Makefile")
                .then(|| "-include settings.inc $(X)\ntest:\n\t. ./env.local; true\n".to_owned())
        };
        let got = named(&["make test; [ -f a ] && . ./a".to_owned()], &[], &read);
        assert_eq!(
            got.missing.iter().map(String::as_str).collect::<Vec<_>>(),
            ["a", "env.local", "settings.inc"]
        );
        assert!(got.files.is_empty(), "{got:?}");
    }

    #[test]
    fn what_loops_run_is_a_check() {
        let check = |command: &str, globs: &[&str]| {
            let got = named(&[command.to_owned()], &[], &|_| None);
            assert_eq!(got.globs.iter().map(String::as_str).collect::<Vec<_>>(), globs, "{command}");
        };
        check("for t in proofs/*.sh; do bash \"$t\" || exit 1; done", &["proofs/*.sh"]);
        check("cd ci && for t in a?.sh b*; do ./x; ${t}; done", &["ci/a?.sh", "ci/b*"]);
        check("bats proofs/*.bats", &["proofs/*.bats"]);
        check(
            "cd a && python3 -m unittest discover -s ok -p 'proof_*.py'",
            &["a/ok/**/proof_*.py", "a/proof_*.py"],
        );
        // Sources are the work.
        check("for f in src/*.c; do gcc -c $f; done; gcc src/*.c -o app", &[]);
        check("cd a && go run ./cmd/check -v; go run .", &["a/cmd/check/*.go"]);
    }

    #[test]
    fn recipes_and_package_scripts_are_followed() {
        check("make test", &["lint.sh", "run.sh"], &["make", "bash"]);
        check(
            "make -f inc.mk -j2 go",
            &["ci.mk", "inc.mk", "lint.sh", "scripts/more", "sub/deep.sh", "test.sh", "tools/run.py"],
            &[],
        );
        check("make -f ci.mk go", &["ci.mk", "scripts/more", "sub/deep.sh", "test.sh", "tools/run.py"], &[]);
        check("npm test", &["lint.sh", "run.js"], &["npm", "node", "sh"]);
        check("pnpm run lint", &["lint.sh"], &["pnpm"]);
    }

    #[test]
    fn what_is_only_read_is_no_check() {
        check("grep -q x data.txt", &[], &["grep"]);
        check("python3 app.py | grep -q x", &[], &["grep"]);
        check("test \"$(node run.js)\" = 3", &[], &["test"]);
        check("test -f app.py", &[], &["test"]);
        check("python3 -m pytest -q", &[], &["python3"]);
        check("python3 -m pytest checks/all.py::test_a -c data.txt", &["checks/all.py", "data.txt"], &[]);
    }

    proptest::proptest! {
        #[test]
        fn any_command_is_read_without_harm(command in "\\PC{0,80}") {
            let _ = named(&[command], &[], &|_| Some("#!/bin/sh\n./a\n".to_owned()));
        }
    }
}
