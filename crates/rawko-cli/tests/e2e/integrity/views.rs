//! The original checks run in a view of the project, at its own path.

use super::Project;

/// A test of `calc.py` that is changed in form only, beside what `run` says.
fn project(run: &'static str) -> Project {
    let files = vec![
        ("calc.py", "def add(a, b):\n    return a - b\n"),
        ("tests/__init__.py", ""),
        (
            "tests/test_add.py",
            "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(add(2, 3), 5)\n",
        ),
        ("run.sh", run),
        (".gitignore", "build/\n__pycache__/\ncache/\n"),
    ];
    Project { files: files.leak(), verify: &["sh run.sh"] }
}

const FIX: &str = "sed -i 's/a - b/a + b/' calc.py; echo '# more' >> tests/test_add.py";
const WEAK: &str = "sed -i 's/, 5)/, -1)/' tests/test_add.py; echo '# more' >> calc.py";

#[test]
fn a_project_that_knows_its_own_path_is_checked() {
    // What it was installed as names the folder, as an editable install does.
    let run = "mkdir -p build && pwd > build/where\ncd \"$(cat build/where)\" && python3 -B -m unittest discover -t . -s tests\n";
    project(run).claimed(&[WEAK], "tests/test_add.py");
    project(run).verified(&[FIX], "originals_pass");
}

#[test]
fn what_commands_write_stays_in_the_view() {
    // It fails in a folder in which it ran before.
    let run = "[ ! -e ran ] && echo > ran && python3 -B -m unittest discover -t . -s tests; code=$?; rm -f ran; exit $code\n";
    let ended = project(run).verified(&[FIX, "mkdir -p cache && echo 1 > cache/kept"], "originals_pass");
    assert!(!ended.trial.project().join("ran").exists());
    assert!(ended.trial.project().join("cache/kept").exists());
}

#[test]
fn a_file_in_place_of_a_folder_and_a_deleted_one_come_back() {
    let run = "[ -f tests/test_add.py ] && python3 -B -m unittest discover -t . -s tests\n";
    let moved = "rm -r tests; echo > tests; printf 'true\\n' > run.sh; echo '# more' >> calc.py";
    project(run).claimed(&[moved], "run.sh");
}
