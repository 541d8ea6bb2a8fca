//! Fork, repair and rewind are killed with SIGKILL at many instants: they have happened, or they have not, and what they
//! leave is gone with the next one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rawko::journal::{SessionStatus, fold, read};
use serde_json::{Value, json};

use crate::bench::{Bench, complete, report, select, turn};

/// Instants at which each is killed.
const KILLS: u32 = 10;

/// A command that changes much.
const CHANGE: &str = "for n in $(seq 1 120); do echo by it > f$n; mkdir -p made; echo by it > made/$n; done; \
                      rm g*; chmod 600 mode; rmdir empty";

/// A repository in which a session has changed much, and someone else has changed something.
fn changed() -> Bench {
    let bench = Bench::new(&json!([
        select(),
        turn("I do it.", "Bash", json!({ "command": CHANGE })),
        report(),
        complete()
    ]));
    let begin = "git init --quiet; mkdir empty; echo 0 > mode; chmod 640 mode; echo 0 > theirs; \
                 for n in $(seq 1 120); do echo before > f$n; echo before > g$n; done; \
                 git add .; git -c user.name=t -c user.email=t@example.com commit --quiet -m begin";
    bench.shell(begin).check(0, &[]);
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    std::fs::write(bench.project().join("theirs"), "theirs\n").unwrap();
    bench
}

/// The instants, spread over the time that the command takes if it is not killed, and a little beyond.
fn instants(whole: Duration) -> impl Iterator<Item = Duration> {
    (0..KILLS).map(move |kill| whole.mul_f64(1.1 * f64::from(kill) / f64::from(KILLS)))
}

fn took(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn names(folder: &Path) -> BTreeSet<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Nothing is left of those that were killed: neither half-made sessions nor refs nor temporary folders.
#[track_caller]
fn no_litter(bench: &Bench) {
    let sessions: BTreeSet<String> = bench.store().list().unwrap().into_iter().map(|it| it.id).collect();
    let mut expected = sessions.clone();
    expected.insert(".gitignore".to_owned());
    assert_eq!(names(bench.store().folder()), expected);
    let refs = bench.shell("git for-each-ref --format='%(refname)' refs/rawko").check(0, &[]).out;
    for name in refs.lines() {
        assert!(
            sessions.contains(name.split('/').nth(2).unwrap()),
            "{name} is left of a session that is none"
        );
    }
    let temporary: Vec<String> =
        names(bench.outside()).into_iter().filter(|name| name.starts_with("rawko")).collect();
    assert_eq!(temporary, Vec::<String>::new());
}

#[test]
fn a_fork_that_is_killed_is_whole_or_no_session() {
    let bench = changed();
    let id = bench.store().list().unwrap().remove(0).id;
    let arguments = ["fork", id.as_str(), "--no-run"];
    let whole = took(|| drop(bench.rawko(&arguments).check(0, &[])));
    let records = read(&bench.journal_path()).unwrap().records.len();
    let mut killed = 0;
    for instant in instants(whole) {
        killed += u32::from(bench.kill_after(instant, &arguments));
        for session in bench.store().list().unwrap() {
            let journal = read(&bench.store().find(&session.id).unwrap()).unwrap();
            assert_eq!(fold(&journal).divergence, None);
            if session.id != id {
                assert_eq!((journal.records.len(), session.status), (records, SessionStatus::Unfinished));
                let kept = bench.rawko(&["rewind", &session.id, "--list"]).check(0, &["1 "]);
                bench
                    .shell(&format!("git rev-parse --verify refs/rawko/{}/1", session.id))
                    .check(0, &[kept.out.split_whitespace().nth(1).unwrap()]);
            }
        }
    }
    // How many are killed in time depends on what else the machine does.
    assert!(killed > 0, "none was killed in time");
    bench.rawko(&arguments).check(0, &[]);
    no_litter(&bench);
}

#[test]
fn a_repair_that_is_killed_is_whole_or_no_session() {
    let bench = changed();
    let path = bench.journal_path();
    let id = bench.store().list().unwrap().remove(0).id;
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[6] = lines[6].replacen("\"data\"", "\"datA\"", 1);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let arguments = ["sessions", "repair", id.as_str()];
    let whole = took(|| drop(bench.rawko(&arguments).check(0, &[])));
    let records = read(&bench.journal_path()).unwrap().records.len();
    for instant in instants(whole) {
        bench.kill_after(instant, &arguments);
        for session in bench.store().list().unwrap().into_iter().filter(|session| session.id != id) {
            let journal = read(&bench.store().find(&session.id).unwrap()).unwrap();
            assert_eq!(journal.records.len(), records);
        }
    }
    bench.rawko(&arguments).check(0, &[]);
    no_litter(&bench);
}

/// Every file with its content and permissions, and every folder.
fn files(folder: &Path) -> Value {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = serde_json::Map::new();
    for name in names(folder).into_iter().filter(|name| !matches!(name.as_str(), ".git" | ".rawko")) {
        let path = folder.join(&name);
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let is =
            if path.is_dir() { files(&path) } else { json!([mode, std::fs::read_to_string(&path).unwrap()]) };
        found.insert(name, is);
    }
    Value::Object(found)
}

#[test]
fn a_rewind_that_is_killed_is_completed_or_undone_by_the_next() {
    let bench = changed();
    let after = files(&bench.project());
    let to = ["rewind", "last", "--to", "1"];
    let whole = took(|| drop(bench.rawko(&to).check(0, &["changed since, not by this session: theirs"])));
    let before = files(&bench.project());
    assert_eq!(
        (&before["f1"], &before["g1"], &before["mode"]),
        (&json!([0o644, "before\n"]), &json!([0o644, "before\n"]), &json!([0o640, "0\n"]))
    );
    assert_eq!(
        (&before["empty"], before.get("made"), &before["theirs"][1]),
        (&json!({}), None, &json!("theirs\n"))
    );
    let back = ["rewind", "last", "--to", "end"];
    let (mut at_end, mut begun) = (false, 0);
    let is_there = |name: &str| bench.project().join(name).symlink_metadata().is_ok();
    for (kill, instant) in instants(whole).enumerate() {
        let (arguments, found) = if at_end { (&to, &after) } else { (&back, &before) };
        // In turn: at any instant, and when some files have been removed or restored.
        match kill % 4 {
            0 | 1 => bench.kill_after(instant, arguments),
            2 => bench.kill_when(|| is_there(&format!("made/{}", 110 - 8 * kill)) != at_end, arguments),
            _ => bench.kill_when(|| is_there(&format!("g{}", 50 + kill)) == at_end, arguments),
        };
        let half = files(&bench.project());
        begun += u32::from(half != *found);
        // Each file is the one or the other, and no other is there.
        for (name, is) in half.as_object().unwrap() {
            let is_known = is == &before[name] || is == &after[name] || name == "made";
            assert!(is_known, "{name}: {is}");
        }
        // It is completed, or undone.
        let is_undone = kill % 3 == 2;
        at_end ^= !is_undone;
        let (arguments, expected) = if at_end { (&back, &after) } else { (&to, &before) };
        bench.rawko(arguments).check(0, &[]);
        assert_eq!(files(&bench.project()), *expected, "killed after {instant:?}");
    }
    assert!(begun > 2, "only {begun} were killed after they had begun");
    no_litter(&bench);
    let status =
        bench.shell("git status --porcelain --branch; git stash list; git diff --cached").check(0, &[]);
    assert!(!status.out.contains("A "), "{}", status.out);
}

#[test]
fn a_full_disk_leaves_no_half_of_a_fork_and_no_half_of_a_rewind() {
    let bench = changed();
    let after = files(&bench.project());
    // Blocks of 512 bytes; the signal that goes with the limit would kill, as a full disk does not.
    let full = |arguments: &str| bench.shell(&format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" {arguments}"));
    full("fork last --no-run").check(1, &["cannot write"]);
    assert_eq!(bench.store().list().unwrap().len(), 1);
    full("rewind last --to 1").check(1, &[]);
    assert_eq!(files(&bench.project()), after);
    no_litter(&bench);
    bench.rawko(&["rewind", "last", "--to", "1"]).check(0, &["restored"]);
}
