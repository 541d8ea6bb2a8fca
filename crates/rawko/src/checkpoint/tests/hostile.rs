//! A repository that wants its own code run when rawko looks at it. Each trap is sprung by plain git first, so that
//! the test cannot pass because the trap does not work.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bench::{Bench, SESSION};
use crate::checkpoint::git::GitProgram;
use crate::checkpoint::place::{ObjectFormat, UserFolders, WorkTree};
use crate::checkpoint::scratch::Scratch;
use crate::checkpoint::{CheckpointError, Checkpoints, DiffDetail, DiffRange, Execute, Extent};

/// A repository with a program that leaves a mark when it is run.
struct Trap {
    bench: Bench,
    program: PathBuf,
    marker: PathBuf,
}

impl Trap {
    fn new() -> Self {
        let bench = Bench::repository();
        bench.write("other", "o\n").git(&["add", "."]);
        bench.git(&["commit", "--quiet", "--message", "second"]);
        let marker = bench.outside().join("sprung");
        let program = bench.script("trap", &format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", marker.display()));
        Self { bench, program, marker }
    }

    fn program(&self) -> &str {
        self.program.to_str().unwrap()
    }

    fn config(&self, name: &str, value: &str) {
        self.bench.git(&["config", name, value]);
    }

    /// Runs plain git, which may fail, and must spring the trap.
    #[track_caller]
    fn springs_in(&self, folder: &Path, args: &[&str]) {
        assert!(!self.marker.exists(), "the trap springs too early");
        let output = testkit::git_command(folder).args(args).output().unwrap();
        assert!(self.marker.exists(), "git {args:?} does not spring the trap: {output:?}");
        std::fs::remove_file(&self.marker).unwrap();
    }

    #[track_caller]
    fn springs(&self, args: &[&str]) {
        self.springs_in(&self.bench.top(), args);
    }

    /// Everything that rawko does with a tree leaves no mark.
    #[track_caller]
    fn is_walked_around(&self) {
        let _ = std::fs::remove_file(&self.marker);
        walk_around(&self.bench.checkpoints, &self.bench.project());
        let sprung = std::fs::read_to_string(&self.marker);
        assert!(sprung.is_err(), "sprung: {sprung:?}");
    }
}

#[track_caller]
fn walk_around(checkpoints: &Checkpoints, project: &Path) {
    let _ = std::fs::remove_file(project.join("new.trap"));
    std::fs::write(project.join("tracked"), "one\n").unwrap();
    checkpoints.take(1).unwrap();
    std::fs::write(project.join("tracked"), "changed\n").unwrap();
    std::fs::write(project.join("new.trap"), "new\n").unwrap();
    checkpoints.changes(DiffRange::Session, DiffDetail::Lines).unwrap();
    checkpoints.take(2).unwrap();
    checkpoints.take_end().unwrap();
    let changes = checkpoints.changes(DiffRange::Session, DiffDetail::Lines).unwrap();
    assert_eq!(
        changes.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        ["new.trap", "tracked"]
    );
    checkpoints.rewind("1", Execute::DryRun, Extent::Session).unwrap();
    let done = checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap();
    assert_eq!((done.restored, done.removed), (vec!["tracked".to_owned()], vec!["new.trap".to_owned()]));
    checkpoints.rewind("rewind-1", Execute::Really, Extent::Session).unwrap();
    checkpoints.list().unwrap();
    checkpoints.forget().unwrap();
}

#[test]
fn a_file_system_monitor() {
    let trap = Trap::new();
    trap.config("core.fsmonitor", trap.program());
    trap.springs(&["update-index", "--fsmonitor"]);
    trap.springs(&["status"]);
    trap.is_walked_around();
}

#[test]
fn a_monitor_from_an_included_file() {
    let trap = Trap::new();
    std::fs::write(
        trap.bench.top().join("included"),
        format!("[core]\nfsmonitor = {}\nhooksPath = /nowhere\n", trap.program()),
    )
    .unwrap();
    trap.config("include.path", "../included");
    trap.config("includeIf.gitdir/i:**.path", "../included");
    trap.springs(&["status"]);
    trap.is_walked_around();
}

#[test]
fn a_monitor_from_the_work_trees_own_configuration() {
    let trap = Trap::new();
    trap.config("extensions.worktreeConfig", "true");
    trap.bench.git(&["config", "--worktree", "core.fsmonitor", trap.program()]);
    trap.springs(&["status"]);
    trap.is_walked_around();
}

#[test]
fn filters() {
    let trap = Trap::new();
    for kind in ["clean", "smudge"] {
        trap.config(&format!("filter.trap.{kind}"), &format!("{} && cat", trap.program()));
    }
    trap.config("filter.trap.required", "true");
    trap.bench.write(".gitattributes", "* filter=trap\n[attr]evil filter=trap\ntracked evil\n");
    trap.springs(&["add", "."]);
    trap.bench.git(&["config", "filter.long.process", trap.program()]);
    trap.bench.write("sub/.gitattributes", "* filter=long\n").write("sub/x", "x");
    std::fs::write(trap.bench.top().join(".git/info/attributes"), "* filter=trap\n").unwrap();
    trap.springs(&["add", "sub/x"]);
    trap.config("core.attributesFile", trap.bench.path(".gitattributes").to_str().unwrap());
    trap.is_walked_around();
}

#[test]
fn hooks() {
    let trap = Trap::new();
    let names = ["reference-transaction", "post-index-change", "pre-auto-gc", "post-commit", "post-checkout"];
    for folder in [trap.bench.top().join(".git/hooks"), trap.bench.top().join("hooks")] {
        let _ = std::fs::create_dir(&folder);
        for name in names {
            std::fs::copy(&trap.program, folder.join(name)).unwrap();
        }
    }
    trap.springs(&["update-ref", "refs/x", "HEAD"]);
    trap.is_walked_around();
    trap.config("core.hooksPath", trap.bench.top().join("hooks").to_str().unwrap());
    trap.springs(&["update-ref", "refs/y", "HEAD"]);
    trap.is_walked_around();
}

#[test]
fn programs_that_show_differences() {
    let trap = Trap::new();
    trap.config("diff.external", trap.program());
    trap.bench.write("tracked", "changed\n");
    trap.springs(&["diff"]);
    trap.bench.git(&["config", "--unset", "diff.external"]);
    for name in ["diff.trap.textconv", "diff.trap.command"] {
        trap.config(name, trap.program());
        trap.bench.write(".gitattributes", "* diff=trap\n");
        trap.springs(&["diff"]);
    }
    trap.config("diff.external", trap.program());
    trap.bench.write("tracked", "one\n");
    trap.is_walked_around();
}

#[test]
fn signatures_and_aliases() {
    let trap = Trap::new();
    trap.config("commit.gpgSign", "true");
    trap.config("gpg.program", trap.program());
    trap.springs(&["commit", "--allow-empty", "--message", "signed"]);
    trap.config("tag.gpgSign", "true");
    trap.config("alias.sprung", &format!("!{}", trap.program()));
    trap.springs(&["sprung"]);
    for name in ["rev-parse", "ls-files", "update-index", "write-tree", "commit-tree", "update-ref", "config"]
    {
        trap.config(&format!("alias.{name}"), &format!("!{}", trap.program()));
    }
    trap.config("core.pager", trap.program());
    trap.config("core.editor", trap.program());
    trap.is_walked_around();
}

#[test]
fn a_submodule_with_a_monitor() {
    let trap = Trap::new();
    let source = Bench::repository();
    trap.bench.git(&["submodule", "--quiet", "add", source.top().to_str().unwrap(), "module"]);
    trap.bench.git(&["commit", "--quiet", "--message", "with a module"]);
    let module = trap.bench.path("module");
    trap.bench.git_in(&module, &["config", "core.fsmonitor", trap.program()]);
    let hooks = trap.bench.top().join(".git/modules/module/hooks");
    let _ = std::fs::create_dir(&hooks);
    std::fs::copy(&trap.program, hooks.join("reference-transaction")).unwrap();
    trap.springs(&["status"]);
    trap.springs(&["add", "--all"]);
    trap.config("submodule.recurse", "true");
    trap.config("diff.submodule", "diff");
    trap.is_walked_around();
}

#[test]
fn a_clone_inside_with_a_monitor() {
    let trap = Trap::new();
    let inner = trap.bench.path("inner");
    std::fs::create_dir(&inner).unwrap();
    trap.bench.git_in(&inner, &["init", "--quiet"]);
    trap.bench.git_in(&inner, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
    trap.bench.git(&["add", "inner"]);
    trap.bench.git_in(&inner, &["config", "core.fsmonitor", trap.program()]);
    trap.springs(&["status"]);
    trap.is_walked_around();
}

#[test]
fn an_embedded_bare_repository() {
    let trap = Trap::new();
    let bare = trap.bench.path("bare");
    trap.bench.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    std::fs::create_dir(bare.join("tree")).unwrap();
    let config = format!(
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = tree\nfsmonitor = {}\n",
        trap.program()
    );
    std::fs::write(bare.join("config"), config).unwrap();
    trap.springs_in(&bare, &["status"]);
    trap.is_walked_around();
    // The project is the trap itself.
    std::fs::write(bare.join("tracked"), "one\n").unwrap();
    let directory = bare.join(".rawko/sessions").join(SESSION);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("journal.jsonl"), "a journal\n").unwrap();
    walk_around(&Checkpoints::new(&bare, &directory, SESSION), &bare);
    assert!(!trap.marker.exists());
}

#[test]
fn a_work_tree_elsewhere() {
    let bench = Bench::repository();
    let elsewhere = bench.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("tracked"), "not the project's\n").unwrap();
    bench.git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
    assert_eq!(bench.git(&["status", "--porcelain"]), " M tracked\n", "git looks there");
    let id = bench.take(1);
    assert_eq!(bench.kept_file(&id, "tracked").1, b"one\n");
    bench.write("tracked", "two\n").end();
    bench.rewind("1");
    assert_eq!(bench.read("tracked"), "one\n");
    assert_eq!(std::fs::read(elsewhere.join("tracked")).unwrap(), b"not the project's\n");
}

#[test]
fn a_remote_that_would_be_asked_for_what_is_missing() {
    let trap = Trap::new();
    let missing = "0123456789012345678901234567890123456789";
    trap.config("core.repositoryFormatVersion", "1");
    trap.config("extensions.partialClone", "origin");
    trap.config("remote.origin.promisor", "true");
    trap.config("remote.origin.url", &format!("ext::{} %S", trap.program()));
    trap.config("protocol.ext.allow", "always");
    trap.springs(&["cat-file", "-p", missing]);
    trap.is_walked_around();
    let mut checkpoints = trap.bench.checkpoints.clone();
    checkpoints.recorded.insert(1, missing.to_owned());
    for result in [
        checkpoints.rewind("1", Execute::Really, Extent::Session).map(drop),
        checkpoints.changes(DiffRange::Session, DiffDetail::Lines).map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, CheckpointError::Gone { .. }), "{error}");
    }
    assert!(!trap.marker.exists());
}

#[test]
fn a_git_of_the_projects_own() {
    let trap = Trap::new();
    for name in ["bin/git", "node_modules/.bin/git"] {
        trap.bench.write(name, "");
        std::fs::copy(&trap.program, trap.bench.path(name)).unwrap();
    }
    let outside = trap.bench.outside().join("linked");
    std::os::unix::fs::symlink(trap.bench.path("bin"), &outside).unwrap();
    let real = std::env::var_os("PATH").unwrap();
    let folders = [
        PathBuf::from("bin"),
        PathBuf::from(""),
        PathBuf::from("."),
        trap.bench.path("bin"),
        trap.bench.path("node_modules/.bin"),
        outside,
    ];
    let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&real))).unwrap();
    let link = trap.bench.outside().join("project");
    std::os::unix::fs::symlink(trap.bench.project(), &link).unwrap();
    for project in [trap.bench.project(), link, trap.bench.path("node_modules")] {
        let mut checkpoints = trap.bench.checkpoints.clone().with_search_path(&path);
        checkpoints.project = project;
        assert!(!checkpoints.take(1).unwrap().starts_with("copy-"), "git is found all the same");
        assert!(!trap.marker.exists());
    }
    assert!(Command::new(trap.bench.path("bin/git")).status().unwrap().success() && trap.marker.exists());
}

#[test]
fn names_in_a_journal_are_no_options_and_no_expressions() {
    let bench = Bench::repository();
    bench.take(1);
    for id in ["--upload-pack=x", "HEAD", "main:tracked", "", "-", "copy-../../x", "copy-", "ABCDEF"] {
        let mut checkpoints = bench.checkpoints.clone();
        checkpoints.recorded.insert(1, id.to_owned());
        let error = checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap_err();
        assert!(matches!(error, CheckpointError::Gone { .. }), "{id}: {error}");
    }
}

#[test]
fn a_tree_with_names_that_lead_elsewhere() {
    let bench = Bench::repository();
    let blob = bench.git(&["hash-object", "-w", "tracked"]);
    let blob = blob.trim();
    let tree = |name: &str, kind: &str, id: &str| {
        let input = bench.outside().join("tree");
        let raw: Vec<u8> =
            (0..20).map(|at| u8::from_str_radix(&id[at * 2..at * 2 + 2], 16).unwrap()).collect();
        std::fs::write(&input, [format!("{kind} {name}\0").as_bytes(), &raw].concat()).unwrap();
        let args = ["hash-object", "-w", "-t", "tree", "--literally", input.to_str().unwrap()];
        bench.git(&args).trim().to_owned()
    };
    for path in
        [["..", "escaped"], [".git", "config"], [".GIT", "config"], [".", "x"], [".rawko", "sessions"]]
    {
        let inner = tree(path[1], "100644", blob);
        let outer = tree(path[0], "40000", &inner);
        let commit = bench.git(&["commit-tree", &outer, "-m", "hostile"]).trim().to_owned();
        let mut checkpoints = bench.checkpoints.clone();
        checkpoints.recorded.insert(1, commit);
        let before = (bench.tree(), bench.users_own());
        let done = checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap();
        assert!(!done.restored.iter().any(|name| name.contains(path[1])), "{done:?}");
        bench.rewind(&done.before.unwrap().name);
        assert_eq!((bench.tree(), bench.users_own()), before, "{path:?}");
        assert!(!bench.outside().join("work/escaped").exists() && !bench.outside().join("escaped").exists());
        assert!(bench.path(".rawko/sessions").is_dir());
    }
}

#[test]
fn a_fifo_for_an_ignore_file_makes_git_wait_but_not_for_ever() {
    let bench = Bench::repository();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, bench.path(".gitignore"), fifo, mode, 0).unwrap();
    let git =
        GitProgram::find(std::env::var_os("PATH").as_deref(), &bench.project(), &Default::default()).unwrap();
    let place = WorkTree::find(&bench.project(), &git, &UserFolders::default()).unwrap();
    let scratch = Scratch::new(ObjectFormat::Sha1, &bench.project()).unwrap();
    let error = scratch
        .ask(&git, "lists the files", &scratch.objects(), &[])
        .env("GIT_WORK_TREE", &place.project)
        .within(&place.project)
        .within_time(Duration::from_millis(200))
        .args(["ls-files", "--others", "--exclude-standard"])
        .answer()
        .unwrap_err();
    assert!(matches!(error, CheckpointError::TooSlow { .. }), "{error}");
}

#[test]
fn a_pipe_in_the_place_of_a_folder_is_not_waited_for() {
    let bench = Bench::repository();
    std::fs::create_dir(bench.path("folder")).unwrap();
    std::fs::write(bench.path("folder/file"), "one\n").unwrap();
    bench.checkpoints.take(1).unwrap();
    std::fs::remove_dir_all(bench.path("folder")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("folder"), mode).unwrap();
    let seen = bench.checkpoints.inspect(1).unwrap();
    bench.checkpoints.make_durable();
    assert_eq!(seen.files, ["folder/file"]);
}
