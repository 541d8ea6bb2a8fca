//! Honest projects of many layouts: what is verified in the project is verified in a tree of its own, and the same lands.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::answers::{bash, developer};
use crate::trial::Trial;

/// Folders with this many files are large enough for a layer.
const MANY: &str = "for n in $(seq 250); do echo $n > \"$d/f$n\"; done";

/// How the project is made, below which folder it is if not at the top, what the developer runs, and what verifies it.
struct Layout {
    setup: &'static str,
    within: &'static str,
    change: &'static str,
    verify: &'static str,
}

impl Default for Layout {
    fn default() -> Self {
        Self { setup: "", within: ".", change: "true", verify: "true" }
    }
}

impl Layout {
    fn setup(self, setup: &'static str) -> Self {
        Self { setup, ..self }
    }

    fn within(self, within: &'static str) -> Self {
        Self { within, ..self }
    }

    fn change(self, change: &'static str) -> Self {
        Self { change, ..self }
    }

    fn verify(self, verify: &'static str) -> Self {
        Self { verify, ..self }
    }

    /// Runs it in place and isolated, and compares what is there afterwards.
    #[track_caller]
    fn check(&self) {
        let [in_place, isolated] = [false, true].map(|is_isolated| self.run(is_isolated));
        for (path, content) in &in_place {
            assert_eq!(isolated.get(path), Some(content), "{path}");
        }
        assert_eq!(in_place.len(), isolated.len());
    }

    #[track_caller]
    fn run(&self, is_isolated: bool) -> BTreeMap<String, String> {
        let change = format!("{} && echo done > done.txt", self.change);
        let trial = Trial::without_git(developer([bash(&change)]));
        let setup = format!("set -eu\nmany() {{ d=$1; mkdir -p \"$d\"; {MANY}; }}\n{}", self.setup);
        let mut shell = trial.program("bash");
        shell.env("GIT_AUTHOR_NAME", "a").env("GIT_AUTHOR_EMAIL", "a@b");
        shell.env("GIT_COMMITTER_NAME", "a").env("GIT_COMMITTER_EMAIL", "a@b");
        // The same commits have the same names.
        shell.env("GIT_AUTHOR_DATE", "@1700000000 +0000").env("GIT_COMMITTER_DATE", "@1700000000 +0000");
        let made = shell.args(["-c", &setup]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let verify = format!("test -f done.txt && {}", self.verify);
        let mut arguments = vec!["-C", self.within, "--output", "stream-json", "--verify", &verify, "do it"];
        if is_isolated {
            arguments.insert(2, "--isolated");
        }
        let (_, out, err) = trial.ask(&arguments);
        let end: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap();
        assert_eq!(end["status"], "verified", "isolated: {is_isolated}\n{out}{err}");
        if is_isolated {
            assert_eq!(end["landing"]["end"], "landed", "{end}");
            assert_eq!(end["landing"].get("left"), None, "{end}");
        }
        let mut found = BTreeMap::new();
        gather(&trial.project(), &trial.project(), &mut found);
        let place = trial.outside().to_string_lossy().into_owned();
        found.into_iter().map(|(path, content)| (path, content.replace(&place, "PLACE"))).collect()
    }
}

/// What is in a project but for what git and rawko keep, and what only the run's tree has: changes to ignored folders.
fn gather(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is = |name: &str| path.file_name().is_some_and(|own| own == name);
        if is(".git") || is(".rawko") || is("ignored") || is(".venv") || is("node_modules") {
            continue;
        }
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().escape_ascii().to_string();
        let kind = path.symlink_metadata().unwrap();
        if kind.is_dir() {
            gather(root, &path, found);
        } else if kind.is_symlink() {
            found.insert(name, format!("-> {}", path.read_link().unwrap().display()));
        } else if kind.is_file() {
            let content = std::fs::read(&path).unwrap().escape_ascii().to_string();
            found.insert(name, format!("{:o} {content}", kind.permissions().mode() & 0o777));
        }
    }
}

/// A commit of all files.
macro_rules! committed {
    ($setup:literal) => {
        concat!("git init -q; ", $setup, "\ngit add -A; git commit -qm first --allow-empty\n")
    };
}

macro_rules! layouts {
    ($($name:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        $(
            #[test]
            fn $name() {
                Layout::default()$(.$field($value))*.check();
            }
        )*
    };
}

layouts! {
    a_plain_repository {
        setup: committed!("mkdir src; echo a > src/a"),
        change: "echo b >> src/a && mkdir -p new/deep && echo c > new/deep/c",
        verify: "grep b src/a",
    }
    no_repository {
        setup: "mkdir src; echo a > src/a",
        change: "echo b >> src/a",
        verify: "grep b src/a",
    }
    a_repository_without_a_commit {
        setup: "git init -q; echo a > a; git add a; echo b > b",
        change: "cat b >> a",
        verify: "grep b a",
    }
    uncommitted_and_staged_changes {
        setup: concat!(committed!("echo a > a; echo b > b"), "echo staged > a; git add a; echo changed > b; rm -f c"),
        change: "cat a b > c && git diff --cached --name-only > staged",
        verify: "grep staged c && grep changed c && grep -x a staged",
    }
    a_folder_of_a_repository {
        setup: committed!("mkdir -p pkg/.rawko other; echo a > pkg/a; echo o > other/o; touch pkg/.rawko/x"),
        within: "pkg",
        change: "cat ../other/o > o && git rev-parse --show-toplevel > /dev/null",
        verify: "grep o o",
    }
    submodules {
        setup: concat!(
            "git init -q ../lib; echo l > ../lib/l; git -C ../lib add -A; git -C ../lib commit -qm lib\n",
            committed!("git -c protocol.file.allow=always submodule --quiet add \"$PWD/../lib\" lib"),
        ),
        change: "echo more >> lib/l && git -C lib status --short && git submodule status",
        verify: "grep more lib/l",
    }
    a_repository_inside {
        setup: concat!(
            committed!("echo a > a"),
            "git init -q inner; echo i > inner/i; git -C inner add -A; git -C inner commit -qm inner\n",
        ),
        change: "echo more >> inner/i && git -C inner status --short",
        verify: "git -C inner log --oneline && grep more inner/i",
    }
    a_linked_work_tree {
        setup: concat!(
            "git init -q ../main; echo a > ../main/a; git -C ../main add -A; git -C ../main commit -qm first\n",
            "git -C ../main worktree add -q \"$PWD/tree\"\n",
        ),
        within: "tree",
        change: "echo b >> a && git status --short && git stash list",
        verify: "git log --oneline && grep b a",
    }
    links {
        setup: committed!("mkdir real; echo a > real/a; ln -s real linked; ln -s ../outside dangling; ln -s real/a direct"),
        change: "echo b >> linked/a && ln -s real second",
        verify: "grep b direct && test -L second",
    }
    odd_names {
        setup: committed!("mkdir 'a b'; echo x > 'a b/c d'; echo y > $'new\\nline'; echo z > $'\\xff'; echo '-' > ./-n"),
        change: "echo more >> 'a b/c d' && cp $'\\xff' copied && cp $'new\\nline' 'ü'",
        verify: "grep more 'a b/c d' && grep y 'ü'",
    }
    a_virtual_environment {
        setup: committed!(
            "echo .venv/ > .gitignore; python3 -m venv --without-pip .venv; s=$(echo .venv/lib/python*/site-packages); \
             many $s/package; echo 'value = 7' > $s/package/__init__.py"
        ),
        change: "printf 'import package\\nassert package.value == 7\\n' > t.py",
        verify: ".venv/bin/python t.py",
    }
    packages_of_node {
        setup: committed!(
            "echo node_modules > .gitignore; many node_modules/p; echo 'module.exports = 7' > node_modules/p/index.js; \
             mkdir node_modules/.bin; ln -s ../p/index.js node_modules/.bin/p"
        ),
        change: "echo \"if (require('p') !== 7) process.exit(1)\" > t.js && ls node_modules/.bin",
        verify: "node t.js",
    }
    build_output_that_is_used_again {
        setup: committed!(
            "echo ignored > .gitignore; many ignored; printf 'all: ignored/f1\\n\\techo new >> ignored/f1\\n' > Makefile"
        ),
        change: "make && rm ignored/f2 && echo made > ignored/new",
        verify: "make && grep new ignored/f1 && test ! -e ignored/f2",
    }
    the_projects_path_in_a_file {
        setup: committed!("mkdir data; echo 7 > data/d; echo \"$PWD/data/d\" > where"),
        change: "cat \"$(cat where)\" > found && pwd > here",
        verify: "grep 7 found && test \"$(cat here)/data/d\" = \"$(cat where)\"",
    }
    an_ignored_file_that_is_needed {
        setup: committed!("echo settings.local > .gitignore; echo port=7 > settings.local"),
        change: "grep -o 7 settings.local > port",
        verify: "grep port=7 settings.local",
    }
    files_and_folders_that_are_closed {
        setup: committed!("mkdir d; echo a > d/a; echo r > r; chmod 444 r d/a; chmod 555 d"),
        change: "cat r d/a > both && chmod 755 d",
        verify: "grep r both && test ! -w /etc/passwd -o -r r",
    }
    a_shallow_clone {
        setup: concat!(
            "git init -q ../o; for n in 1 2 3; do echo $n > ../o/a; git -C ../o add -A; git -C ../o commit -qm $n; done\n",
            "git clone -q --depth 1 \"file://$PWD/../o\" c; mv c/.git .; mv c/a .; rmdir c\n",
        ),
        change: "git log --oneline > log && echo b >> a",
        verify: "test $(wc -l < log) = 1 && git status --short",
    }
    a_clone_that_borrows_objects {
        setup: concat!(
            "git init -q ../o; echo 1 > ../o/a; git -C ../o add -A; git -C ../o commit -qm 1\n",
            "git clone -q --shared ../o c; mv c/.git .; mv c/a .; rmdir c\n",
        ),
        change: "echo b >> a",
        verify: "grep b a",
    }
    a_sparse_checkout {
        setup: concat!(
            committed!("mkdir in out; echo a > in/a; echo b > out/b"),
            "git sparse-checkout set in\n",
        ),
        change: "echo more >> in/a && git status --short",
        verify: "grep more in/a && test ! -e out/b",
    }
    filters_and_line_endings {
        setup: concat!(
            "git init -q; git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'\n",
            committed!("printf '*.up filter=up\\n*.txt text eol=crlf\\n' > .gitattributes; echo abc > a.up; printf 'a\\r\\n' > t.txt"),
        ),
        change: "printf 'b\\r\\n' >> t.txt",
        verify: "test $(wc -c < t.txt) = 6 && grep abc a.up",
    }
    packed_repositories {
        setup: concat!(committed!("echo a > a"), "git tag one; git branch two; git gc -q; git pack-refs --all\n"),
        change: "git log --oneline two > log && git rev-parse one >> log",
        verify: "test $(wc -l < log) = 2",
    }
    pipes_and_sockets {
        setup: concat!(
            committed!("echo a > a"),
            "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s.sock\")'\n",
        ),
        change: "echo b >> a",
        verify: "grep b a",
    }
    a_tracked_file_in_an_ignored_folder {
        setup: "git init -q; echo ignored/ > .gitignore; many ignored; git add .gitignore; git add -f ignored/f1; git commit -qm first",
        change: "echo more >> ignored/f1",
        verify: "grep more ignored/f1",
    }
    hooks_and_commits {
        setup: concat!(
            committed!("echo a > a"),
            "printf '#!/bin/sh\\ntouch hook-ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\n",
        ),
        change: "echo b >> a && git -c user.name=a -c user.email=a@b commit -qam second --no-verify",
        verify: "test $(git rev-list --count HEAD) = 2",
    }
}

/// Where others write into an ignored folder, the layer shows it; the run's own changes stay its own.
#[test]
fn an_ignored_folder_is_the_projects_but_for_what_the_run_changes() {
    let trial = Trial::new(developer([bash("cat ignored/f1 && echo run > ignored/f1 && echo x > done.txt")]));
    for number in 0..250 {
        trial.write(&format!("ignored/f{number}"), "before\n");
    }
    let trial = trial.file(".gitignore", "ignored\n");
    let (_, out, err) =
        trial.ask(&["--isolated", "--output", "stream-json", "--verify", "test -f done.txt", "do it"]);
    let end: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap();
    assert_eq!(end["landing"]["written"], json!(["done.txt"]), "{out}{err}");
    assert_eq!(std::fs::read_to_string(trial.project().join("ignored/f1")).unwrap(), "before\n");
}
