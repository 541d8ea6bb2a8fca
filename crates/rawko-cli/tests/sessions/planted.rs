//! Files that an attacker put where a session's belong, and every command that reads one: nothing is followed, nothing
//! waits, and the memory stays that of an ordinary command.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::world::World;

/// Longer than any of these commands takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most address space in KiB: that of an ordinary command and a little more.
const MOST_MEMORY: u64 = 1_200_000;

/// Puts something in the place of a journal; the other path is a sound journal outside of the project.
type Plant = fn(&Path, &Path);

/// What a journal is replaced by.
const PLANTED: &[(&str, Plant)] = &[
    ("a link", |journal, other| symlink(other, journal).unwrap()),
    ("a link to a device", |journal, _| symlink("/dev/zero", journal).unwrap()),
    ("a link to nothing", |journal, _| symlink("/nowhere/at/all", journal).unwrap()),
    ("a FIFO", |journal, _| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, journal, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }),
    ("a socket", |journal, _| drop(std::os::unix::net::UnixListener::bind(journal).unwrap())),
    ("a folder", |journal, _| std::fs::create_dir(journal).unwrap()),
    ("a second name", |journal, other| std::fs::hard_link(other, journal).unwrap()),
    ("somebody else's", |journal, other| {
        std::fs::copy(other, journal).unwrap();
        // Only root can give a file away; for anybody else it cannot be read.
        if std::os::unix::fs::chown(journal, Some(12_345), None).is_err() {
            std::fs::set_permissions(journal, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        }
    }),
    ("empty", |journal, _| std::fs::write(journal, "").unwrap()),
    ("half of it", |journal, other| {
        let bytes = std::fs::read(other).unwrap();
        std::fs::write(journal, &bytes[..200]).unwrap();
    }),
    ("a gigabyte", |journal, other| {
        std::fs::copy(other, journal).unwrap();
        std::fs::File::options().write(true).open(journal).unwrap().set_len(1 << 30).unwrap();
    }),
    ("400 megabytes in a line", |journal, _| {
        std::fs::File::create(journal).unwrap().set_len(400 << 20).unwrap();
    }),
    ("deep JSON", |journal, _| std::fs::write(journal, "[".repeat(1_000_000) + "\n").unwrap()),
];

/// Every command that reads a session that is named.
const READING: &[&str] = &[
    "sessions show",
    "sessions show --json",
    "sessions export",
    "sessions export --format json",
    "sessions repair",
    "explain",
    "replay",
    "diff",
    "rewind --list",
    "fork --no-run",
    "cancel",
    "resume",
];

#[test]
fn no_command_follows_waits_for_or_swallows_a_planted_journal() {
    let world = World::new(None);
    let other = world.bench.outside().join("other.jsonl");
    std::fs::copy(world.journal(), &other).unwrap();
    let kept = std::fs::read(&other).unwrap();
    for (what, plant) in PLANTED {
        world.restore();
        std::fs::remove_file(world.journal()).unwrap();
        plant(&world.journal(), &other);
        for command in READING {
            let name = command.split(" --").next().unwrap();
            let options = command.strip_prefix(name).unwrap();
            let begun = Instant::now();
            let id = &world.newest;
            let script = format!("ulimit -v {MOST_MEMORY}; exec timeout 60 \"$0\" {name} {id}{options}");
            let said = world.bench.shell(&script);
            let both = format!("{what}, {command}:\n{}{}", said.out, said.err);
            assert!(begun.elapsed() < PATIENCE, "{both}");
            assert!(matches!(said.code, Some(1 | 2)), "{:?} {both}", said.code);
            assert!(said.err.contains(&world.newest) || said.err.contains("journal"), "{both}");
            assert!(!both.contains("Do the newest task."), "it was read: {both}");
        }
        let begun = Instant::now();
        let script = format!("ulimit -v {MOST_MEMORY}; exec timeout 60 \"$0\" sessions list");
        let said = world.bench.shell(&script).check(0, &["Do the older task."]);
        // Its checkpoints say that it was begun.
        assert!(said.out.contains("unreadable"), "{what}: {}", said.out);
        assert!(begun.elapsed() < PATIENCE, "{what}: {}", said.out);
        assert_eq!(std::fs::read(&other).unwrap(), kept, "{what}: written through");
        std::fs::remove_file(world.journal()).or_else(|_| std::fs::remove_dir(world.journal())).unwrap();
    }
}

/// The files beside the journal that name a process or hold long texts.
#[test]
fn what_lies_beside_a_journal_is_not_followed_either() {
    let world = World::new(None);
    let folder = world.journal().parent().unwrap().to_owned();
    for name in ["holder.json", "blobs", "checkpoints"] {
        for plant in [(|place: &Path| symlink("/dev/zero", place).unwrap()) as fn(&Path), |place| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, place, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }] {
            world.restore();
            let place = folder.join(name);
            let _ = std::fs::remove_file(&place).or_else(|_| std::fs::remove_dir_all(&place));
            plant(&place);
            for command in
                ["sessions list", "sessions show", "cancel last", "diff last", "continue 'Do another task.'"]
            {
                let begun = Instant::now();
                let script = format!("ulimit -v {MOST_MEMORY}; exec timeout 60 \"$0\" {command}");
                let said = world.bench.shell(&script);
                let both = format!("{name}, {command}:\n{}{}", said.out, said.err);
                assert!(begun.elapsed() < PATIENCE && said.code != Some(124), "{both}");
                assert!(said.code.is_some() && !both.contains("panicked"), "{both}");
            }
        }
    }
}
