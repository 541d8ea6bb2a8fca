//! Layouts of projects, and the commands that are found in each.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::*;

const ALL: &[&str] = &[
    "bun", "bundle", "cargo", "cmake", "composer", "ctest", "deno", "dotnet", "go", "gradle", "just", "make",
    "mix", "mvn", "nox", "npm", "php", "pipenv", "pnpm", "poetry", "pytest", "python3", "rspec", "task",
    "tox", "uv", "yarn",
];
/// An executable file.
const EXECUTABLE: &str = "#!/bin/sh\n";
const PYTEST: &str = "def test_a():\n    pass\n";
const UNITTEST: &str =
    "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n";
const JEST: &str = r#"{"scripts": {"test": "jest"}}"#;
/// A file of an environment with pytest.
const IN_VENV: &str = ".venv/lib/python3.12/site-packages/pytest/__init__.py";

/// The commands of a project with these files on a machine with these programs, where rawko is started in `folder`; `-`
/// comes before one that lacks something. A text that begins with `-> ` is a link's target, with `#!` a program's.
#[track_caller]
fn check_in(folder: &str, programs: &[&str], files: &[(&str, &str)], expected: &[&str]) {
    let scene = tempfile::tempdir().unwrap();
    let (bin, project) = (scene.path().join("bin"), scene.path().join("project"));
    std::fs::create_dir_all(project.join(folder)).unwrap();
    for (name, text) in files {
        write(&project.join(name), text);
    }
    for name in programs {
        write(&bin.join(name), EXECUTABLE);
    }
    let machine = UserEnvironment {
        path: Some(bin.into()),
        virtual_env: Some(project.join("active")),
        home: Some(scene.path().join("home")),
    };
    let found = look(&project, &project.join(folder), &machine);
    let seen: Vec<String> = found
        .into_iter()
        .map(|found| match found.missing {
            None => format!("{}: {}", found.because, found.command),
            Some(missing) => format!("-{missing} {}: {}", found.because, found.command),
        })
        .collect();
    assert_eq!(seen, expected, "{folder} {files:?}");
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    if let Some(target) = text.strip_prefix("-> ") {
        return symlink(target, path).unwrap();
    }
    std::fs::write(path, text).unwrap();
    if text.starts_with("#!") {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[track_caller]
fn check_with(programs: &[&str], files: &[(&str, &str)], expected: &[&str]) {
    check_in("", programs, files, expected);
}

#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) {
    check_with(ALL, files, expected);
}

#[test]
fn each_language_stands_together_and_names_what_it_needs() {
    let table = CheckTable::get();
    let groups: Vec<&str> =
        table.checks.chunk_by(|one, next| one.of == next.of).map(|rows| rows[0].of.as_str()).collect();
    let mut once = groups.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), groups.len(), "{groups:?}");
    for row in &table.checks {
        let is_python = ["{python}", "{pytest}", "{unittest}"].iter().any(|name| row.command.contains(name));
        assert!(is_python || !row.programs.is_empty(), "{}", row.command);
        assert!(row.signs.iter().all(|signs| !signs.is_empty()) && !row.signs.is_empty(), "{}", row.command);
    }
}

#[test]
fn usual_projects_are_known() {
    check(&[("README", "")], &[]);
    check(&[("Cargo.toml", "")], &["Cargo.toml: cargo test"]);
    check(&[("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n")], &["Cargo.toml: cargo test --workspace"]);
    check(&[("Cargo.toml", "[package]\n[workspace.package]\n")], &["Cargo.toml: cargo test --workspace"]);
    check(&[("Cargo.toml", "[package]\n# [workspace]\n")], &["Cargo.toml: cargo test"]);
    check(&[("go.mod", "")], &["go.mod: go test ./..."]);
    let work = ("go.work", "go 1.22\n\nuse (\n\t.\n\t./a\n\t./gone\n)\n");
    check(&[work, ("go.mod", ""), ("a/go.mod", "")], &["go.work: go test ./... ./a/..."]);
    check(
        &[("go.work", "use ./a\nuse ./b\n"), ("a/go.mod", ""), ("b/go.mod", "")],
        &["go.work: go test ./a/... ./b/..."],
    );
    check(&[("go.work", "// use ./a\n"), ("a/go.mod", "")], &[]);
    check(&[("sub/Cargo.toml", "")], &[]);
}

#[test]
fn a_project_of_two_languages_has_a_command_for_each() {
    check(
        &[("go.mod", ""), ("Cargo.toml", ""), ("package.json", JEST)],
        &["Cargo.toml: cargo test", "package.json: npm test", "go.mod: go test ./..."],
    );
}

#[test]
fn a_package_has_a_script_of_its_own() {
    let script = |script: &str| format!(r#"{{"scripts": {{"test": "{script}"}}}}"#);
    check(&[("package.json", JEST)], &["package.json: npm test"]);
    check(&[("package.json", JEST), ("pnpm-lock.yaml", "")], &["package.json: pnpm test"]);
    check(&[("package.json", JEST), ("yarn.lock", "")], &["package.json: yarn test"]);
    check(&[("package.json", JEST), ("bun.lock", "")], &["package.json: bun run test"]);
    check(&[("package.json", JEST), ("bun.lockb", "")], &["package.json: bun run test"]);
    let named = r#"{"packageManager": "pnpm@9.1.0", "scripts": {"test": "vitest run"}}"#;
    check(&[("package.json", named)], &["package.json: pnpm test"]);
    check_with(
        &["npm"],
        &[("package.json", JEST), ("pnpm-lock.yaml", "")],
        &["-pnpm package.json: pnpm test"],
    );
    check(&[("package.json", &script(r#"echo \"Error: no test specified\" && exit 1"#))], &[]);
    for nothing in [&script(" "), &script("exit 0"), "{}", "[", r#"{"scripts": {"test": 1}}"#, ""] {
        check(&[("package.json", nothing)], &[]);
    }
    check(&[("node_modules/x/package.json", JEST)], &[]);
}

#[test]
fn workspaces_of_packages_are_tested_together() {
    let root = ("package.json", r#"{"workspaces": ["packages/*"]}"#);
    let member = ("packages/a/package.json", JEST);
    check(&[root, member], &["package.json: npm test --workspaces --if-present"]);
    check(&[root, member, ("yarn.lock", "")], &["package.json: yarn workspaces run test"]);
    check(
        &[root, member, ("yarn.lock", ""), (".yarnrc.yml", "")],
        &["package.json: yarn workspaces foreach -A run test"],
    );
    check(&[root, member, ("bun.lock", "")], &["package.json: bun run --filter '*' test"]);
    let nested = ("package.json", r#"{"workspaces": {"packages": ["packages/**"]}}"#);
    check(&[nested, member], &["package.json: npm test --workspaces --if-present"]);
    check(
        &[("pnpm-workspace.yaml", "packages:\n  - 'packages/*'\n"), member],
        &["pnpm-workspace.yaml: pnpm -r test"],
    );
    // A script of the root's own says how.
    let own = ("package.json", r#"{"workspaces": ["packages/*"], "scripts": {"test": "turbo run test"}}"#);
    check(&[own, member], &["package.json: npm test"]);
    check(&[root, ("packages/a/package.json", "{}"), ("other/b/package.json", JEST)], &[]);
    check(&[root, ("packages/node_modules/x/package.json", JEST)], &[]);
    check(&[("pnpm-workspace.yaml", "# packages:\n#   - 'packages/*'\n"), member], &[]);
}

#[test]
fn deno_has_tasks_or_tests() {
    check(&[("deno.json", r#"{"tasks": {"test": "deno test -A"}}"#)], &["deno.json: deno task test"]);
    check(
        &[("deno.jsonc", "{\n // \"x\": 1,\n \"tasks\": {\"test\": \"deno test\"},\n}\n")],
        &["deno.jsonc: deno task test"],
    );
    check(&[("deno.json", "{}"), ("src/a_test.ts", "")], &["deno.json: deno test"]);
    check(&[("deno.json", "{}"), ("src/a.ts", "")], &[]);
    check(&[("a_test.ts", "")], &[]);
}

#[test]
fn pytest_has_several_signs() {
    let pytest = |because: &str| format!("{because}: python3 -m pytest -q");
    check(&[("pytest.ini", "")], &[&pytest("pytest.ini")]);
    check(&[("pyproject.toml", "[project]\n[tool.pytest.ini_options]\n")], &[&pytest("pyproject.toml")]);
    check(&[("setup.cfg", "[tool:pytest]\n")], &[&pytest("setup.cfg")]);
    check(&[("tox.ini", "[pytest]\n")], &[&pytest("tox.ini")]);
    check(&[("pyproject.toml", ""), ("tests/test_a.py", "")], &[&pytest("tests/test_a.py")]);
    check(&[("setup.py", ""), ("tests/a_test.py", PYTEST)], &[&pytest("tests/a_test.py")]);
    check(&[("pyproject.toml", ""), ("src/a/tests/test_a.py", PYTEST)], &[&pytest("src/a/tests/test_a.py")]);
    check(&[("tests/test_a.py", PYTEST)], &[&pytest("tests/test_a.py")]);
    check(&[("test_a.py", PYTEST)], &[&pytest("test_a.py")]);
    check(&[("pyproject.toml", ""), ("tests/helper.py", "")], &[]);
    check(&[("pyproject.toml", "# [tool.pytest]\n")], &[]);
    check(&[("scripts/test_a.py", PYTEST)], &[]);
    check(&[("test_connection.py", "print(1)\n")], &[]);
    check_with(&["python", "py.test"], &[("pytest.ini", "")], &["pytest.ini: python -m pytest -q"]);
    check_with(&["python3"], &[("pytest.ini", "")], &["-pytest pytest.ini: python3 -m pytest -q"]);
    check_with(
        &["python3"],
        &[("tests/test_a.py", PYTEST)],
        &["-pytest tests/test_a.py: python3 -m pytest -q"],
    );
    check_with(&[], &[("tests/test_a.py", PYTEST)], &["-python3 tests/test_a.py: python3 -m pytest -q"]);
}

#[test]
fn unittest_needs_no_pytest() {
    let python = &["python3"];
    check(&[("tests/test_a.py", UNITTEST)], &["tests/test_a.py: python3 -m pytest -q"]);
    check_with(
        python,
        &[("tests/test_a.py", UNITTEST)],
        &["tests/test_a.py: python3 -m unittest discover -s tests"],
    );
    check_with(
        python,
        &[("tests/__init__.py", ""), ("tests/test_a.py", UNITTEST)],
        &["tests/test_a.py: python3 -m unittest discover -s tests -t ."],
    );
    check_with(python, &[("test_a.py", UNITTEST)], &["test_a.py: python3 -m unittest discover"]);
    check_with(
        python,
        &[("pyproject.toml", "[tool.pytest]\n"), ("tests/test_a.py", UNITTEST)],
        &["tests/test_a.py: python3 -m unittest discover -s tests"],
    );
    check_with(
        python,
        &[("test_a.py", UNITTEST), ("tests/test_b.py", UNITTEST)],
        &["tests/test_b.py: python3 -m unittest discover && python3 -m unittest discover -s tests"],
    );
}

#[test]
fn django_runs_its_tests_itself() {
    let manage = (
        "manage.py",
        "#!/usr/bin/env python\nfrom django.core.management import execute_from_command_line\n",
    );
    check(&[manage, ("app/tests.py", UNITTEST)], &["manage.py: python3 manage.py test"]);
    check(&[manage, ("pytest.ini", "")], &["pytest.ini: python3 -m pytest -q"]);
    check(
        &[
            manage,
            (".venv/bin/python", EXECUTABLE),
            (".venv/lib/python3.12/site-packages/django/__init__.py", ""),
        ],
        &["manage.py: .venv/bin/python manage.py test"],
    );
    check(
        &[manage, (".venv/bin/python", EXECUTABLE)],
        &["-django manage.py: .venv/bin/python manage.py test"],
    );
    check(&[("manage.py", "# not django\nfrom flask_script import Manager\n")], &[]);
}

#[test]
fn the_projects_interpreter_is_used() {
    let tests = ("tests/test_a.py", PYTEST);
    let venv = (".venv/bin/python", EXECUTABLE);
    let found = |command: &str| format!("tests/test_a.py: {command}");
    check_with(&[], &[venv, (IN_VENV, ""), tests], &[&found(".venv/bin/python -m pytest -q")]);
    check(&[venv, (IN_VENV, ""), tests], &[&found(".venv/bin/python -m pytest -q")]);
    check(&[venv, (".venv/bin/pytest", EXECUTABLE), tests], &[&found(".venv/bin/python -m pytest -q")]);
    check(
        &[
            ("venv/bin/python3", EXECUTABLE),
            ("venv/lib/python3.9/site-packages/pytest/__init__.py", ""),
            tests,
        ],
        &[&found("venv/bin/python3 -m pytest -q")],
    );
    check(
        &[
            ("active/bin/python", EXECUTABLE),
            ("active/lib/python3.9/site-packages/pytest/__init__.py", ""),
            tests,
        ],
        &[&found("active/bin/python -m pytest -q")],
    );
    check_with(
        ALL,
        &[venv, ("tests/test_a.py", UNITTEST)],
        &[&found(".venv/bin/python -m unittest discover -s tests")],
    );
    // The machine's pytest does not have what is installed for the project.
    check_with(
        &["python3", "pytest"],
        &[venv, tests],
        &[&format!("-pytest {}", found(".venv/bin/python -m pytest -q"))],
    );
    check(&[(".venv/bin/python", "-> /nowhere/python"), tests], &[&found("python3 -m pytest -q")]);
    check(&[(".venv/bin/python", "no program"), tests], &[&found("python3 -m pytest -q")]);
    check(&[("other/.venv/bin/python", EXECUTABLE), tests], &[&found("python3 -m pytest -q")]);
    let config = ("../base/lib/python3.12/site-packages/pytest/__init__.py", "");
    for (inherits, missing) in [("true", ""), ("false", "-pytest ")] {
        let settings = format!("home = BASE/bin\ninclude-system-site-packages = {inherits}\n");
        let scene = tempfile::tempdir().unwrap();
        let settings = settings.replace("BASE", &scene.path().join("base").display().to_string());
        let project = scene.path().join("project");
        for (name, text) in [venv, tests, config, (".venv/pyvenv.cfg", settings.as_str())] {
            write(&project.join(name), text);
        }
        let found = look(&project, &project, &UserEnvironment::default());
        let missing = (!missing.is_empty()).then(|| "pytest".to_owned());
        assert_eq!(found[0].missing, missing, "{inherits}");
    }
}

#[test]
fn a_lock_file_names_the_tool() {
    let tests = ("tests/test_a.py", PYTEST);
    let found = |command: &str| format!("tests/test_a.py: {command}");
    let locked = "[[package]]\nname = \"pytest\"\nversion = \"8\"\n";
    check(&[("uv.lock", locked), tests], &[&found("uv run pytest -q")]);
    check(&[("poetry.lock", locked), tests], &[&found("poetry run pytest -q")]);
    check(&[("pdm.lock", locked), tests], &[&found("python3 -m pytest -q")]);
    check(&[("Pipfile", "[dev-packages]\npytest = \"*\"\n"), tests], &[&found("pipenv run pytest -q")]);
    check(
        &[("uv.lock", "[[package]]\nname = \"a\"\n"), ("tests/test_a.py", UNITTEST)],
        &[&found("uv run python -m unittest discover -s tests")],
    );
    // An environment that has it needs no tool, and one that lacks it is no hindrance.
    let venv = (".venv/bin/python", EXECUTABLE);
    check(&[("uv.lock", locked), venv, (IN_VENV, ""), tests], &[&found(".venv/bin/python -m pytest -q")]);
    check(&[("uv.lock", locked), venv, tests], &[&found("uv run pytest -q")]);
    check_with(&["python3", "pytest"], &[("uv.lock", locked), tests], &[&found("python3 -m pytest -q")]);
    check(
        &[("uv.lock", "[[package]]\nname = \"a\"\n"), tests],
        &[&format!("-pytest {}", found("uv run pytest -q"))],
    );
}

#[test]
fn the_jvm_has_wrappers() {
    check(&[("gradlew", EXECUTABLE), ("build.gradle", "")], &["gradlew: ./gradlew test"]);
    check(&[("gradlew", "not executable"), ("build.gradle.kts", "")], &["build.gradle.kts: gradle test"]);
    check(&[("settings.gradle", "")], &["settings.gradle: gradle test"]);
    check(&[("pom.xml", ""), ("mvnw", EXECUTABLE)], &["pom.xml: ./mvnw test"]);
    check(&[("pom.xml", "")], &["pom.xml: mvn test"]);
    check_with(&[], &[("gradlew", "not executable")], &["-./gradlew gradlew: ./gradlew test"]);
}

#[test]
fn other_languages_have_their_runners() {
    check(&[("App.sln", "")], &["App.sln: dotnet test"]);
    check(&[("App.csproj", "")], &["App.csproj: dotnet test"]);
    check(&[("App.csproj", ""), ("All.sln", "")], &["All.sln: dotnet test All.sln"]);
    check(&[("A.csproj", ""), ("B.csproj", "")], &["A.csproj: dotnet test A.csproj"]);
    let phpunit = ("vendor/bin/phpunit", EXECUTABLE);
    check(&[("phpunit.xml", ""), phpunit], &["phpunit.xml: vendor/bin/phpunit"]);
    check(
        &[("phpunit.xml.dist", ""), phpunit, ("vendor/bin/pest", EXECUTABLE)],
        &["phpunit.xml.dist: vendor/bin/pest"],
    );
    check(&[("phpunit.xml", "")], &["-vendor/bin/phpunit phpunit.xml: vendor/bin/phpunit"]);
    check(&[("tests/ATest.php", ""), phpunit], &["tests/ATest.php: vendor/bin/phpunit tests"]);
    check(
        &[("composer.json", r#"{"scripts": {"test": ["@php vendor/bin/phpunit"]}}"#)],
        &["composer.json: composer test"],
    );
    check(&[("composer.json", "{}")], &[]);
    check(&[(".rspec", "")], &[".rspec: rspec"]);
    check(&[("Gemfile", ""), ("spec/models/a_spec.rb", "")], &["spec/models/a_spec.rb: bundle exec rspec"]);
    check(&[("Gemfile", "")], &[]);
    check_with(&["rspec"], &[("Gemfile", ""), (".rspec", "")], &[".rspec: rspec"]);
    check(&[("mix.exs", "")], &["mix.exs: mix test"]);
}

#[test]
fn a_configured_build_is_built_before_it_is_tested() {
    let tests = ("build/CTestTestfile.cmake", "");
    check(
        &[tests, ("build/CMakeCache.txt", ""), ("CMakeLists.txt", "")],
        &["build/CTestTestfile.cmake: cmake --build build && ctest --test-dir build --output-on-failure"],
    );
    check(&[tests], &["build/CTestTestfile.cmake: ctest --test-dir build --output-on-failure"]);
    check(&[("CMakeLists.txt", "enable_testing()\n")], &[]);
}

#[test]
fn task_runners_stand_in_where_no_language_has_a_command() {
    for rule in ["test:\n", "test: build\n", ".PHONY: x\ntest :\n"] {
        check(&[("Makefile", rule)], &["Makefile: make test"]);
    }
    check(&[("Makefile", "check:\n")], &["Makefile: make check"]);
    check(&[("makefile", "check:\ntest:\n"), ("Makefile", "")], &["makefile: make test"]);
    // make does not look further than the first.
    check(&[("GNUmakefile", "all:\n"), ("Makefile", "test:\n")], &[]);
    check(&[("Makefile", "# test:\ntests:\n\ttest: x\n")], &[]);
    check(&[("justfile", "test *args='':\n\ttrue\n")], &["justfile: just test"]);
    check(&[("justfile", "# test:\ntest := 'x'\n")], &[]);
    check(
        &[("Taskfile.yml", "version: '3'\ntasks:\n  test:\n    cmds:\n      - go test ./...\n")],
        &["Taskfile.yml: task test"],
    );
    check(&[("Taskfile.yml", "vars:\n  test: x\n# tasks:\n#   test: x\n")], &[]);
    check(&[("noxfile.py", "")], &["noxfile.py: nox"]);
    check(&[("tox.ini", "[tox]\nenvlist = py312\n")], &["tox.ini: tox"]);
    check(&[("pyproject.toml", "[tool.tox]\n")], &["pyproject.toml: tox"]);
    check(&[("tox.ini", "[flake8]\n# [testenv]\n")], &[]);
    // They run the suite that the language's own command runs.
    check(&[("go.mod", ""), ("Makefile", "test:\n\tgo test ./...\n")], &["go.mod: go test ./..."]);
    check(&[("tox.ini", "[tox]\n"), ("tests/test_a.py", PYTEST)], &["tests/test_a.py: python3 -m pytest -q"]);
    check(
        &[("tox.ini", "[tox]\n"), ("justfile", "test:\n"), ("Makefile", "test:\n")],
        &["Makefile: make test"],
    );
    check_with(&["tox"], &[("tox.ini", "[tox]\n"), ("Makefile", "test:\n")], &["tox.ini: tox"]);
}

#[test]
fn what_cannot_be_run_is_named() {
    check_with(&[], &[("Cargo.toml", "")], &["-cargo Cargo.toml: cargo test"]);
    check_with(
        &["make"],
        &[("go.mod", ""), ("Makefile", "test:\n")],
        &["-go go.mod: go test ./...", "Makefile: make test"],
    );
    check_with(&[], &[("tox.ini", "[tox]\n"), ("Makefile", "test:\n")], &["-make Makefile: make test"]);
}

#[test]
fn the_nearest_folder_with_a_command_decides() {
    let (root, web) = (("Cargo.toml", ""), ("services/web/package.json", JEST));
    let files = &[root, web, ("pnpm-lock.yaml", "")];
    check_in("", ALL, files, &["Cargo.toml: cargo test"]);
    check_in("services", ALL, files, &["Cargo.toml: cargo test"]);
    let command = "services/web/package.json: cd services/web && pnpm test";
    check_in("services/web", ALL, files, &[command]);
    check_in("services/web/src/deep", ALL, files, &[command]);
    check_in(
        "services/web",
        &["cargo"],
        files,
        &["-pnpm services/web/package.json: cd services/web && pnpm test", "Cargo.toml: cargo test"],
    );
    check_in(
        "my app's",
        ALL,
        &[("my app's/go.mod", "")],
        &[r"my app's/go.mod: cd 'my app'\''s' && go test ./..."],
    );
    check_in(
        "crates/a",
        ALL,
        &[("Cargo.toml", "[workspace]\n"), ("crates/a/Cargo.toml", "")],
        &["crates/a/Cargo.toml: cd crates/a && cargo test"],
    );
    // Outside of the project.
    check_in("../elsewhere", ALL, &[root, ("../elsewhere/go.mod", "")], &["Cargo.toml: cargo test"]);
    check_in("sub", ALL, &[("../go.mod", "")], &[]);
}

#[test]
fn tests_belong_to_the_project_of_python_around_them() {
    let tests = ("src/a/tests/test_a.py", PYTEST);
    for folder in ["src/a/tests", "src/a", "src"] {
        check_in(
            folder,
            ALL,
            &[("pyproject.toml", ""), tests],
            &["src/a/tests/test_a.py: python3 -m pytest -q"],
        );
    }
    check_in("tests", ALL, &[("tests/test_a.py", PYTEST)], &["tests/test_a.py: python3 -m pytest -q"]);
    check_in(
        "tests/unit",
        ALL,
        &[("tests/unit/test_a.py", PYTEST)],
        &["tests/unit/test_a.py: python3 -m pytest -q"],
    );
    // One of its own, and the interpreter of the one around it.
    let files = &[
        (".venv/bin/python", EXECUTABLE),
        (IN_VENV, ""),
        ("api/setup.py", ""),
        ("api/tests/test_a.py", PYTEST),
    ];
    check_in("api", ALL, files, &["api/tests/test_a.py: cd api && ../.venv/bin/python -m pytest -q"]);
}

#[test]
fn a_pytest_with_an_interpreter_of_its_own_is_called_itself() {
    let scene = tempfile::tempdir().unwrap();
    let project = scene.path().join("project");
    for (name, text) in [
        ("usr/bin/python3", EXECUTABLE),
        ("usr/lib/python3.12/site-packages/pip/__init__.py", ""),
        ("tools/bin/pytest", EXECUTABLE),
        ("project/tests/test_a.py", PYTEST),
    ] {
        write(&scene.path().join(name), text);
    }
    let bins = ["usr/bin", "tools/bin"].map(|name| scene.path().join(name));
    let machine =
        UserEnvironment { path: Some(std::env::join_paths(bins).unwrap()), ..UserEnvironment::default() };
    let command = || look(&project, &project, &machine).remove(0).command;
    assert_eq!(command(), "pytest -q");
    write(&scene.path().join("usr/lib/python3.12/site-packages/pytest/__init__.py"), "");
    assert_eq!(command(), "python3 -m pytest -q");
}

proptest::proptest! {
    #[test]
    fn the_folder_of_a_command_is_read_back(folder in "[^/\0]{1,12}") {
        let command = format!("cd {} && npm test", shell_word(&folder));
        proptest::prop_assert_eq!(folder_of(&command), Some(folder));
    }
}
