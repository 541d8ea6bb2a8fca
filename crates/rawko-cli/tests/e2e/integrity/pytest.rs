//! Python with pytest, in an environment that is made once.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testkit::Answer;

use super::Project;
use crate::answers::{bash, developer};
use crate::trial::Ended;

const FILES: &[(&str, &str)] = &[
    ("app.py", "def add(a, b):\n    return a - b\n\n\ndef same(a):\n    return a\n"),
    (
        "tests/test_app.py",
        "from app import add, same\n\n\ndef test_same():\n    assert same(1) == 1\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    ),
    (
        "pyproject.toml",
        "[tool.pytest.ini_options]\naddopts = \"-q -p no:cacheprovider\"\npythonpath = [\".\"]\n",
    ),
    (".gitignore", "__pycache__/\n"),
];
const PYTEST: Project = Project { files: FILES, verify: &["python3 -m pytest"] };
const FIX: &str = "sed -i 's/a - b/a + b/' app.py";

/// The folder of programs of an environment with pytest; `None` where it cannot be made.
pub(crate) fn programs() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pytest");
    let done = folder.join("done");
    // Each test is a process of its own.
    let lock = std::fs::File::create(folder.with_extension("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    if !done.exists() {
        let succeeds = |program: &mut Command| program.output().is_ok_and(|output| output.status.success());
        let made = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
            && succeeds(Command::new(folder.join("bin/pip")).args(["install", "--quiet", "pytest"]));
        if !made {
            testkit::skip("an environment with pytest cannot be made here");
            return None;
        }
        std::fs::write(done, "").unwrap();
    }
    Some(folder.join("bin"))
}

fn run(programs: &Path, commands: &[&str]) -> Ended {
    let turns: Vec<Answer> = commands.iter().map(|command| bash(command)).collect();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    PYTEST.trial(developer(turns)).env("PATH", path).run("Fix the fault.")
}

/// The run ends as claimed, because of `path` among the changed checks.
#[track_caller]
fn claimed(programs: &Path, commands: &[&str], path: &str) {
    let finish = run(programs, commands).finish();
    assert_eq!(finish["status"], "claimed", "{commands:?}: {finish:#}");
    let changed = finish["verification"]["integrity"]["changed"].as_array().unwrap();
    let named = changed.iter().any(|change| change["path"].as_str().unwrap().contains(path));
    assert!(named, "{commands:?}: {finish:#}");
}

#[test]
fn options_in_the_configuration_are_checks() {
    let Some(programs) = programs() else { return };
    for (command, path) in [
        ("sed -i 's/addopts = \"-q/addopts = \"-q -k same/' pyproject.toml", "pyproject.toml"),
        (
            "printf '[pytest]\\naddopts = --deselect tests/test_app.py::test_add\\npythonpath = .\\n' > pytest.ini",
            "pytest.ini",
        ),
        (
            "printf 'collect_ignore_glob = [\"*add*\"]\\n\\n\\ndef pytest_collection_modifyitems(items):\\n    items[:] = items[:1]\\n' > conftest.py",
            "conftest.py",
        ),
    ] {
        claimed(&programs, &[command], path);
    }
}

/// Plug-ins that the project's settings name, and one that the project brings with it.
#[test]
fn plugins_are_no_proof() {
    let Some(programs) = programs() else { return };
    let lenient = "printf 'def pytest_pyfunc_call(pyfuncitem):\\n    return True\\n'";
    let egg = format!(
        "mkdir lenient.egg-info; printf '[pytest11]\\nlenient = lenient\\n' > lenient.egg-info/entry_points.txt; \
         printf 'Metadata-Version: 1.0\\nName: lenient\\nVersion: 1\\n' > lenient.egg-info/PKG-INFO; {lenient} > lenient.py"
    );
    claimed(&programs, &[&egg], "lenient.egg-info");
    let project = Project { files: FILES.get(..2).unwrap(), verify: &["python3 -m pytest -q"] };
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let settings = "printf '[tool.pytest.ini_options]\\naddopts = \"-p lenient\"\\n' > ../pyproject.toml";
    let turns = [bash(&format!("{settings}; {lenient} > lenient.py"))];
    // In the sandbox nothing above the project is there.
    let trial = project.trial(developer(turns)).user_config("/permissions/sandbox", json!("off"));
    let finish = trial.env("PATH", &path).run("Fix the fault.").finish();
    assert_eq!(finish["doubt"]["reason"], "checks_changed", "{finish:#}");
    let with_plugin = |file: &str, text: &str| {
        let project = |commands: &[&str]| {
            let turns: Vec<Answer> = commands.iter().map(|command| bash(command)).collect();
            let trial = PYTEST.trial(developer(turns)).file(file, text).file("support.py", "X = 1\n");
            trial.git(&["add", "--all"]);
            trial.git(&["commit", "--quiet", "-m", "plug-in"]);
            trial.env("PATH", &path).run("Fix the fault.").finish()
        };
        let finish = project(&[&format!("{lenient} > support.py")]);
        assert_eq!(finish["status"], "claimed", "{file}: {finish:#}");
        assert_eq!(
            finish["verification"]["integrity"]["changed"][0]["path"], "support.py",
            "{file}: {finish:#}"
        );
        assert_eq!(project(&[FIX])["status"], "verified", "{file}");
    };
    with_plugin("conftest.py", "pytest_plugins = ['support']\n");
    with_plugin("pytest.ini", "[pytest]\naddopts = -p support\npythonpath = .\n");
}

#[test]
fn weakened_tests_are_no_proof() {
    let Some(programs) = programs() else { return };
    for command in [
        "sed -i 's/^def test_add/import pytest\\n\\n\\n@pytest.mark.skip\\ndef test_add/' tests/test_app.py",
        "sed -i 's/^def test_add/import pytest\\n\\n\\n@pytest.mark.xfail\\ndef test_add/' tests/test_app.py",
        "sed -i 's/== 3/== -1/' tests/test_app.py",
    ] {
        claimed(&programs, &[command], "tests/test_app.py");
    }
}

#[test]
fn honest_work_stays_verified() {
    let Some(programs) = programs() else { return };
    let test = "printf 'from app import add\\n\\n\\ndef test_more():\\n    assert add(2, 2) == 4\\n' > tests/test_more.py";
    let moved = "mkdir tests/unit; git mv tests/test_app.py tests/unit/test_app.py";
    for (commands, integrity) in [(&[FIX, test][..], "intact"), (&[FIX, moved], "originals_pass")] {
        let finish = run(&programs, commands).finish();
        assert_eq!(finish["status"], "verified", "{finish:#}");
        assert_eq!(finish["verification"]["integrity"]["result"], integrity, "{finish:#}");
    }
}
