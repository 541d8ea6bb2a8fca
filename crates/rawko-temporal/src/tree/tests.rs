//! Trees of tasks, with real repositories and real git.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

thread_local! {
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Counts the questions to git of this thread.
pub(super) fn count() {
    ASKED.set(ASKED.get() + 1);
}

/// A remote repository, and the folders of workers.
struct Bench {
    folder: tempfile::TempDir,
    repository: Repository,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let remote = folder.path().canonicalize().unwrap().join("remote.git");
        let bench = Self { repository: remote.to_str().unwrap().parse().unwrap(), folder };
        bench.git(&["init", "--quiet", "--bare", "--initial-branch=main", remote.to_str().unwrap()]);
        bench.git(&["init", "--quiet", "--initial-branch=main", "seed"]);
        bench.seed(&[("a", "one\n"), ("sub/b", "two\n"), (".gitignore", "target/\n")], "Begin");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        self.git_in(self.folder.path(), args)
    }

    fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        testkit::git(folder, args).trim().to_owned()
    }

    /// Commits these files to the remote's main branch.
    fn seed(&self, files: &[(&str, &str)], message: &str) -> CommitId {
        let seed = self.path("seed");
        for (name, content) in files {
            let path = seed.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        self.git_in(&seed, &["add", "--all", "--force"]);
        self.git_in(&seed, &["commit", "--quiet", "--message", message]);
        self.git_in(&seed, &["push", "--quiet", self.repository.url(), "main"]);
        self.git_in(&seed, &["rev-parse", "HEAD"]).parse().unwrap()
    }

    fn remote(&self) -> PathBuf {
        self.path("remote.git")
    }

    fn place(&self, worker: &str) -> WorkPlace {
        WorkPlace::new(&self.path(worker)).unwrap()
    }

    fn base(&self) -> CommitId {
        resolve(&self.place("resolver"), &self.repository, None).unwrap()
    }

    fn open(&self, worker: &str, task: &str, head: &CommitId) -> TaskTree {
        TaskTree::open(&self.place(worker), task, &self.repository, head).unwrap()
    }

    /// The files of a commit on the remote.
    fn files(&self, commit: &CommitId) -> String {
        self.git_in(&self.remote(), &["ls-tree", "-r", "--name-only", commit.as_str()]).replace('\n', " ")
    }
}

fn made_by(task: &str, effect: u64, attempt: u32) -> Option<MadeBy> {
    Some(MadeBy { task: task.to_owned(), effect, attempt })
}

fn content(tree: &TaskTree, name: &str) -> String {
    fs::read_to_string(tree.path().join(name)).unwrap()
}

#[test]
fn a_task_goes_from_its_base_to_a_branch_on_the_remote() {
    let bench = Bench::new();
    let base = bench.base();
    let tree = bench.open("w1", "fix", &base);
    assert_eq!((content(&tree, "a"), content(&tree, "sub/b")), ("one\n".into(), "two\n".into()));
    assert_eq!(tree.remote_head().unwrap(), None);
    assert_eq!(tree.commit(1, 1, "Nothing").unwrap(), None);

    fs::write(tree.path().join("a"), "changed\n").unwrap();
    fs::write(tree.path().join("sub/new file"), "new\n").unwrap();
    fs::remove_file(tree.path().join("sub/b")).unwrap();
    let commit = tree.commit(3, 2, "Fix the parser\n\nIt was wrong.").unwrap().unwrap();
    assert_eq!(tree.head(), commit);
    assert_eq!(tree.commit(4, 1, "Nothing more").unwrap(), None);
    assert_eq!(tree.push(&commit, None, &[]).unwrap(), PushOutcome::Pushed);

    let head = tree.remote_head().unwrap().unwrap();
    assert_eq!((&head.commit, head.made_by), (&commit, made_by("fix", 3, 2)));
    assert_eq!(bench.git_in(&bench.remote(), &["rev-parse", "rawko/fix"]), commit.as_str());
    assert_eq!(bench.files(&commit), ".gitignore a sub/new file");
    let show = ["show", "--no-patch", "--format=%an %ae %cn|%B", commit.as_str()];
    let shown = bench.git_in(&bench.remote(), &show);
    let expected = "rawko rawko@localhost rawko|Fix the parser\n\nIt was wrong.\n\n\
                    Rawko-Task: fix\nRawko-Effect: 3\nRawko-Attempt: 2";
    assert_eq!(shown, expected);
    let trailers = ["log", "-1", "--format=%(trailers:key=Rawko-Effect,valueonly)", commit.as_str()];
    assert_eq!(bench.git_in(&bench.remote(), &trailers), "3", "git itself reads the trailers");
}

#[test]
fn a_tree_that_is_there_and_clean_costs_two_processes() {
    let bench = Bench::new();
    let base = bench.base();
    drop(bench.open("w1", "fix", &base));
    ASKED.set(0);
    let (mut best, rounds) = (Duration::MAX, 10);
    for _ in 0..rounds {
        let started = Instant::now();
        drop(bench.open("w1", "fix", &base));
        best = best.min(started.elapsed());
    }
    assert_eq!(ASKED.get(), 2 * rounds);
    println!("a warm open: {best:?}");
    // And without the remote, and with its own cache left in place.
    fs::rename(bench.remote(), bench.path("away")).unwrap();
    let tree = bench.open("w1", "fix", &base);
    fs::create_dir(tree.path().join("target")).unwrap();
    fs::write(tree.path().join("target/cache"), "kept").unwrap();
    fs::write(tree.path().join("a"), "changed").unwrap();
    fs::write(tree.path().join("rest"), "gone").unwrap();
    fs::create_dir_all(tree.path().join(".rawko/sessions/1")).unwrap();
    fs::write(tree.path().join(".rawko/sessions/1/journal"), "kept").unwrap();
    drop(tree);
    let tree = bench.open("w1", "fix", &base);
    assert_eq!((content(&tree, "a"), content(&tree, "target/cache")), ("one\n".into(), "kept".into()));
    assert_eq!(content(&tree, ".rawko/sessions/1/journal"), "kept");
    assert!(!tree.path().join("rest").exists());
}

#[test]
fn another_worker_goes_on_where_the_task_is() {
    let bench = Bench::new();
    let base = bench.base();
    // It has been at the base before.
    drop(bench.open("w2", "fix", &base));
    let first = bench.open("w1", "fix", &base);
    fs::write(first.path().join("a"), "first\n").unwrap();
    let one = first.commit(1, 1, "One").unwrap().unwrap();
    assert_eq!(first.push(&one, None, &[]).unwrap(), PushOutcome::Pushed);
    for worker in ["w2", "w3"] {
        let tree = bench.open(worker, "fix", &one);
        assert_eq!(content(&tree, "a"), "first\n", "{worker}");
    }
    let second = bench.open("w2", "fix", &one);
    fs::write(second.path().join("a"), "second\n").unwrap();
    let two = second.commit(2, 1, "Two").unwrap().unwrap();
    assert_eq!(second.push(&two, Some(&one), &[]).unwrap(), PushOutcome::Pushed);
    assert_eq!(content(&bench.open("w3", "fix", &two), "a"), "second\n");
    // The other task's tree on the same worker is its own, and its base may be a newer one.
    let newer = bench.seed(&[("a", "newer\n")], "Go on");
    assert_eq!(content(&bench.open("w3", "other", &newer), "a"), "newer\n");
    // Back to an older one, as a rewind does.
    assert_eq!(content(&bench.open("w3", "fix", &one), "a"), "first\n");
}

#[test]
fn a_worker_that_was_given_up_cannot_overwrite() {
    let bench = Bench::new();
    let base = bench.base();
    let frozen = bench.open("w1", "fix", &base);
    fs::write(frozen.path().join("a"), "frozen\n").unwrap();
    let late = frozen.commit(1, 1, "Late").unwrap().unwrap();
    // On the same machine too: it gets a tree of its own.
    let other = bench.open("w1", "fix", &base);
    assert_ne!(other.path(), frozen.path());
    assert_eq!(content(&other, "a"), "one\n");
    fs::write(other.path().join("a"), "other\n").unwrap();
    let won = other.commit(1, 2, "In time").unwrap().unwrap();
    assert_eq!(other.push(&won, None, &[]).unwrap(), PushOutcome::Pushed);
    let moved = PushOutcome::Moved(Some(RemoteHead { commit: won.clone(), made_by: made_by("fix", 1, 2) }));
    assert_eq!(frozen.push(&late, None, &[]).unwrap(), moved);
    assert_eq!(frozen.push(&late, Some(&base), &[]).unwrap(), moved);
    assert_eq!(bench.git_in(&bench.remote(), &["rev-parse", "rawko/fix"]), won.as_str());
    // A push that arrived and was not answered is done again.
    assert_eq!(other.push(&won, None, &[]).unwrap(), PushOutcome::Pushed);
    // A branch that was removed has moved too.
    bench.git_in(&bench.remote(), &["update-ref", "-d", "refs/heads/rawko/fix"]);
    assert_eq!(frozen.push(&late, Some(&won), &[]).unwrap(), PushOutcome::Moved(None));
}

#[test]
fn of_workers_that_push_at_once_one_wins() {
    let bench = Bench::new();
    let base = bench.base();
    let mut at = None;
    for round in 1..=3_u64 {
        let head = at.clone().unwrap_or_else(|| base.clone());
        let outcomes: Vec<(CommitId, PushOutcome)> = std::thread::scope(|scope| {
            let (bench, head, at) = (&bench, &head, &at);
            let threads: Vec<_> = (1..=4_u32)
                .map(|attempt| {
                    scope.spawn(move || {
                        // Two machines of two workers each.
                        let tree = bench.open(["w1", "w2"][attempt as usize % 2], "fix", head);
                        fs::write(tree.path().join("a"), format!("{round} {attempt}\n")).unwrap();
                        let commit = tree.commit(round, attempt, "Race").unwrap().unwrap();
                        let outcome = tree.push(&commit, at.as_ref(), &[]).unwrap();
                        (commit, outcome)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut won = outcomes.iter().filter(|(_, outcome)| *outcome == PushOutcome::Pushed);
        let winner = won.next().expect("one wins").0.clone();
        assert_eq!(won.count(), 0, "{outcomes:?}");
        let lost = outcomes.iter().filter(
            |(_, outcome)| matches!(outcome, PushOutcome::Moved(Some(head)) if head.commit == winner),
        );
        assert_eq!(lost.count(), 3, "{outcomes:?}");
        at = Some(winner);
    }
    let count = bench.git_in(&bench.remote(), &["rev-list", "--count", "main..rawko/fix"]);
    assert_eq!(count, "3", "one commit an effect");
}

#[test]
fn a_commit_holds_the_work_and_nothing_else() {
    let bench = Bench::new();
    bench.seed(&[(".gitignore", "target/\n!.rawko/sessions\n"), ("dir/x", "x\n"), ("f", "f\n")], "More");
    let base = bench.base();
    let tree = bench.open("w1", "fix", &base);
    let at = |name: &str| tree.path().join(name);
    for (name, text) in [
        ("target/cache", "ignored"),
        (".rawko/sessions/1/journal", "session"),
        (".rawko/memory/note.md", "memory"),
        ("-x", "like an option"),
        ("ä\nb", "a name with a line break"),
        ("nested/file", "in another repository"),
    ] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
    }
    bench.git_in(&at("nested"), &["init", "--quiet"]);
    // A folder becomes a link, and a file a folder.
    fs::remove_dir_all(at("dir")).unwrap();
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("elsewhere/x"), "other\n").unwrap();
    symlink("elsewhere", at("dir")).unwrap();
    fs::remove_file(at("f")).unwrap();
    fs::create_dir(at("f")).unwrap();
    fs::write(at("f/g"), "g\n").unwrap();
    fs::set_permissions(at("a"), fs::Permissions::from_mode(0o755)).unwrap();
    // The agent has staged, committed and left for another branch.
    bench.git_in(tree.path(), &["checkout", "--quiet", "-b", "mine"]);
    bench.git_in(tree.path(), &["add", "--", ".rawko/sessions/1/journal", "-x"]);
    bench.git_in(tree.path(), &["commit", "--quiet", "--message", "My own"]);
    let commit = tree.commit(1, 1, "Work").unwrap().unwrap();
    assert_eq!(tree.push(&commit, None, &[]).unwrap(), PushOutcome::Pushed);
    let files = bench.files(&commit);
    let expected = "-x .gitignore .rawko/memory/note.md a dir elsewhere/x f/g sub/b \"\\303\\244\\nb\"";
    assert_eq!(files, expected);
    let parents = bench.git_in(&bench.remote(), &["rev-list", "--parents", "-1", commit.as_str()]);
    assert_eq!(parents, format!("{commit} {base}"), "one commit, on the base");
    let modes = bench.git_in(&bench.remote(), &["ls-tree", commit.as_str(), "a", "dir"]);
    assert!(modes.contains("100755 blob") && modes.contains("120000 blob"), "{modes}");
    assert_eq!(content(&tree, "nested/file"), "in another repository");
    // The files that were left out do not cause a commit the next time either.
    assert_eq!(tree.commit(2, 1, "Nothing").unwrap(), None);
}

#[test]
fn what_an_agent_hides_from_git_is_committed_all_the_same() {
    let bench = Bench::new();
    let base = bench.base();
    for mark in ["--assume-unchanged", "--skip-worktree"] {
        let tree = bench.open("w1", "fix", &base);
        fs::write(tree.path().join("a"), "hidden\n").unwrap();
        bench.git_in(tree.path(), &["update-index", mark, "a"]);
        assert_eq!(bench.git_in(tree.path(), &["status", "--porcelain"]), "", "{mark} hides nothing");
        // Left by an attempt that was given up, it does not count as clean either.
        drop(tree);
        let tree = bench.open("w1", "fix", &base);
        assert_eq!(content(&tree, "a"), "one\n", "{mark}");
        fs::write(tree.path().join("a"), "hidden\n").unwrap();
        bench.git_in(tree.path(), &["update-index", mark, "a"]);
        let commit = tree.commit(1, 1, "Hide it").unwrap().expect(mark);
        assert_eq!(bench.git_in(tree.path(), &["show", &format!("{commit}:a")]), "hidden", "{mark}");
    }
}

#[test]
fn nothing_of_a_hostile_repository_runs() {
    let bench = Bench::new();
    let ran = bench.path("ran");
    // Says who ran it.
    let touch = format!("echo \"$0 $*\" >> {}", ran.display());
    let program = bench.path("program");
    fs::write(&program, format!("#!/bin/sh\n{touch}\ncat\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let hooks = |folder: &Path| {
        fs::create_dir_all(folder.join("hooks")).unwrap();
        for hook in [
            "post-checkout",
            "pre-push",
            "reference-transaction",
            "post-index-change",
            "pre-receive",
            "update",
            "post-receive",
            "post-update",
            "fsmonitor-watchman",
            "proc-receive",
            "post-commit",
            "pre-commit",
            "push-to-checkout",
            "pre-auto-gc",
        ] {
            fs::copy(program, folder.join("hooks").join(hook)).unwrap();
        }
    };
    let settings = |config: &Path| {
        for (name, value) in [
            ("core.fsmonitor", program),
            ("core.sshCommand", program),
            ("core.pager", program),
            ("core.editor", program),
            ("core.alternateRefsCommand", program),
            ("filter.evil.clean", program),
            ("filter.evil.smudge", program),
            ("filter.evil.process", program),
            ("filter.evil.required", "true"),
            ("diff.external", program),
            ("diff.evil.textconv", program),
            ("merge.evil.driver", program),
            ("commit.gpgSign", "true"),
            ("gpg.program", program),
            ("credential.helper", program),
            ("uploadpack.packObjectsHook", program),
            ("remote.origin.uploadpack", program),
            ("remote.origin.receivepack", program),
            ("remote.origin.url", "ext::sh -c x"),
            ("receive.denyCurrentBranch", "updateInstead"),
        ] {
            bench.git(&["config", "--file", config.to_str().unwrap(), name, value]);
        }
    };
    let files = [
        (".gitattributes", "[attr]lfs filter=evil diff=evil merge=evil\n* filter=evil\n*.bin lfs\nx ident\n"),
        ("x.bin", "version https://git-lfs.github.com/spec/v1\n"),
        (".lfsconfig", "[lfs]\n\turl = ext::x\n"),
        (".gitmodules", "[submodule \"m\"]\n\tpath = m\n\turl = ext::x\n\tupdate = !touch ran\n"),
    ];
    let seed = bench.path("seed");
    symlink("/etc", seed.join("link")).unwrap();
    symlink(program, seed.join("git")).unwrap();
    bench.git_in(&seed, &["update-index", "--add", "--cacheinfo", &format!("160000,{},m", bench.base())]);
    bench.seed(&files, "Evil");
    hooks(&bench.remote());
    settings(&bench.remote().join("config"));
    let base = bench.base();
    let tree = bench.open("w1", "fix", &base);
    assert_eq!(content(&tree, "x.bin"), files[1].1);
    // And what a hostile agent leaves.
    let dot_git = tree.path().join(".git");
    let plant = || {
        hooks(&dot_git);
        settings(&dot_git.join("config"));
        fs::write(dot_git.join("info/attributes"), "* filter=evil\n").unwrap();
        fs::write(dot_git.join("commondir"), "/nowhere\n").unwrap();
        // A populated module with settings of its own.
        fs::create_dir_all(tree.path().join("m")).unwrap();
        bench.git_in(&tree.path().join("m"), &["init", "--quiet"]);
        settings(&tree.path().join("m/.git/config"));
        fs::write(tree.path().join("m/.gitattributes"), "* filter=evil\n").unwrap();
        fs::write(tree.path().join("m/file"), "x").unwrap();
        fs::write(tree.path().join("a"), "changed\n").unwrap();
        fs::write(tree.path().join("y.bin"), "new\n").unwrap();
    };
    plant();
    let commit = tree.commit(1, 1, "Evil").unwrap().unwrap();
    plant();
    assert_eq!(tree.push(&commit, None, &[]).unwrap(), PushOutcome::Pushed);
    plant();
    tree.remote_head().unwrap();
    tree.fetch_session_refs("one").unwrap();
    tree.session_refs("one").unwrap();
    plant();
    drop(tree);
    drop(bench.open("w1", "fix", &commit));
    let again = bench.open("w2", "fix", &commit);
    assert_eq!(content(&again, "y.bin"), "new\n");
    assert!(!again.path().join("m/file").exists());
    assert_eq!(fs::read_to_string(&ran).unwrap_or_default(), "", "a program of the repository ran");
    // The trap itself works: git without our care runs it.
    let mut careless = testkit::git_command(again.path());
    careless.args(["-c", &format!("core.fsmonitor={program}"), "status"]).output().unwrap();
    assert!(ran.exists());
}

#[test]
fn damage_is_mended_or_the_clone_made_anew() {
    let bench = Bench::new();
    let base = bench.base();
    let newer = bench.seed(&[("a", "newer\n")], "Go on");
    let tree = bench.open("w1", "fix", &base);
    fs::write(tree.path().join("a"), "work\n").unwrap();
    let work = tree.commit(1, 1, "Work").unwrap().unwrap();
    assert_eq!(tree.push(&work, None, &[]).unwrap(), PushOutcome::Pushed);
    let (folder, dot_git) = (tree.path().to_owned(), tree.path().join(".git"));
    drop(tree);
    let new = folder.with_file_name("fix~new");
    let mirror = fs::read_dir(bench.path("w1/mirrors")).unwrap().next().unwrap().unwrap().path();
    let damages: [(&str, &dyn Fn()); 13] = [
        ("a lock of the index", &|| fs::write(dot_git.join("index.lock"), "").unwrap()),
        ("a lock of the branch", &|| fs::write(dot_git.join("refs/heads/rawko/fix.lock"), "").unwrap()),
        ("a broken index", &|| fs::write(dot_git.join("index"), "no index").unwrap()),
        ("no index", &|| fs::remove_file(dot_git.join("index")).unwrap()),
        ("a broken branch", &|| fs::write(dot_git.join("refs/heads/rawko/fix"), "garbage").unwrap()),
        ("half a pack", &|| {
            fs::create_dir_all(dot_git.join("objects/pack")).unwrap();
            fs::write(dot_git.join("objects/pack/tmp_pack_x"), "half").unwrap();
        }),
        ("no objects of its own", &|| {
            for entry in fs::read_dir(dot_git.join("objects")).unwrap().flatten() {
                if entry.file_name() != "info" {
                    fs::remove_dir_all(entry.path()).unwrap();
                }
            }
        }),
        ("no HEAD", &|| fs::remove_file(dot_git.join("HEAD")).unwrap()),
        ("half a clone", &|| {
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir_all(new.join(".git/objects")).unwrap();
        }),
        ("a link in its place", &|| {
            fs::rename(&folder, bench.path("moved")).unwrap();
            symlink(bench.path("moved"), &folder).unwrap();
        }),
        ("a file in place of the clone's folder", &|| {
            fs::remove_dir_all(&dot_git).unwrap();
            fs::write(&dot_git, "gitdir: /nowhere\n").unwrap();
        }),
        ("no mirror", &|| fs::remove_dir_all(&mirror).unwrap()),
        ("a folder that may not be entered", &|| {
            fs::create_dir_all(folder.join("closed/in")).unwrap();
            fs::set_permissions(folder.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (what, damage) in damages {
        damage();
        for head in [&work, &newer, &work] {
            let tree = bench.open("w1", "fix", head);
            let expected = if head == &newer { "newer\n" } else { "work\n" };
            assert_eq!(content(&tree, "a"), expected, "{what}");
            assert_eq!(tree.commit(9, 1, "Nothing").unwrap(), None, "{what}");
        }
        assert!(!new.exists() && !dot_git.join("objects/pack/tmp_pack_x").exists(), "{what}");
        let locks = bench.git_in(&folder, &["status", "--porcelain"]);
        assert_eq!(locks, "", "{what}");
    }
}

/// What a worker does until it is killed: only run by the test below, in a process of its own.
#[test]
fn worker_that_is_killed() {
    let Some(folder) = std::env::var_os("RAWKO_TEST_KILLED") else { return };
    let folder = PathBuf::from(folder);
    let place = WorkPlace::new(&folder.join("w1")).unwrap();
    let repository: Repository = folder.join("remote.git").to_str().unwrap().parse().unwrap();
    let base = resolve(&place, &repository, None).unwrap();
    println!("ready");
    for round in 0.. {
        let tree = TaskTree::open(&place, "fix", &repository, &base).unwrap();
        fs::write(tree.path().join("a"), format!("{round}\n")).unwrap();
        tree.commit(round, 1, "Round").unwrap();
        drop(tree);
        forget(&place, "fix").unwrap();
        fs::remove_dir_all(folder.join("w1/mirrors")).unwrap();
        fs::create_dir(folder.join("w1/mirrors")).unwrap();
    }
}

#[test]
fn a_worker_may_be_killed_at_any_moment() {
    use std::io::{BufRead as _, BufReader};
    let bench = Bench::new();
    let base = bench.base();
    for round in 0..12_u64 {
        let mut worker = Command::new(std::env::current_exe().unwrap());
        worker.args(["--exact", "tree::tests::worker_that_is_killed", "--nocapture"]);
        worker.env("RAWKO_TEST_KILLED", bench.path("")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut worker = worker.spawn().unwrap();
        let lines = BufReader::new(worker.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "it has begun");
        // Wherever it is by then.
        std::thread::sleep(Duration::from_millis(round * 7 % 60));
        worker.kill().unwrap();
        worker.wait().unwrap();
        let tree = bench.open("w1", "fix", &base);
        assert_eq!(content(&tree, "a"), "one\n");
        fs::write(tree.path().join("a"), "after\n").unwrap();
        assert!(tree.commit(1, 2, "After").unwrap().is_some());
    }
}

#[test]
fn checkpoints_of_a_session_travel_with_the_branch() {
    let bench = Bench::new();
    let base = bench.base();
    let first = bench.open("w1", "fix", &base);
    let kept = bench.git_in(first.path(), &["commit-tree", "-m", "kept", "HEAD^{tree}"]);
    bench.git_in(first.path(), &["update-ref", "refs/rawko/20260101-1/1", &kept]);
    bench.git_in(first.path(), &["update-ref", "refs/rawko/other/1", &kept]);
    let name = "refs/rawko/20260101-1/1".to_owned();
    let refs = first.session_refs("20260101-1").unwrap();
    assert_eq!(refs, [PushRef { local: name.clone(), remote: name.clone() }]);
    // Nothing changed in the files: only the checkpoint goes, with the branch held where it is.
    assert_eq!(first.push(&base, None, &refs).unwrap(), PushOutcome::Pushed);
    assert_eq!(first.push(&base, Some(&base), &refs).unwrap(), PushOutcome::Pushed);
    let second = bench.open("w2", "fix", &base);
    assert_eq!(second.session_refs("20260101-1").unwrap(), []);
    second.fetch_session_refs("20260101-1").unwrap();
    assert_eq!(second.session_refs("20260101-1").unwrap(), refs);
    assert_eq!(bench.git_in(second.path(), &["rev-parse", &name]), kept);
    // All or nothing: with the branch elsewhere, no checkpoint is overwritten.
    fs::write(second.path().join("a"), "second\n").unwrap();
    let commit = second.commit(1, 1, "Second").unwrap().unwrap();
    assert_eq!(second.push(&commit, Some(&base), &[]).unwrap(), PushOutcome::Pushed);
    let other = bench.git_in(first.path(), &["commit-tree", "-m", "late", "HEAD^{tree}"]);
    bench.git_in(first.path(), &["update-ref", &name, &other]);
    let outcome = first.push(&base, Some(&base), &refs).unwrap();
    assert!(matches!(outcome, PushOutcome::Moved(Some(head)) if head.commit == commit));
    assert_eq!(bench.git_in(&bench.remote(), &["rev-parse", &name]), kept);
    // A task must not write refs of others.
    let refs = [PushRef { local: name, remote: "refs/heads/main".to_owned() }];
    assert!(matches!(first.push(&base, Some(&base), &refs), Err(TreeError::Name { .. })));
    assert!(first.fetch_session_refs("../x").is_err() && first.session_refs("*").is_err());
}

#[test]
fn revisions_are_resolved() {
    let bench = Bench::new();
    let one = bench.base();
    bench.git_in(&bench.path("seed"), &["tag", "--annotate", "v1", "--message", "v1"]);
    bench.git_in(&bench.path("seed"), &["tag", "plain"]);
    bench.git_in(&bench.path("seed"), &["push", "--quiet", "--tags", bench.repository.url()]);
    let two = bench.seed(&[("a", "two\n")], "Two");
    bench.git_in(&bench.remote(), &["update-ref", "refs/heads/rawko/earlier", one.as_str()]);
    let place = bench.place("w1");
    let find = |revision: &str| resolve(&place, &bench.repository, Some(revision));
    for (revision, expected) in [
        ("main", &two),
        ("refs/heads/main", &two),
        ("v1", &one),
        ("refs/tags/v1", &one),
        ("plain", &one),
        ("rawko/earlier", &one),
    ] {
        assert_eq!(&find(revision).unwrap(), expected, "{revision}");
    }
    assert_eq!(fs::read_dir(bench.path("w1/mirrors")).unwrap().count(), 0, "names need no mirror");
    for revision in [one.as_str(), &one.as_str()[..8], two.as_str()] {
        assert_eq!(find(revision).unwrap().as_str()[..8], revision[..8]);
    }
    // Newer than the mirror, and on the branch of a task alone.
    let three = bench.seed(&[("a", "three\n")], "Three");
    assert_eq!(find(three.as_str()).unwrap(), three);
    let tree = bench.open("w2", "other", &three);
    fs::write(tree.path().join("a"), "four\n").unwrap();
    let four = tree.commit(1, 1, "Four").unwrap().unwrap();
    tree.push(&four, None, &[]).unwrap();
    assert_eq!(find(four.as_str()).unwrap(), four);
    assert_eq!(content(&bench.open("w1", "third", &four), "a"), "four\n");

    for revision in ["nothing", &"1".repeat(40), "1111111", "v9"] {
        let error = find(revision).unwrap_err();
        assert!(matches!(error, TreeError::Missing { .. }), "{revision}: {error}");
    }
    for revision in ["--upload-pack=x", "main:a", "main^", ""] {
        assert!(matches!(find(revision).unwrap_err(), TreeError::Name { .. }), "{revision}");
    }
    let nowhere: Repository = bench.path("nowhere").to_str().unwrap().parse().unwrap();
    let error = resolve(&place, &nowhere, None).unwrap_err();
    assert!(
        matches!(error, TreeError::Remote { .. }) && error.to_string().contains("git ls-remote"),
        "{error}"
    );
    let empty = bench.path("empty.git");
    bench.git(&["init", "--quiet", "--bare", empty.to_str().unwrap()]);
    let error = resolve(&place, &empty.to_str().unwrap().parse().unwrap(), None).unwrap_err();
    assert!(error.to_string().contains("no commit at its HEAD"), "{error}");
}

#[test]
fn a_commit_that_is_nowhere_is_missing() {
    let bench = Bench::new();
    let nowhere: CommitId = "1".repeat(40).parse().unwrap();
    let error = TaskTree::open(&bench.place("w1"), "fix", &bench.repository, &nowhere).unwrap_err();
    assert!(matches!(error, TreeError::Missing { .. }), "{error}");
    assert!(error.to_string().contains(nowhere.as_str()));
}

#[test]
fn repositories_of_the_longer_hash_work_too() {
    let bench = Bench::new();
    let remote = bench.path("long.git");
    let remote = remote.to_str().unwrap();
    bench.git(&["init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main", remote]);
    bench.git(&["init", "--quiet", "--object-format=sha256", "--initial-branch=main", "long"]);
    bench.git_in(&bench.path("long"), &["commit", "--quiet", "--allow-empty", "--message", "Begin"]);
    bench.git_in(&bench.path("long"), &["push", "--quiet", remote, "main"]);
    let (place, repository) = (bench.place("w1"), remote.parse().unwrap());
    let base = resolve(&place, &repository, Some("main")).unwrap();
    assert_eq!(base.as_str().len(), 64);
    let tree = TaskTree::open(&place, "fix", &repository, &base).unwrap();
    fs::write(tree.path().join("a"), "x").unwrap();
    let commit = tree.commit(1, 1, "Long").unwrap().unwrap();
    assert_eq!(tree.push(&commit, None, &[]).unwrap(), PushOutcome::Pushed);
    assert_eq!(tree.remote_head().unwrap().unwrap().commit, commit);
}

#[test]
fn a_task_that_has_ended_leaves_nothing() {
    let bench = Bench::new();
    let base = bench.base();
    let place = bench.place("w1");
    let tree = bench.open("w1", "v1.2", &base);
    drop(bench.open("w1", "v1", &base));
    // Some caches are read-only.
    fs::create_dir_all(tree.path().join("target/cache")).unwrap();
    fs::write(tree.path().join("target/cache/x"), "x").unwrap();
    fs::set_permissions(tree.path().join("target/cache"), fs::Permissions::from_mode(0o500)).unwrap();
    assert!(matches!(forget(&place, "v1.2"), Err(TreeError::Busy { .. })));
    assert!(tree.path().exists());
    drop(tree);
    forget(&place, "v1.2").unwrap();
    forget(&place, "never-there").unwrap();
    assert!(forget(&place, "../w1").is_err());
    let names = |folder: &str| {
        let entries = fs::read_dir(bench.path("w1").join(folder)).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("trees"), ["v1"]);
    assert!(!names("locks").iter().any(|name| name.contains("v1.2")));
    // A mirror stays as long as a tree borrows from it, or it is new.
    assert_eq!(forget_unused_mirrors(&place, Duration::ZERO).unwrap(), 0);
    forget(&place, "v1").unwrap();
    assert_eq!(forget_unused_mirrors(&place, Duration::from_secs(3600)).unwrap(), 0);
    assert_eq!(forget_unused_mirrors(&place, Duration::ZERO).unwrap(), 1);
    assert_eq!((names("mirrors").len(), names("locks").len()), (0, 0));
    drop(bench.open("w1", "v1", &base));
}

#[test]
fn the_packs_of_a_mirror_are_put_together_and_no_tree_loses_an_object() {
    let bench = Bench::new();
    let base = bench.base();
    let tree = bench.open("w1", "fix", &base);
    let path = tree.path().to_owned();
    drop(tree);
    // History that the mirror then has no branch for any more.
    bench.git_in(&bench.path("seed"), &["checkout", "--quiet", "--orphan", "fresh"]);
    bench.git_in(&bench.path("seed"), &["commit", "--quiet", "--message", "Fresh"]);
    bench.git_in(&bench.path("seed"), &["push", "--quiet", "--force", bench.repository.url(), "HEAD:main"]);
    bench.git_in(&bench.path("seed"), &["branch", "--quiet", "--move", "--force", "fresh", "main"]);
    let place = bench.place("w1");
    for round in 0..45 {
        let commit = bench.seed(&[("a", &format!("{round}\n"))], "Round");
        resolve(&place, &bench.repository, Some(commit.as_str())).unwrap();
    }
    let mirror = fs::read_dir(bench.path("w1/mirrors")).unwrap().next().unwrap().unwrap().path();
    let packs = fs::read_dir(mirror.join("objects/pack")).unwrap().flatten();
    let packs = packs.filter(|entry| entry.path().extension().is_some_and(|end| end == "pack")).count();
    assert!(packs < 20, "{packs}");
    bench.git_in(&path, &["fsck", "--full", "--strict"]);
    assert_eq!(content(&bench.open("w1", "fix", &base), "a"), "one\n");
}
