//! Finds the commands that verify a project, by the files of common build tools (`docs/spec/tools-and-permissions.md`).
//!
//! Owns which file means which command. Only the project's own folder is looked at, nothing is run, and only the
//! beginning of a file is read. A command whose program is not installed is reported and not used.

use std::ffi::OsStr;
use std::path::Path;

use rawko_tools::read_regular;
use serde::Serialize;
use serde_json::Value;

/// Most bytes that are read of a file.
const MAX_BYTES: u64 = 256 * 1024;
/// Most entries of `tests/` that are looked at.
const MAX_ENTRIES: usize = 2_000;
/// What `npm init` writes where there are no tests.
const NO_TESTS: &str = "no test specified";

/// A command that verifies the project, and the file that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundCommand {
    /// The command line.
    pub command: String,
    /// That file, relative to the project.
    pub because: String,
    /// A program that it needs and that is not installed. The command is not run then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Looks at the project. Programs are looked for in `path`, separated as in `PATH`.
pub(crate) fn look(project: &Path, path: Option<&OsStr>) -> Vec<FoundCommand> {
    let detector = Detector { project, path };
    [detector.cargo(), detector.package(), detector.pytest(), detector.go(), detector.make()]
        .into_iter()
        .flatten()
        .collect()
}

struct Detector<'a> {
    project: &'a Path,
    path: Option<&'a OsStr>,
}

impl Detector<'_> {
    fn cargo(&self) -> Option<FoundCommand> {
        self.is_file("Cargo.toml").then(|| self.found("cargo test", "Cargo.toml", &[&["cargo"]]))
    }

    fn package(&self) -> Option<FoundCommand> {
        let package: Value = serde_json::from_str(&self.read("package.json")?).ok()?;
        let script = package.pointer("/scripts/test").and_then(Value::as_str)?;
        if script.trim().is_empty() || script.contains(NO_TESTS) {
            return None;
        }
        let managers = [
            ("pnpm-lock.yaml", "pnpm", "pnpm test"),
            ("yarn.lock", "yarn", "yarn test"),
            ("bun.lock", "bun", "bun run test"),
            ("bun.lockb", "bun", "bun run test"),
        ];
        let (_, program, command) =
            managers.into_iter().find(|(lock, ..)| self.is_file(lock)).unwrap_or(("", "npm", "npm test"));
        Some(self.found(command, "package.json", &[&[program]]))
    }

    fn pytest(&self) -> Option<FoundCommand> {
        let because = self.sign_of_pytest()?;
        // As a module, so that the project's own packages are found. A program of that name shows that pytest is
        // installed.
        let python =
            if self.is_program("python3") || !self.is_program("python") { "python3" } else { "python" };
        let command = format!("{python} -m pytest -q");
        Some(self.found(&command, because, &[&[python], &["pytest", "pytest-3", "py.test"]]))
    }

    fn sign_of_pytest(&self) -> Option<&'static str> {
        if self.is_file("pytest.ini") {
            return Some("pytest.ini");
        }
        let says = |name: &str, section: &str| {
            self.read(name)
                .is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with(section)))
        };
        let sections =
            [("pyproject.toml", "[tool.pytest"), ("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]")];
        if let Some((name, _)) = sections.into_iter().find(|(name, section)| says(name, section)) {
            return Some(name);
        }
        let is_python =
            ["pyproject.toml", "setup.py", "setup.cfg"].into_iter().any(|name| self.is_file(name));
        (is_python && self.has_test_files()).then_some("tests/")
    }

    fn has_test_files(&self) -> bool {
        let Ok(entries) = std::fs::read_dir(self.project.join("tests")) else { return false };
        let names = entries.take(MAX_ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.into_iter().any(|name| {
            name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
        })
    }

    fn go(&self) -> Option<FoundCommand> {
        self.is_file("go.mod").then(|| self.found("go test ./...", "go.mod", &[&["go"]]))
    }

    fn make(&self) -> Option<FoundCommand> {
        // In the order in which make looks for them.
        let name = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|name| self.is_file(name))?;
        let text = self.read(name)?;
        let target =
            ["test", "check"].into_iter().find(|target| text.lines().any(|line| is_rule(line, target)))?;
        Some(self.found(&format!("make {target}"), name, &[&["make"]]))
    }

    /// `programs`: of each group one must be there.
    fn found(&self, command: &str, because: &str, programs: &[&[&str]]) -> FoundCommand {
        let missing = programs.iter().find(|names| !names.iter().any(|name| self.is_program(name)));
        FoundCommand {
            command: command.to_owned(),
            because: because.to_owned(),
            missing: missing.and_then(|names| names.first()).map(|name| (*name).to_owned()),
        }
    }

    fn is_file(&self, name: &str) -> bool {
        self.project.join(name).metadata().is_ok_and(|found| found.is_file())
    }

    /// The beginning of a regular file: a FIFO is not waited for.
    fn read(&self, name: &str) -> Option<String> {
        let bytes = read_regular(&self.project.join(name), MAX_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn is_program(&self, name: &str) -> bool {
        let folders =
            self.path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
        let is_executable =
            |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        // A relative folder is the project's to fill.
        folders.iter().filter(|folder| folder.is_absolute()).any(|folder| is_executable(&folder.join(name)))
    }
}

/// Whether a line of a makefile begins the rule for `target`: not a variable of that name, nor a line of a recipe.
fn is_rule(line: &str, target: &str) -> bool {
    let Some((names, rest)) = line.split_once(':') else { return false };
    !line.starts_with(['\t', '#'])
        && !names.contains('=')
        && !rest.trim_start_matches(':').starts_with('=')
        && names.split_whitespace().any(|name| name == target)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] = &["cargo", "npm", "pnpm", "yarn", "bun", "python3", "pytest", "go", "make"];

    /// The commands of a project with these files on a machine with these programs; `-` stands before one that lacks
    /// its program.
    #[track_caller]
    fn check_with(programs: &[&str], files: &[(&str, &str)], expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let (bin, project) = (folder.path().join("bin"), folder.path().join("project"));
        for (name, text) in files {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir(&bin).unwrap();
        for name in programs {
            let mode = std::os::unix::fs::OpenOptionsExt::mode;
            let mut options = std::fs::OpenOptions::new();
            mode(&mut options, 0o755);
            options.write(true).create_new(true).open(bin.join(name)).unwrap();
        }
        let found = look(&project, Some(bin.as_os_str()));
        let seen: Vec<String> = found
            .into_iter()
            .map(|found| match found.missing {
                None => format!("{}: {}", found.because, found.command),
                Some(missing) => format!("-{missing} {}: {}", found.because, found.command),
            })
            .collect();
        assert_eq!(seen, expected, "{files:?}");
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        check_with(ALL, files, expected);
    }

    #[test]
    fn usual_projects_are_known() {
        check(&[("README", "")], &[]);
        check(&[("Cargo.toml", "")], &["Cargo.toml: cargo test"]);
        check(&[("go.mod", "")], &["go.mod: go test ./..."]);
        check(&[("sub/Cargo.toml", "")], &[]);
        check(
            &[("go.mod", ""), ("Cargo.toml", ""), ("Makefile", "check:\n\ttrue\n")],
            &["Cargo.toml: cargo test", "go.mod: go test ./...", "Makefile: make check"],
        );
    }

    #[test]
    fn a_package_has_a_script_of_its_own() {
        let script = |script: &str| format!(r#"{{"scripts": {{"test": "{script}"}}}}"#);
        let real = script("jest");
        check(&[("package.json", &real)], &["package.json: npm test"]);
        check(&[("package.json", &real), ("pnpm-lock.yaml", "")], &["package.json: pnpm test"]);
        check(&[("package.json", &real), ("yarn.lock", "")], &["package.json: yarn test"]);
        check(&[("package.json", &real), ("bun.lock", "")], &["package.json: bun run test"]);
        check(&[("package.json", &script(r#"echo \"Error: no test specified\" && exit 1"#))], &[]);
        for nothing in [&script(" "), "{}", "[", r#"{"scripts": {"test": 1}}"#, ""] {
            check(&[("package.json", nothing)], &[]);
        }
    }

    #[test]
    fn pytest_has_several_signs() {
        let pytest = |because: &str| format!("{because}: python3 -m pytest -q");
        check(&[("pytest.ini", "")], &[&pytest("pytest.ini")]);
        check(&[("pyproject.toml", "[project]\n[tool.pytest.ini_options]\n")], &[&pytest("pyproject.toml")]);
        check(&[("setup.cfg", "[tool:pytest]\n")], &[&pytest("setup.cfg")]);
        check(&[("tox.ini", "[pytest]\n")], &[&pytest("tox.ini")]);
        check(&[("pyproject.toml", ""), ("tests/test_a.py", "")], &[&pytest("tests/")]);
        check(&[("setup.py", ""), ("tests/a_test.py", "")], &[&pytest("tests/")]);
        check(&[("pyproject.toml", ""), ("tests/helper.py", "")], &[]);
        check(&[("tests/test_a.py", "")], &[]);
        check(&[("pyproject.toml", "# [tool.pytest]\n")], &[]);
        check_with(&["python", "py.test"], &[("pytest.ini", "")], &["pytest.ini: python -m pytest -q"]);
        check_with(&["python3"], &[("pytest.ini", "")], &["-pytest pytest.ini: python3 -m pytest -q"]);
    }

    #[test]
    fn makefiles_have_rules() {
        for rule in ["test:\n", "test: build\n", "all test:\n", "test::\n", ".PHONY: x\ntest :\n"] {
            check(&[("Makefile", rule)], &["Makefile: make test"]);
        }
        for none in
            ["test = x\n", "test := x\n", "test ::= x\n", "\ttest: x\n", "# test:\n", "tests:\n", "x: test\n"]
        {
            check(&[("Makefile", none)], &[]);
        }
        check(&[("makefile", "check:\ntest:\n"), ("Makefile", "")], &["makefile: make test"]);
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        check_with(&[], &[("Cargo.toml", "")], &["-cargo Cargo.toml: cargo test"]);
        check_with(
            &["make"],
            &[("go.mod", ""), ("Makefile", "test:\n")],
            &["-go go.mod: go test ./...", "Makefile: make test"],
        );
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_read_without_harm(line in "\\PC{0,40}") {
            let _ = is_rule(&line, "test");
        }
    }
}
