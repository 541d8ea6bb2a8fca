//! The file that a command runs is found, whatever comes before it.

use super::Project;
use crate::support::each;

const PROOF: &str = "import sys\nsys.path.insert(0, '.')\nfrom app import add\nsys.exit(add(1, 2) != 3)\n";
const APP: &str = "def add(a, b):\n    return a - b\n";
const WEAKEN: &str = "echo 'import sys; sys.exit(0)' > run.py";
const FIX: &str = "sed -i 's/a - b/a + b/' app.py";
const FILES: &[(&str, &str)] = &[
    ("app.py", APP),
    ("run.py", PROOF),
    ("Makefile", "check:\n\t$(MAKE) -C sub all\n"),
    ("sub/Makefile", "all:\n\tcd .. && python3 run.py\n"),
    (".gitignore", "__pycache__/\n"),
];

#[test]
fn wrappers_and_options_hide_no_script() {
    let commands: [&[&str]; 6] = [
        &["python3 -W ignore run.py"],
        &["stdbuf -oL python3 run.py"],
        &["sh -c 'python3 run.py'"],
        &["env -u FOO python3 -X dev run.py"],
        &["pushd sub >/dev/null; popd >/dev/null; python3 run.py"],
        &["make check"],
    ];
    each(&commands, |&verify| {
        let project = Project { files: FILES, verify };
        project.claimed(&[WEAKEN], "run.py");
        project.verified(&[FIX], "intact");
    });
}

#[test]
fn scripts_of_other_packages_are_followed() {
    let project = Project {
        files: &[
            (
                "web/package.json",
                r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "node -r ./before.js run.js"}}"#,
            ),
            ("web/before.js", "\n"),
            ("web/app.js", "exports.add = (a, b) => a - b;\n"),
            ("web/run.js", "process.exit(require('./app.js').add(1, 2) === 3 ? 0 : 1);\n"),
        ],
        verify: &["npm --prefix web test --silent"],
    };
    project.claimed(&["echo 'process.exit(0)' > web/run.js"], "web/run.js");
    project.claimed(&["echo 'process.exit(0)' > web/before.js"], "web/before.js");
    project.verified(&["sed -i 's/a - b/a + b/' web/app.js"], "intact");
}

/// Among what a compiler is given, names tell the checks from the work.
#[test]
fn a_proof_that_is_compiled_is_a_check() {
    let project = Project {
        files: &[
            ("app.c", "int add(int a, int b) { return a - b; }\n"),
            ("proof.c", "int add(int, int);\nint main(void) { return add(1, 2) != 3; }\n"),
            ("Makefile", "all:\n\t$(CC) -o t app.c proof.c && ./t\n"),
            (".gitignore", "t\n"),
        ],
        verify: &["make all"],
    };
    project.claimed(&["echo 'int main(void) { return 0; }' > proof.c"], "proof.c");
    project.verified(&["sed -i 's/a - b/a + b/' app.c"], "intact");
}
