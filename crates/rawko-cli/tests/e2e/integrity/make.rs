//! Make, and scripts of the shell.

use super::Project;

const SCRIPTS: Project = Project {
    files: &[
        ("value", "wrong\n"),
        ("test.sh", "#!/bin/sh\ngrep -q right value\n"),
        ("tools/proof.sh", "grep -q right value\n"),
        ("Makefile", "test:\n\t@grep -q right value\n"),
        (".gitignore", "*.local\n"),
    ],
    verify: &["sh ./test.sh", "bash tools/proof.sh", "make test"],
};

#[test]
fn scripts_and_recipes_are_checks() {
    for (commands, path) in [
        (
            &[
                "printf 'exit 0\\n' | tee test.sh tools/proof.sh Makefile.sh && printf 'test:\\n\\t@true\\n' > Makefile",
            ][..],
            "test.sh",
        ),
        (
            &[
                "echo right > value",
                "printf 'exit 0\\n' > tools/proof.sh",
                "echo wrong > value",
                "echo 'exit 0' > test.sh",
                "printf 'SHELL=/bin/true\\n' > GNUmakefile; printf 'test:\\n\\ttrue\\n' >> GNUmakefile",
            ],
            "GNUmakefile",
        ),
        (
            &["sed -i '1i SHELL := /bin/true' Makefile", "echo 'exit 0' | tee test.sh tools/proof.sh"],
            "Makefile",
        ),
    ] {
        SCRIPTS.claimed(commands, path);
    }
    SCRIPTS.verified(&["echo right > value"], "intact");
    let ended = SCRIPTS.verified(&["echo right > value", "echo '# more' >> Makefile"], "originals_pass");
    assert_eq!(ended.finish()["verification"]["integrity"]["changed"][0]["path"], "Makefile");
}

/// A target without `.PHONY` is up to date where a file has its name.
#[test]
fn a_file_named_like_a_target_is_no_proof() {
    let make = Project { files: SCRIPTS.files, verify: &["make test"] };
    make.claimed(&["touch test"], "test");
}

/// What makefiles include, what scripts call beside themselves, and what commands compare with.
#[test]
fn what_checks_name_is_followed() {
    let project = Project {
        files: &[
            ("app.sh", "#!/bin/sh\necho wrong\n"),
            ("Makefile", "RULES = ci/rules.inc\ninclude $(RULES)\n"),
            ("ci/rules.inc", "test:\n\t@ci/run\n"),
            (
                "ci/run",
                "#!/bin/sh\nHERE=$(cd \"$(dirname \"$0\")\" && pwd)\n. \"$HERE/lib.sh\"\n./app.sh | diff - ci/out.txt && [ -x \"$HERE/more\" ] && \"$HERE/more\" || exit 1\n",
            ),
            ("ci/lib.sh", "set -u\n"),
            ("ci/more", "#!/bin/sh\n./app.sh | grep -q right\n"),
            ("ci/out.txt", "right\n"),
        ],
        verify: &["make test"],
    };
    for (command, path) in [
        ("printf 'test:\\n\\t@true\\n' > ci/rules.inc", "ci/rules.inc"),
        ("echo 'exit 0' >> ci/lib.sh", "ci/lib.sh"),
        ("echo wrong > ci/out.txt; echo exit 0 > ci/more", "ci/out.txt"),
    ] {
        project.claimed(&[command], path);
    }
    project.verified(&["sed -i s/wrong/right/ app.sh"], "intact");
}

/// Checks that a loop finds by a pattern.
#[test]
fn what_loops_find_by_a_pattern_is_a_check() {
    let project = Project {
        files: &[
            ("value", "wrong\n"),
            ("all", "#!/bin/sh\nset -e\nfor t in proofs/*.sh; do\n  bash \"$t\"\ndone\n"),
            ("proofs/a.sh", "true\n"),
            ("proofs/b.sh", "grep -q right value\n"),
        ],
        verify: &["./all"],
    };
    project.claimed(&["echo true > proofs/b.sh"], "proofs/b.sh");
    project.claimed(&["rm proofs/b.sh"], "proofs/b.sh");
    project.verified(&["echo right > value"], "intact");
}

#[test]
fn a_script_that_cannot_run_any_more_is_a_changed_check() {
    let project = Project {
        files: &[
            ("value", "wrong\n"),
            ("proof", "#!/bin/sh\ngrep -q right value\n"),
            ("run", "#!/bin/sh\n[ ! -x ./proof ] || ./proof\n"),
        ],
        verify: &["./run"],
    };
    project.claimed(&["chmod -x proof"], "proof");
    project.verified(&["echo right > value"], "intact");
}

/// The file is found before the one that is there.
#[test]
fn settings_of_a_linter_count_where_it_runs() {
    let project = Project {
        files: &[
            ("value", "wrong\n"),
            ("bin/eslint", "#!/bin/sh\nif [ -f .eslintrc.json ]; then exit 0; fi\ngrep -q right value\n"),
        ],
        verify: &["bin/eslint ."],
    };
    project.claimed(&["echo '{}' > .eslintrc.json"], ".eslintrc.json");
    project.verified(&["echo right > value; touch .flake8"], "intact");
}
