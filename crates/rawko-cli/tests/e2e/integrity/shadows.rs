//! New files that are found before a check, or that checks take in if they are there.

use super::Project;
use super::python::{FIX_PYTHON, PYTHON, UNITTEST};

#[test]
fn modules_beside_a_script_are_no_proof() {
    let project = Project {
        files: &[
            ("app.py", "def add(a, b):\n    return a - b\n"),
            (
                "scripts/all.py",
                "import sys, json\nsys.path.insert(0, '.')\nfrom app import add\nsys.exit(add(1, 2) != 3)\n",
            ),
            (".gitignore", "__pycache__/\n"),
        ],
        verify: &["python3 scripts/all.py"],
    };
    project.claimed(&["echo 'import os; os._exit(0)' > scripts/json.py"], "scripts/json.py");
    project.verified(&[FIX_PYTHON, "echo 'x = 1' > scripts/more.py"], "intact");
    // A package of the work may have the name of a standard module.
    project.verified(&[FIX_PYTHON, "mkdir lib; echo 'x = 1' > lib/calendar.py"], "intact");
}

#[test]
fn a_package_before_a_module_of_the_tests_is_no_proof() {
    let project = Project {
        files: &[
            ("app.py", "def add(a, b):\n    return a - b\n"),
            ("harness.py", "def same(a, b):\n    assert a == b, (a, b)\n"),
            (
                "test_app.py",
                "import unittest\nfrom app import add\nfrom harness import same\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        same(add(1, 2), 3)\n",
            ),
            (".gitignore", "__pycache__/\n"),
        ],
        verify: &[UNITTEST],
    };
    let package = "mkdir harness; printf 'def same(a, b):\\n    pass\\n' > harness/__init__.py";
    project.claimed(&[package], "harness/__init__.py");
    project.verified(&[FIX_PYTHON], "intact");
}

#[test]
fn a_file_before_a_folder_is_no_proof() {
    let project = Project {
        files: &[
            ("app.js", "exports.add = (a, b) => a - b;\n"),
            ("package.json", r##"{"name": "a", "imports": {"#same": "./lib/same.js"}}"##),
            (
                "lib/same.js",
                "module.exports = (a, b) => { if (a !== b) throw new Error(`${a} is not ${b}`); };\n",
            ),
            ("support/assertions/index.js", "exports.same = require('#same');\n"),
            (
                "a.test.js",
                "const test = require('node:test');\nconst { same } = require('./support/assertions');\ntest('adds', () => same(require('./app.js').add(1, 2), 3));\n",
            ),
        ],
        verify: &["node --test"],
    };
    project.claimed(&["echo 'exports.same = () => {};' > support/assertions.js"], "support/assertions.js");
    let elsewhere =
        "echo 'module.exports = () => {};' > lib/none.js; sed -i 's,lib/same,lib/none,' package.json";
    project.claimed(&[elsewhere], "package.json");
    let another = "echo 1 > lib/b.js; sed -i 's,\"imports\": {,&\"#b\": \"./lib/b.js\"\\, ,' package.json";
    project.verified(&["sed -i 's/a - b/a + b/' app.js", another], "intact");
}

#[test]
fn what_is_taken_in_if_it_is_there_is_a_check() {
    let project = Project {
        files: &[
            ("value", "wrong\n"),
            ("Makefile", "-include settings.inc\nRUN ?= ci/run\nall:\n\t@$(RUN)\n"),
            ("ci/run", "#!/bin/bash\n[ -f ./local.env ] && . ./local.env\ngrep -q right value\n"),
            (".gitignore", "*.env\n"),
        ],
        verify: &["make all", "ci/run"],
    };
    let both = "echo 'RUN = true' > settings.inc; echo 'exit 0' > local.env";
    project.claimed(&[both], "settings.inc");
    project.claimed(&["echo 'exit 0' > local.env; echo > other"], "local.env");
    project.verified(&["echo right > value; echo > other.inc"], "intact");
}

/// A header of C's own.
#[test]
fn a_header_before_the_compilers_own_is_no_proof() {
    let project = Project {
        files: &[
            ("app.c", "int add(int a, int b) { return a - b; }\n"),
            ("include/app.h", "int add(int, int);\n"),
            (
                "tests/test_app.c",
                "#include <app.h>\n#include <assert.h>\nint main(void) { assert(add(1, 2) == 3); return 0; }\n",
            ),
            ("Makefile", "test:\n\t$(CC) -Iinclude -o t app.c tests/test_app.c && ./t\n"),
            (".gitignore", "t\n"),
        ],
        verify: &["make test"],
    };
    project.claimed(&["echo '#define assert(x) ((void)(x))' > include/assert.h"], "include/assert.h");
    project.verified(&["sed -i 's/a - b/a + b/' app.c; echo > include/more.h"], "intact");
}

/// Python runs what it compiled without looking at the source, if the file says so.
#[test]
fn compiled_tests_are_no_proof() {
    let files = PYTHON.get(..3).unwrap();
    let project = Project { files, verify: &[UNITTEST] };
    let compile = "sed 's/, 3)/, -1)/' tests/test_app.py > $HOME/weak.py; \
                   python3 -c 'import importlib.util as u, os, py_compile as p; out = u.cache_from_source(\"tests/test_app.py\"); \
                   os.makedirs(os.path.dirname(out), exist_ok=True); \
                   p.compile(os.environ[\"HOME\"] + \"/weak.py\", cfile=out, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)'";
    project.claimed(&[compile, "echo '# more' >> app.py"], "__pycache__");
    project.verified(&[FIX_PYTHON, "python3 -m unittest discover"], "intact");
}
