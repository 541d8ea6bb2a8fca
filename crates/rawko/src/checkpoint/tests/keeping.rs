//! What is kept, how, and where.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::bench::{Bench, SESSION};
use crate::checkpoint::{CheckpointError, Checkpoints};

#[test]
fn what_is_not_ignored_is_kept_and_the_users_own_is_not_touched() {
    let bench = Bench::repository();
    bench.write(".gitignore", "*.log\n/out/\n").write("new", "untracked\n").write("a.log", "ignored\n");
    bench.write("out/x", "ignored\n").write("deep/er/file", "untracked\n").write("forced.log", "tracked\n");
    bench.git(&["add", "--force", "forced.log"]);
    bench.write("staged", "in the index\n").git(&["add", "staged"]);
    bench.write("staged", "and changed since\n").write("tracked", "changed\n");
    bench.write("stashed", "away\n").git(&["stash", "push", "--include-untracked", "--quiet", "stashed"]);
    let before = (bench.users_own(), bench.git(&["status", "--porcelain"]), bench.tree());
    let id = bench.take(1);
    assert_eq!(bench.kept(&id), [".gitignore", "deep/er/file", "forced.log", "new", "staged", "tracked"]);
    assert_eq!(bench.kept_file(&id, "tracked"), ("100644", b"changed\n".to_vec()));
    assert_eq!(bench.kept_file(&id, "staged"), ("100644", b"and changed since\n".to_vec()));
    assert_eq!((bench.users_own(), bench.git(&["status", "--porcelain"]), bench.tree()), before);
    assert_eq!(bench.git(&["rev-parse", &format!("refs/rawko/{SESSION}/1")]).trim(), id);
    assert_eq!(bench.git(&["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn what_people_put_secrets_into_is_kept_only_where_git_has_it() {
    let bench = Bench::repository();
    bench.write("committed.pem", "tracked\n").git(&["add", "committed.pem"]);
    bench.write(".env", "KEY=canary\n").write("deep/id_rsa", "canary\n").write(".env.example", "KEY=\n");
    let id = bench.take(1);
    assert_eq!(bench.kept(&id), [".env.example", "committed.pem", "tracked"]);
    assert!(!bench.git(&["cat-file", "--batch-all-objects", "--batch"]).contains("canary"));
    let not_kept = bench.checkpoints.store().unwrap().not_kept(&id).unwrap();
    let why = "its name says that it holds secrets";
    assert_eq!(not_kept, [format!(".env ({why})"), format!("deep/id_rsa ({why})")]);
}

#[test]
fn the_users_own_lists_of_what_is_ignored_count() {
    let bench = Bench::repository();
    bench.write("a.swp", "").write("b.bak", "").write("c.tmp", "").write("d", "");
    std::fs::create_dir_all(bench.home().join(".config/git")).unwrap();
    std::fs::write(bench.home().join(".config/git/ignore"), "*.swp\n").unwrap();
    std::fs::write(bench.top().join(".git/info/exclude"), "*.bak\n").unwrap();
    assert_eq!(bench.kept(&bench.take(1)), ["c.tmp", "d", "tracked"]);
    std::fs::write(bench.home().join("mine"), "*.tmp\n").unwrap();
    std::fs::write(bench.home().join(".gitconfig"), "[core]\nexcludesFile = ~/mine\n").unwrap();
    let bench = bench.session("another");
    assert_eq!(bench.kept(&bench.take(1)), ["a.swp", "d", "tracked"]);
}

#[test]
fn content_is_kept_byte_for_byte() {
    let bench = Bench::repository();
    bench.write(".gitattributes", "* text=auto eol=crlf ident\n*.utf16 working-tree-encoding=UTF-16\n");
    let contents: [&[u8]; 5] = [b"a\r\nb\r\n", b"mixed\r\nends\n", b"$Id$\n", b"\xff\xfea\0\n\0", b""];
    for (at, content) in contents.iter().enumerate() {
        bench.write(format!("{at}.utf16"), content);
    }
    let id = bench.take(1);
    for (at, content) in contents.iter().enumerate() {
        assert_eq!(bench.kept_file(&id, &format!("{at}.utf16")), ("100644", content.to_vec()), "{at}");
    }
}

#[test]
fn names_links_and_modes_are_kept() {
    let bench = Bench::repository();
    let odd: [&[u8]; 6] = [b"with blank", b"new\nline", b"quo\"te\\d", b"\xff\xfe", b"*?[a]", b":(top)-x"];
    for name in odd {
        bench.write(OsStr::from_bytes(name), "x");
    }
    bench
        .write("run", "#!")
        .executable("run", 0o755)
        .write("-rf", "")
        .link("link", "/etc/passwd")
        .link("dead", "gone");
    bench.write("git~1", "no short name here").write("dir/con", "").link("folder", "dir");
    let id = bench.take(1);
    let mut expected: Vec<String> = odd.iter().map(|name| name.escape_ascii().to_string()).collect();
    expected.extend(
        ["run", "-rf", "link", "dead", "git~1", "dir/con", "folder", "tracked"]
            .map(|name| name.as_bytes().escape_ascii().to_string()),
    );
    expected.sort();
    let mut kept = bench.kept(&id);
    kept.sort();
    assert_eq!(kept, expected);
    assert_eq!(bench.kept_file(&id, "run"), ("100755", b"#!".to_vec()));
    assert_eq!(bench.kept_file(&id, "link"), ("120000", b"/etc/passwd".to_vec()));
    assert_eq!(bench.kept_file(&id, "folder"), ("120000", b"dir".to_vec()));
}

#[test]
fn each_checkpoint_holds_the_tree_of_its_moment() {
    let bench = Bench::repository();
    bench.write("stays", "s").write("goes", "g").write("file", "then a folder");
    let first = bench.take(1);
    bench.remove("goes").remove("file").write("file/in", "it").write("comes", "c");
    // Of the same size, and right after: only the content tells.
    bench.write("tracked", "two\n");
    let second = bench.take(2);
    std::fs::remove_dir_all(bench.path("file")).unwrap();
    bench.write("file", "again").write(".gitignore", "comes\n");
    let third = bench.take(3);
    assert_eq!(bench.kept(&first), ["file", "goes", "stays", "tracked"]);
    assert_eq!(bench.kept(&second), ["comes", "file/in", "stays", "tracked"]);
    // A file that was kept before is kept as long as it is there, ignored or not.
    assert_eq!(bench.kept(&third), [".gitignore", "comes", "file", "stays", "tracked"]);
    bench.remove("comes");
    assert_eq!(bench.kept(&bench.take(4)), [".gitignore", "file", "stays", "tracked"]);
    assert_eq!(bench.kept_file(&first, "tracked").1, b"one\n");
    assert_eq!(bench.kept_file(&second, "tracked").1, b"two\n");
}

#[test]
fn a_checkpoint_that_is_taken_again_takes_the_place_of_the_first() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("new", "");
    let again = bench.take(1);
    let list = bench.checkpoints.list().unwrap();
    assert_eq!(
        list.iter().map(|kept| (kept.name.as_str(), kept.id.as_str())).collect::<Vec<_>>(),
        [("1", again.as_str())]
    );
}

#[test]
fn what_cannot_be_kept_is_left_out_and_said() {
    let bench = Bench::repository();
    let huge = std::fs::File::create(bench.path("huge")).unwrap();
    huge.set_len(100 * 1024 * 1024 + 1).unwrap();
    // In the index it is a file still.
    bench.write("pipe", "x").git(&["add", "pipe"]);
    bench.remove("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let id = bench.take(1);
    assert_eq!(bench.kept(&id), ["tracked"]);
    let not_kept = bench.checkpoints.store().unwrap().not_kept(&id).unwrap();
    assert_eq!(not_kept, ["huge (larger than 100 MB)", "pipe (it is no file)"]);
}

#[test]
fn too_much_that_git_does_not_track_is_refused() {
    let bench = Bench::repository();
    std::fs::create_dir(bench.path("many")).unwrap();
    for number in 0..=20_000 {
        std::fs::write(bench.path(format!("many/{number}")), "").unwrap();
    }
    let error = bench.checkpoints.take(1).unwrap_err();
    assert!(matches!(error, CheckpointError::TooMuch { files: 20_001, .. }), "{error}");
    bench.write(".gitignore", "many\n");
    assert_eq!(bench.kept(&bench.take(1)), [".gitignore", "tracked"]);
    bench.remove(".gitignore").git(&["add", "many"]);
    assert_eq!(bench.kept(&bench.take(2)).len(), 20_002);
}

#[test]
fn a_damaged_index_is_made_anew() {
    let bench = Bench::repository();
    bench.take(1);
    let index = bench.path(format!(".rawko/sessions/{SESSION}/checkpoints/index"));
    let lock = index.with_extension("lock");
    for damage in [b"DIRC\0\0\0\x02garbage".as_slice(), b"", b"\xff"] {
        std::fs::write(&index, damage).unwrap();
        std::fs::write(&lock, "left by a process that was killed").unwrap();
        assert_eq!(bench.kept(&bench.take(2)), ["tracked"], "{}", damage.escape_ascii());
    }
    // An attempt to have it written elsewhere.
    std::fs::write(bench.outside().join("precious"), "precious").unwrap();
    std::fs::remove_file(&index).unwrap();
    std::os::unix::fs::symlink(bench.outside().join("precious"), &index).unwrap();
    assert_eq!(bench.kept(&bench.take(3)), ["tracked"]);
    assert_eq!(std::fs::read(bench.outside().join("precious")).unwrap(), b"precious");
}

#[test]
fn what_is_kept_outlives_a_prune_until_it_is_forgotten() {
    let bench = Bench::repository();
    bench.write("only here", "x");
    let id = bench.take(1);
    bench.write("later", "y");
    bench.end().unwrap();
    bench.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(bench.kept(&id), ["only here", "tracked"]);
    bench.checkpoints.forget().unwrap();
    assert_eq!(bench.git(&["for-each-ref", "refs/rawko"]), "");
    bench.git(&["gc", "--quiet", "--prune=now"]);
    let error = bench.checkpoints.store().unwrap().snapshot(&id).unwrap_err();
    assert!(matches!(&error, CheckpointError::Gone { id: gone, .. } if *gone == id), "{error}");
    // The index still remembers objects that are no longer there.
    assert_eq!(bench.kept(&bench.take(1)), ["later", "only here", "tracked"]);
    bench.checkpoints.forget().unwrap();
    bench.checkpoints.forget().unwrap();
}

#[test]
fn a_session_of_a_strange_name_names_no_ref() {
    let bench = Bench::repository();
    for name in ["", "../../heads/main", "a/b", "a b", "a..b", "-x\n"] {
        let checkpoints =
            crate::checkpoint::Checkpoints { session: name.to_owned(), ..bench.checkpoints.clone() };
        let error = checkpoints.take(1).unwrap_err();
        assert!(matches!(error, CheckpointError::BadSession { .. }), "{name:?}: {error}");
    }
}

#[test]
fn a_session_that_has_only_what_another_kept_leaves_an_end() {
    let bench = Bench::repository();
    bench.take(1);
    for (session, has_kept) in [("a-fork", true), ("another", false)] {
        let directory = bench.project().join(".rawko/sessions").join(session);
        std::fs::create_dir_all(&directory).unwrap();
        // What a journal says is asked of its fold, and never read again.
        std::fs::create_dir(directory.join("journal.jsonl")).unwrap();
        let checkpoints = Checkpoints::new(&bench.project(), &directory, session).having_kept(has_kept);
        assert_eq!(checkpoints.take_end().unwrap().is_some(), has_kept, "{session}");
    }
}
