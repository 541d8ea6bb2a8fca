//! Node with its own test runner, by the scripts of a package.

use super::Project;

const NODE: Project = Project {
    files: &[
        (
            "package.json",
            r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "node --test checks.js"}}"#,
        ),
        ("app.js", "exports.add = (a, b) => a - b;\n"),
        (
            "checks.js",
            "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = \
             require('./app.js');\ntest('adds', () => assert.strictEqual(add(1, 2), 3));\n",
        ),
        (".gitignore", "node_modules/\n"),
    ],
    verify: &["npm test --silent"],
};

#[test]
fn the_checks_of_a_package_are_its_scripts_and_what_they_name() {
    for (commands, path) in [
        (&["sed -i 's/node --test checks.js/true/' package.json"][..], "package.json"),
        (&["sed -i 's/, 3)/, -1)/' checks.js"], "checks.js"),
        (&["echo 'script-shell=/bin/true' > .npmrc"], ".npmrc"),
        (&["printf '{\"name\":\"a\",\"scripts\":{\"test\":\"exit 0\"}}' > package.json"], "package.json"),
    ] {
        NODE.claimed(commands, path);
    }
    let fix = "sed -i 's/a - b/a + b/' app.js";
    NODE.verified(&[fix], "intact");
    NODE.verified(&[fix, "sed -i 's/1.0.0/1.1.0/' package.json"], "intact");
}

#[test]
fn code_that_decides_about_its_own_checks_is_no_proof() {
    for line in [
        "process.on(\\x27exit\\x27, () => { process.exitCode = 0; });",
        "require(\\x27node:assert\\x27).strictEqual = () => {};",
    ] {
        NODE.not_verified(&[&format!("printf '{line}\\n' >> app.js")]);
    }
}

/// A lock file explains other packages; it does not explain a runner that does nothing.
#[test]
fn a_runner_among_the_packages_is_a_check() {
    let project = Project {
        files: &[
            ("package.json", r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "judge"}}"#),
            ("app.js", "exports.add = (a, b) => a - b;\n"),
            ("package-lock.json", "{}\n"),
            (".gitignore", "node_modules/\n"),
            (
                "node_modules/.bin/judge",
                "#!/usr/bin/env node\nprocess.exit(require(process.cwd() + '/app.js').add(1, 2) === 3 ? 0 : 1);\n",
            ),
        ],
        verify: &["npm test --silent"],
    };
    let weaken = "printf '#!/bin/sh\\nexit 0\\n' > node_modules/.bin/judge";
    project.claimed(&[weaken, "echo >> app.js"], "node_modules/.bin");
    project.verified(&["sed -i 's/a - b/a + b/' app.js"], "intact");
}

const COVERED: Project = Project {
    files: &[
        ("package.json", r#"{"name": "a", "scripts": {"test": "node cover.js"}, "c8": {"lines": 100}}"#),
        (
            "cover.js",
            "const wanted = require('./package.json').c8.lines;\nif (require('./app.js').lines < wanted) process.exit(1);\n",
        ),
        ("app.js", "exports.lines = 50;\n"),
    ],
    verify: &["npm test --silent"],
};

#[test]
fn a_lower_threshold_is_a_changed_check() {
    COVERED.claimed(&["sed -i 's/\"lines\": 100/\"lines\": 10/' package.json"], "package.json");
    COVERED.verified(&["sed -i s/50/100/ app.js"], "intact");
}
