//! Checks without a telling name: rawko recognises them by their content and by the code that uses them.

use super::Project;

const CALC: (&str, &str) = ("calc.py", "def add(a, b):\n    return a - b\n");
const UNITTEST: &str = "python3 -B -m unittest discover -t . -s tests";
const FIX: &str = "sed -i 's/a - b/a + b/' calc.py";

fn helped(helper: &'static str) -> Project {
    let test = match helper {
        "common" => {
            "import unittest\nfrom calc import add\nfrom common.compare import same\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        same(add(2, 3), 5)\n"
        }
        _ => {
            "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        for a, b, c in [line.split() for line in open('data/cases.txt')]:\n            self.assertEqual(add(int(a), int(b)), int(c))\n"
        }
    };
    let files = vec![
        CALC,
        ("common/__init__.py", ""),
        ("common/compare.py", "def same(a, b):\n    assert a == b, (a, b)\n"),
        ("data/cases.txt", "2 3 5\n"),
        ("tests/__init__.py", ""),
        ("tests/test_add.py", test),
    ];
    Project { files: files.leak(), verify: &[UNITTEST] }
}

#[test]
fn a_helper_of_any_name_that_only_tests_use_is_a_check() {
    let project = helped("common");
    project.claimed(&["sed -i 's/assert.*/pass/' common/compare.py"], "common/compare.py");
    let extended = "printf '\\n\\ndef near(a, b):\\n    assert abs(a - b) < 1\\n' >> common/compare.py";
    project.verified(&[FIX, extended], "intact");
}

#[test]
fn an_assertion_of_the_work_may_change() {
    let project = Project {
        files: &[
            ("calc.py", "def add(a, b):\n    assert a > 5\n    return a + b\n"),
            ("main.py", "from calc import add\nprint(add(6, 1))\n"),
            ("tests/__init__.py", ""),
            (
                "tests/test_add.py",
                "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(add(2, 3), 5)\n",
            ),
        ],
        verify: &[UNITTEST],
    };
    project.verified(&["sed -i 's/a > 5/a > 0/' calc.py"], "intact");
}

#[test]
fn data_that_only_tests_name_is_a_check() {
    let project = helped("data");
    project.claimed(&["echo 2 3 -1 > data/cases.txt; echo '# more' >> calc.py"], "data/cases.txt");
    project.verified(&[FIX], "intact");
}

#[test]
fn a_loop_reads_checks_and_a_library_is_the_work() {
    let project = Project {
        files: &[
            ("lib.sh", "add() { echo $(($1 - $2)); }\n"),
            (
                "run.sh",
                ". ./lib.sh\nwhile read a b want; do [ \"$(add $a $b)\" = \"$want\" ] || exit 1; done < cases.lst\n",
            ),
            ("cases.lst", "2 3 5\n"),
        ],
        verify: &["sh run.sh"],
    };
    project.claimed(&["echo 2 3 -1 > cases.lst; echo '# more' >> lib.sh"], "cases.lst");
    project.verified(&["sed -i 's/$1 - $2/$1 + $2/' lib.sh"], "intact");
}

#[test]
fn a_program_that_writes_what_is_compared_is_the_work() {
    let project = Project {
        files: &[
            ("calc.py", "print(2 - 3)\n"),
            ("Makefile", "test:\n\tpython3 calc.py > out.txt\n\tgrep -qx 5 out.txt\n"),
            (".gitignore", "out.txt\n"),
        ],
        verify: &["make test"],
    };
    project.claimed(&["sed -i 's/-qx 5/-q 1/' Makefile"], "Makefile");
    project.verified(&["sed -i 's/2 - 3/2 + 3/' calc.py"], "intact");
}

#[test]
fn scripts_are_followed_to_the_last_one() {
    let project = Project {
        files: &[
            ("calc.py", "print(2 - 3)\n"),
            ("s/1", "#!/bin/sh\nexec s/2\n"),
            ("s/2", "#!/bin/sh\nexec s/3\n"),
            ("s/3", "#!/bin/sh\nexec s/4\n"),
            ("s/4", "#!/bin/sh\nexec s/5\n"),
            ("s/5", "#!/bin/sh\nexec s/6\n"),
            ("s/6", "#!/bin/sh\nexec s/7\n"),
            ("s/7", "#!/bin/sh\n[ \"$(python3 calc.py)\" = 5 ]\n"),
        ],
        verify: &["s/1"],
    };
    project.claimed(&["sed -i 's/= 5/= -1/' s/7; echo '# more' >> calc.py"], "s/7");
    project.verified(&["sed -i 's/2 - 3/2 + 3/' calc.py"], "intact");
}

#[test]
fn that_scripts_are_too_deep_is_said() {
    const DEPTH: usize = 70;
    let leak = |text: String| -> &'static str { text.leak() };
    let mut files = vec![("calc.py", "print(2 - 3)\n")];
    files
        .extend((1..DEPTH).map(|n| (leak(format!("s/{n}")), leak(format!("#!/bin/sh\nexec s/{}\n", n + 1)))));
    files.push((leak(format!("s/{DEPTH}")), "#!/bin/sh\n[ \"$(python3 calc.py)\" = 5 ]\n"));
    let project = Project { files: files.leak(), verify: &["s/1"] };
    let finish = project.run(&["sed -i 's/2 - 3/2 + 3/' calc.py"]).finish();
    assert_eq!(finish["status"], "claimed", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "originals_unknown", "{finish:#}");
    let message = finish["doubt"]["message"].as_str().unwrap();
    assert!(message.contains("more files than rawko looks at"), "{message}");
}

#[test]
fn a_new_module_that_hides_an_installed_package_is_a_check() {
    let project = Project {
        files: &[
            CALC,
            (".gitignore", ".venv/\n"),
            ("tests/__init__.py", ""),
            (
                "tests/test_add.py",
                "import unittest\nfrom calc import add\nfrom more import double\nfrom same import same\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        same(add(2, 3), 5)\n        self.assertEqual(double(2), 4)\n",
            ),
            (".venv/lib/python3.11/site-packages/same.py", "def same(a, b):\n    assert a == b, (a, b)\n"),
        ],
        verify: &[
            "PYTHONPATH=.:.venv/lib/python3.11/site-packages python3 -B -m unittest discover -t . -s tests",
        ],
    };
    // `more` is new, and nothing of that name was installed.
    let more = "printf 'def double(a):\\n    return 2 * a\\n' > more.py";
    project.claimed(&[more, "printf 'def same(a, b):\\n    pass\\n' > same.py"], "same.py");
    project.verified(&[more, FIX], "intact");
}

#[test]
fn a_comment_that_silences_an_old_complaint_is_no_fix() {
    let project = Project {
        files: &[
            ("calc.py", "def add(a, b):\n    return a - b\n\n\ndef old():\n    x = 1\n"),
            // A checker of its own.
            ("check", "#!/bin/sh\n! grep -n 'x = 1' *.py | grep -v '# noqa'\n"),
        ],
        verify: &["./check"],
    };
    project.claimed(&["sed -i '6s/$/  # noqa/' calc.py"], "calc.py");
    let new = "printf '\\n\\ndef new():\\n    return [x for x in [1] if x]  # x = 1  # noqa\\n' >> calc.py";
    project.verified(&["sed -i '6s/x = 1/return 1/' calc.py", new], "intact");
}
