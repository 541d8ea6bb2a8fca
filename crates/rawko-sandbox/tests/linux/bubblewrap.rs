//! The same attempts where bubblewrap makes the namespaces: as it is installed, and with rights of its own, by which it
//! works where users may make no namespaces.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial as Test;
use rawko_sandbox::{HelperReport, Network, ViewStep, Wall};

use super::trial::{Trial, WALL};

/// Names another program than the installed one.
const PROGRAM: &str = "RAWKO_TEST_BWRAP";

/// Tests of what bubblewrap cannot do.
const LOST: [&str; 8] = [
    // It follows links itself, and mounts nothing that is in memory.
    "no_step_follows_a_link",
    "placeholders_look_like_the_originals",
    "a_text_lies_over_a_file",
    // Layers are read-only.
    "changes_to_a_layer_stay_apart_and_last",
    "what_changes_below_a_layer_shows_through",
    // Each command has its own.
    "commands_of_one_agent_share_loopback",
    // Here are tests of their own for these.
    "every_namespace_is_a_new_one",
    "devices_are_those_of_every_program",
];

const TESTS: [(&str, fn()); 8] = [
    ("all_ends_with_the_helper", all_ends_with_the_helper),
    ("a_link_in_a_private_folder_leads_nowhere", a_link_in_a_private_folder_leads_nowhere),
    ("namespaces_are_new", namespaces_are_new),
    ("devices_are_few", devices_are_few),
    ("a_pin_keeps_the_rest_read_only", a_pin_keeps_the_rest_read_only),
    ("a_layer_is_read_only", a_layer_is_read_only),
    ("the_proxy_has_its_port", the_proxy_has_its_port),
    ("nothing_is_inherited", nothing_is_inherited),
];

pub(super) fn program() -> PathBuf {
    std::env::var_os(PROGRAM).unwrap_or_else(|| "/usr/bin/bwrap".into()).into()
}

fn wall() -> Wall {
    Wall::Bubblewrap { program: program() }
}

/// All tests that hold here; none where there is no bubblewrap.
pub(super) fn tests(lists: bool) -> Vec<Test> {
    WALL.set(wall());
    let shortage = super::shortage();
    WALL.set(Wall::Namespaces);
    if let Some(why) = shortage.filter(|_| !lists) {
        assert!(std::env::var_os("RAWKO_NO_SKIP").is_none(), "skipped, which RAWKO_NO_SKIP forbids: {why}");
        println!("skipped: bubblewrap does not work here: {why}");
        return Vec::new();
    }
    let shared = super::TESTS.iter().chain(&super::guards::TESTS).filter(|(name, _)| !LOST.contains(name));
    let run = |test: fn()| {
        move || {
            WALL.set(wall());
            test();
            Ok(())
        }
    };
    shared.chain(&TESTS).map(|(name, test)| Test::test(format!("bubblewrap_{name}"), run(*test))).collect()
}

/// A copy in this folder that anybody may run with root's rights.
pub(super) fn with_rights(folder: &Path) -> Option<(&'static str, PathBuf)> {
    let copy = folder.join("bwrap");
    fs::copy("/usr/bin/bwrap", &copy).ok()?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    Some((PROGRAM, copy))
}

fn namespaces_are_new() {
    let ended = Trial::new().run("for n in ipc mnt net pid uts user; do readlink /proc/self/ns/$n; done");
    let mut inside: Vec<&str> = ended.output.lines().collect();
    let outside = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
    let user = inside.pop().unwrap();
    for (name, inside) in ["ipc", "mnt", "net", "pid", "uts"].iter().zip(&inside) {
        assert_ne!(outside(name).to_str(), Some(*inside), "{name}");
    }
    assert_eq!(inside.len(), 5, "{}", ended.output);
    // Who has the rights makes no namespace of users: that is how it works where none can be made.
    let has_rights = fs::metadata(program()).unwrap().permissions().mode() & 0o4000 != 0;
    let makes_one = !has_rights && !rustix::process::geteuid().is_root();
    assert_eq!(outside("user").to_str() != Some(user), makes_one, "{user}");
}

fn devices_are_few() {
    let ended = Trial::new().run(
        "ls /dev; cat /dev/core; echo x > /dev/shm/x && rm /dev/shm/x; touch /dev/x; \
                                  mknod /tmp/d b 254 0 && echo MADE; echo x > /dev/null",
    );
    for name in ["sda", "vda", "kmsg", "mem", "kvm", "fuse"] {
        assert!(!ended.output.lines().any(|line| line == name), "{}", ended.output);
    }
    ended.says("urandom").says("Read-only file system").never_says("MADE").never_says("/dev/null:");
}

fn a_pin_keeps_the_rest_read_only() {
    let mut trial = Trial::new();
    let project = trial.project();
    for folder in ["src/.claude", "other"] {
        fs::create_dir_all(project.join(folder)).unwrap();
    }
    trial.plan.base = vec![ViewStep::Show(project.clone()), ViewStep::Grant(project.join("src"))];
    trial.plan.view =
        vec![ViewStep::Pin(project.join("src")), ViewStep::Protect(project.join("src/.claude"))];
    let script = "echo x > top; echo x > other/x; mv src moved; echo x > src/.claude/x; mv src/.claude src/c; echo mine > src/made";
    trial.run(script).exits(0);
    let written =
        ["top", "other/x", "moved", "src/.claude/x", "src/c"].map(|name| project.join(name).exists());
    assert_eq!((written, project.join("src/made").exists()), ([false; 5], true));
}

fn a_layer_is_read_only() {
    let mut trial = Trial::new();
    let cache = trial.outside("cache/kept", "from outside").parent().unwrap().to_owned();
    let changes = trial.folder("changes");
    trial.plan.base.push(ViewStep::Layer { folder: cache.clone(), changes });
    trial.run(&format!("cat {0}/kept; touch {0}/added", cache.display())).says("from outside").exits(1);
    assert!(!cache.join("added").exists());
}

/// The socket that comes out accepts the data that the command has sent to its proxy's port.
fn the_proxy_has_its_port() {
    use std::io::{Read as _, Write as _};
    let mut trial = Trial::new();
    trial.plan.network = Network::Proxy { address: std::net::Ipv4Addr::LOCALHOST, port: 3128 };
    let mut running =
        trial.start("exec 3<>/dev/tcp/127.0.0.1/3128; echo ask >&3; cat <&3; echo $http_proxy", None);
    let listener = running.control.as_mut().unwrap().take_listener().expect("a socket to listen at");
    let (mut connection, _) = listener.accept().unwrap();
    let mut asked = [0; 4];
    connection.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"ask\n");
    connection.write_all(b"ANSWER\n").unwrap();
    drop(connection);
    running.finish().exits(0).says("ANSWER").says("http://127.0.0.1:3128");
}

fn nothing_is_inherited() {
    let ended = Trial::new().run_with(
        "LD_LIBRARY_PATH",
        Path::new("/nowhere"),
        "ls -l /proc/self/fd; env; echo here",
    );
    let open = ended.output.lines().filter(|line| line.contains(" -> ")).count();
    // The three streams and the folder that `ls` reads.
    assert_eq!(open, 4, "{}", ended.output);
    // A program with rights of its own is started without such variables.
    let ended = ended.says("LD_LIBRARY_PATH=/nowhere").says("here").never_says("socket:");
    assert!(matches!(ended.report, Some(HelperReport::Ended { code: Some(0), .. })), "{:?}", ended.report);
    assert!(program().file_name() == Some(OsStr::new("bwrap")));
}

fn all_ends_with_the_helper() {
    let trial = Trial::new();
    let mut running = trial.start("trap '' TERM HUP; while :; do echo >> beats; sleep 0.01; done", None);
    trial.beats(&mut running, "beats");
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    trial.falls_silent("beats");
}

/// What an earlier command has left in a temporary folder leads no mount to another place.
fn a_link_in_a_private_folder_leads_nowhere() {
    let mut trial = Trial::new();
    let (place, content) = (trial.folder("place"), trial.folder("content"));
    let inner = trial.folder("place/work/inner");
    trial.plan.base.extend([ViewStep::Private { place, content: content.clone() }, ViewStep::Grant(inner)]);
    trial.run("true").exits(0);
    fs::remove_dir_all(content.join("work")).unwrap();
    std::os::unix::fs::symlink("../../outside", content.join("work")).unwrap();
    let ended = trial.run("echo RAN > ran");
    let Some(HelperReport::Failed { what }) = &ended.report else { panic!("{:?}", ended.report) };
    assert!(what.contains("content/work was replaced"), "{what}");
    assert!(!trial.project().join("ran").exists());
}
