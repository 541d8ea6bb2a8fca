//! The tests.

mod bubblewrap;
mod guards;
mod landlock;
mod namespace;
mod trial;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial as Test};
use rawko_sandbox::{HelperReport, Network, Placeholder, PlaceholderKind, ViewStep, Wall, landlock_version};
use trial::Trial;

const NOBODY: u32 = 65_534;

pub(crate) fn main() {
    if namespace::is_asked() {
        return namespace::main();
    }
    let mut arguments = Arguments::from_args();
    // A sandbox in each of many tests at once is no test of the sandbox.
    arguments.test_threads.get_or_insert(4);
    let lists = arguments.list;
    let (without_namespaces, without_landlock) = (shortage(), landlock_version() == 0);
    if let Some(why) = without_namespaces.as_ref().filter(|_| !lists) {
        assert!(std::env::var_os("RAWKO_NO_SKIP").is_none(), "skipped, which RAWKO_NO_SKIP forbids: {why}");
        println!("skipped: this machine has no namespaces: {why}");
    }
    let in_namespaces = TESTS.iter().chain(&guards::TESTS).filter(|_| lists || without_namespaces.is_none());
    let by_landlock = landlock::TESTS.iter().filter(|_| lists || !without_landlock);
    let mut tests: Vec<Test> = in_namespaces
        .chain(by_landlock)
        .map(|(name, test)| {
            Test::test(*name, || {
                test();
                Ok(())
            })
        })
        .chain(bubblewrap::tests(lists))
        .collect();
    if rustix::process::geteuid().is_root() {
        tests.push(Test::test("all_of_this_as_a_user_without_rights", || as_nobody(false)));
        tests.push(Test::test("bubblewrap_with_rights_of_its_own", || as_nobody(true)));
    }
    libtest_mimic::run(&arguments, tests).exit();
}

const TESTS: [(&str, fn()); 27] = [
    ("threads_in_namespaces", namespace::in_a_process_of_their_own),
    ("a_plan_of_another_version_is_not_carried_out", a_plan_of_another_version_is_not_carried_out),
    ("no_step_follows_a_link", no_step_follows_a_link),
    ("no_call_of_the_x32_interface", no_call_of_the_x32_interface),
    ("a_private_home_leads_where_it_did", a_private_home_leads_where_it_did),
    ("paths_are_bytes", paths_are_bytes),
    ("what_is_not_granted_is_not_written", what_is_not_granted_is_not_written),
    ("what_is_covered_is_not_seen", what_is_covered_is_not_seen),
    ("what_is_hidden_is_empty", what_is_hidden_is_empty),
    ("placeholders_look_like_the_originals", placeholders_look_like_the_originals),
    ("a_text_lies_over_a_file", a_text_lies_over_a_file),
    ("what_is_protected_stays", what_is_protected_stays),
    ("changes_to_a_layer_stay_apart_and_last", changes_to_a_layer_stay_apart_and_last),
    ("what_changes_below_a_layer_shows_through", what_changes_below_a_layer_shows_through),
    ("mounts_cannot_be_undone", mounts_cannot_be_undone),
    ("the_kernels_switches_are_closed", the_kernels_switches_are_closed),
    ("devices_are_those_of_every_program", devices_are_those_of_every_program),
    ("no_way_to_the_network", no_way_to_the_network),
    ("commands_of_one_agent_share_loopback", commands_of_one_agent_share_loopback),
    ("processes_outside_are_not_seen", processes_outside_are_not_seen),
    ("what_a_command_leaves_is_ended", what_a_command_leaves_is_ended),
    ("the_command_ends_with_its_parent", the_command_ends_with_its_parent),
    ("a_request_to_end_reaches_the_command", a_request_to_end_reaches_the_command),
    ("the_end_is_reported", the_end_is_reported),
    ("the_input_arrives", the_input_arrives),
    ("the_number_of_processes_is_limited", the_number_of_processes_is_limited),
    ("a_sandbox_that_cannot_be_made_is_no_sandbox", a_sandbox_that_cannot_be_made_is_no_sandbox),
];

/// Why nothing can be confined here.
fn shortage() -> Option<String> {
    match Trial::new().run("true").report {
        Some(HelperReport::Failed { what }) => Some(what),
        _ => None,
    }
}

/// Runs the tests of this program as another user: all of them, or those of a bubblewrap that has root's rights.
fn as_nobody(bubblewrap_with_rights: bool) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let program = folder.path().join("confined");
    fs::copy(std::env::current_exe()?, &program)?;
    let mut command = Command::new(&program);
    if bubblewrap_with_rights {
        let Some((name, value)) = bubblewrap::with_rights(folder.path()) else {
            println!("skipped: bubblewrap is not installed");
            return Ok(());
        };
        command.arg("bubblewrap_").env(name, value);
    }
    let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").env("TMPDIR", "/tmp").output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stdout).into_owned().into())
}

fn what_is_not_granted_is_not_written() {
    let trial = Trial::new();
    let outside = trial.outside("theirs", "safe");
    let script = format!(
        "echo mine > made; echo x > {0}; echo x > {0}2; rm -f {0}; mv {0} moved; ln {0} linked; echo x > /etc/x; \
         mkdir /usr/x; chmod 777 {0}; truncate -s 0 {0}; true",
        outside.display()
    );
    trial.run(&script).exits(0);
    assert_eq!(fs::read_to_string(trial.project().join("made")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "safe");
    assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o644);
    for absent in [trial.project().join("linked"), "/etc/x".into(), "/usr/x".into()] {
        assert!(!absent.exists(), "{}", absent.display());
    }
    // Reading is another matter: what no step covers is there.
    trial.run("cat /etc/hostname").exits(0);
}

fn what_is_covered_is_not_seen() {
    let mut trial = Trial::new();
    let outside = trial.outside("theirs", "CANARY");
    let folder = outside.parent().unwrap().to_owned();
    trial.plan.base.insert(0, ViewStep::Cover(folder.clone()));
    let script = format!("ls -A {0}; cat {1}; touch {0}/x; echo here", folder.display(), outside.display());
    let ended = trial.run(&script);
    ended.says("here").never_says("CANARY");
    assert!(!folder.join("x").exists());
    // Showing the folder around it shows the folder too, and a later grant is still a grant.
    let around = folder.parent().unwrap().to_owned();
    trial.plan.base.splice(1..1, [ViewStep::Show(around)]);
    trial.run(&format!("cat {}; echo mine > made", outside.display())).exits(0).says("CANARY");
}

fn what_is_hidden_is_empty() {
    let mut trial = Trial::new();
    let (secret, folder) = (trial.project().join(".env"), trial.project().join("keys"));
    fs::write(&secret, "CANARY").unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.pem"), "CANARY").unwrap();
    trial.plan.view.extend([secret, folder].map(ViewStep::Hide));
    trial.plan.view.push(ViewStep::Hide("/nowhere/at/all".into()));
    let script = "cat .env keys/* ; grep -r CANARY . ; cp .env copy; ln .env other; mv .env gone; mv keys gone; \
                  echo x > .env; python3 -c 'print(open(\".env\").read())'; cat copy; echo here";
    trial.run(script).says("here").never_says("CANARY");
    assert_eq!(fs::read_to_string(trial.project().join(".env")).unwrap(), "CANARY");
    assert!(trial.project().join("keys/a.pem").exists());
}

fn placeholders_look_like_the_originals() {
    let mut trial = Trial::new();
    let (secret, folder) = (trial.project().join(".env"), trial.project().join("keys"));
    fs::write(&secret, "CANARY").unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("other"), "CANARY").unwrap();
    let of = |name: &str, kind, size| Placeholder { name: name.into(), kind, size, modified: 77 };
    let files = vec![
        of("deep/down/a", PlaceholderKind::File, 5_000_000),
        of("run", PlaceholderKind::Program, 7),
        of("link", PlaceholderKind::Link, 12),
        of("sub", PlaceholderKind::Folder, 0),
        // Leads out of the folder.
        of("../out", PlaceholderKind::File, 1),
        of("/tmp/out", PlaceholderKind::File, 1),
    ];
    let file = vec![of("", PlaceholderKind::File, 6)];
    trial.plan.view.push(ViewStep::Placeholders { place: secret.clone(), files: file });
    trial.plan.view.push(ViewStep::Placeholders { place: folder, files });
    let script = "stat -c '%n %F %s %Y %a' .env keys/deep/down/a keys/run keys/link keys/sub; ls keys; ls -d out /tmp/out; \
                  cat .env keys/run; echo $(tr -d '\\0' < .env)$(cat .env keys/run 2>/dev/null | wc -c) read; chmod 644 .env; cat .env; \
                  rm -f .env; echo x > .env; touch keys/new; mv keys k; mv .env e; ./keys/run; ls /dev/shm; echo here";
    let mut ended = trial.run(script);
    for shown in [
        ".env regular file 6 77 0\n",
        "keys/deep/down/a regular file 5000000 77 0\n",
        "keys/run regular file 7 77 100\n",
        "keys/link symbolic link 12 77",
        "keys/sub directory",
        "cat: .env: Permission denied",
        "cat: keys/run: Permission denied",
        "\ndeep\nlink\nrun\nsub\n",
        "cannot access '/tmp/out'",
        "here",
    ] {
        ended = ended.says(shown);
    }
    ended.never_says("CANARY").never_says("\0");
    assert_eq!(fs::read_to_string(secret).unwrap(), "CANARY");
    assert!(trial.project().join("keys/other").exists() && !trial.project().join("keys/run").exists());
}

fn a_text_lies_over_a_file() {
    let mut trial = Trial::new();
    let list = trial.project().join("list");
    fs::write(&list, "theirs").unwrap();
    let content = vec![b'x'; 300_000];
    trial.plan.view.push(ViewStep::Text { place: list.clone(), content });
    trial.plan.view.push(ViewStep::Text { place: "/nowhere/at/all".into(), content: Vec::new() });
    trial
        .run("wc -c list; echo y > list; rm -f list; cat list | tr -d x; echo here")
        .says("300000")
        .says("here");
    assert_eq!(fs::read_to_string(list).unwrap(), "theirs");
}

fn what_is_protected_stays() {
    let mut trial = Trial::new();
    let git = trial.project().join(".git");
    fs::create_dir_all(git.join("hooks")).unwrap();
    fs::write(git.join("config"), "[core]\n").unwrap();
    trial.plan.view.push(ViewStep::Pin(git.clone()));
    trial.plan.view.extend([git.join("hooks"), git.join("config")].map(ViewStep::Protect));
    let script = "echo ok > .git/index; echo x > .git/hooks/pre-commit; echo x >> .git/config; mv .git/config c; \
                  rm -rf .git/hooks; mv .git old; rm -rf .git; mkdir .git; cp -r .git copy; \
                  python3 -c 'import os; os.replace(\".git/index\", \".git/config\")'; true";
    trial.run(script).exits(0);
    assert_eq!(fs::read_to_string(git.join("config")).unwrap(), "[core]\n");
    assert_eq!(fs::read_dir(git.join("hooks")).unwrap().count(), 0);
}

/// A helper that does less than a plan says would let a command do more.
fn a_plan_of_another_version_is_not_carried_out() {
    let said_to = |sent: &str| {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut helper = Command::new("/proc/self/exe")
            .args([rawko_sandbox::HELPER, "/bin/true"])
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        let mut message = u32::try_from(sent.len()).unwrap().to_le_bytes().to_vec();
        message.push(0);
        message.extend(sent.as_bytes());
        ours.write_all(&message).unwrap();
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        helper.wait().unwrap();
        serde_json::from_str::<HelperReport>(&said).unwrap()
    };
    let trial = Trial::new();
    let plan = serde_json::to_value(&trial.plan).unwrap();
    let HelperReport::Unfit { why } = said_to(&format!("0.0.0-other\n{plan}")) else { panic!() };
    assert!(why.contains("the program that asks it of 0.0.0-other: install rawko 0.0.0-other"), "{why}");
    let mut newer = plan;
    newer["alsoForbidden"] = serde_json::json!(true);
    let HelperReport::Failed { what } = said_to(&format!("{}\n{newer}", env!("CARGO_PKG_VERSION"))) else {
        panic!()
    };
    assert!(what.contains("unknown field `alsoForbidden`"), "{what}");
    // The same without what is unknown runs.
    let said = Trial::new().run("echo ran").exits(0).says("ran");
    assert!(matches!(said.report, Some(HelperReport::Ended { .. })));
}

/// As if another command had put the link there after the plan was made.
fn no_step_follows_a_link() {
    let check = |step: &dyn Fn(&Trial, std::path::PathBuf) -> ViewStep, is_of_base: bool| {
        let mut trial = Trial::new();
        let project = trial.project();
        fs::create_dir_all(project.join(".git/hooks")).unwrap();
        fs::write(project.join(".git/hooks/theirs"), "theirs").unwrap();
        std::os::unix::fs::symlink(".git", project.join("link")).unwrap();
        let step = step(&trial, project.join("link/hooks"));
        let kept = [project.join(".git"), project.join(".git/hooks")];
        let [git, hooks] = kept;
        trial.plan.view.extend([ViewStep::Pin(git), ViewStep::Protect(hooks)]);
        let said = format!("{step:?}");
        if is_of_base {
            trial.plan.base.push(step);
        } else {
            trial.plan.view.push(step);
        }
        let ended = trial.run("echo x > .git/hooks/made; echo RAN");
        assert!(!project.join(".git/hooks/made").exists(), "{said}");
        assert!(
            matches!(&ended.report, Some(HelperReport::Failed { what }) if what.contains("replaced by a link")),
            "{said}: {:?} {}",
            ended.report,
            ended.output
        );
    };
    for step in [ViewStep::Pin, ViewStep::Protect, ViewStep::Hide] {
        check(&|_, place| step(place), false);
    }
    for step in [ViewStep::Cover, ViewStep::Show, ViewStep::Grant] {
        check(&|_, place| step(place), true);
    }
    check(&|trial, folder| ViewStep::Layer { folder, changes: trial.folder("changes") }, true);
    check(&|trial, place| ViewStep::Private { place, content: trial.folder("content") }, true);
}

fn changes_to_a_layer_stay_apart_and_last() {
    let mut trial = Trial::new();
    let cache = trial.outside("cache/kept", "from outside").parent().unwrap().to_owned();
    let changes = trial.folder("changes");
    trial.plan.base.push(ViewStep::Layer { folder: cache.clone(), changes });
    let script = format!("cd {} && cat kept && echo new > added && echo x > kept", cache.display());
    trial.run(&script).exits(0).says("from outside");
    assert_eq!(fs::read_to_string(cache.join("kept")).unwrap(), "from outside");
    assert!(!cache.join("added").exists());
    trial.run(&format!("cat {}/added", cache.display())).exits(0).says("new");
}

/// So a view of a project holds for as long as the project does not change.
fn what_changes_below_a_layer_shows_through() {
    let mut trial = Trial::new();
    let below = trial.outside("cache/kept", "first");
    let (cache, changes) = (below.parent().unwrap().to_owned(), trial.folder("changes"));
    let waits = changes.join("upper/waits");
    trial.plan.base.push(ViewStep::Layer { folder: cache.clone(), changes });
    let change = std::thread::spawn(move || {
        while !waits.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::write(below, "second").unwrap();
    });
    let script = format!(
        "cd {} && cat kept && touch waits && timeout 30 sh -c 'until grep second kept; do sleep 0.01; done'",
        cache.display()
    );
    trial.run(&script).exits(0).says("first").says("second");
    change.join().unwrap();
}

fn mounts_cannot_be_undone() {
    let mut trial = Trial::new();
    let outside = trial.outside("theirs", "CANARY");
    let folder = outside.parent().unwrap().to_owned();
    trial.plan.base.insert(0, ViewStep::Cover(folder.clone()));
    let script = format!(
        "umount {0}; umount -l {0}; mount -o remount,rw /; mount -t tmpfs none /mnt; unshare -Ur cat {1}; \
         unshare -m umount {0}; nsenter -t 1 -m cat {1}; cat /proc/1/root{1}; chroot /proc/1/root cat {1}; \
         touch /usr/x; echo here",
        folder.display(),
        outside.display()
    );
    trial.run(&script).says("here").never_says("CANARY");
    assert!(!Path::new("/usr/x").exists());
}

fn the_kernels_switches_are_closed() {
    let trial = Trial::new();
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let script = "echo x > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; \
                  echo 1 > /sys/kernel/mm/ksm/run; sysctl -w kernel.core_pattern=x; dmesg; true";
    trial.run(script).exits(0);
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
}

fn devices_are_those_of_every_program() {
    let trial = Trial::new();
    let ended = trial.run("ls /dev; mknod d b 254 0; mknod /tmp/d c 1 1; head -c 4 /dev/urandom | wc -c; echo x > /dev/null").exits(0);
    let mut listed: Vec<&str> = ended.output.lines().take_while(|line| *line != "4").collect();
    listed.retain(|line| !line.starts_with("mknod"));
    let expected = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
        "zero",
    ];
    assert_eq!(listed, expected);
    assert!(!trial.project().join("d").exists());
}

/// A program that connects and says so.
const CONNECT: &str = "import socket, sys\nfor family, address in TARGETS:\n    try:\n        s = socket.socket(family)\n        \
                       s.settimeout(2)\n        s.connect(address)\n        print('CONNECTED', address)\n    except OSError as \
                       error:\n        print(type(error).__name__)\n";

fn no_way_to_the_network() {
    let mut trial = Trial::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = trial.project().join("socket");
    let _named = UnixListener::bind(&path).unwrap();
    trial.plan.view.push(ViewStep::Hide(path.clone()));
    let targets = format!(
        "TARGETS = [(socket.AF_INET, ('127.0.0.1', {})), (socket.AF_INET, ('192.0.2.1', 80)), \
         (socket.AF_UNIX, {path:?}), (socket.AF_UNIX, '\\0an abstract name')]\n",
        tcp.local_addr().unwrap().port()
    );
    let program = CONNECT.replace("\nfor", &format!("\n{targets}for"));
    fs::write(trial.project().join("connect.py"), program).unwrap();
    let ended = trial.run("python3 connect.py; echo > /dev/tcp/127.0.0.1/1; echo here");
    let ended = ended.says("here").never_says("CONNECTED").never_says("PermissionError");
    assert_eq!(ended.output.matches("ConnectionRefusedError").count(), 3, "{}", ended.output);
}

fn commands_of_one_agent_share_loopback() {
    let trial = Trial::new();
    let server = "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 8077)); s.listen(); \
                  open(\"ready\", \"w\").write(\"yes\"); s.accept()'";
    let mut running = trial.start(server, None);
    let shared = running.shared.take().expect("the first command makes the namespaces");
    trial.beats(&mut running, "ready");
    let client =
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8077)); print(\"REACHED\")'";
    trial.start(client, Some(&shared)).finish().exits(0).says("REACHED");
    running.finish().exits(0);
    // Another agent's commands have a loopback of their own.
    trial.run(client).never_says("REACHED");
}

fn processes_outside_are_not_seen() {
    let trial = Trial::new();
    let own = std::process::id();
    let mut bystander = Command::new("sleep").arg("300").env("CANARY", "CANARY-VALUE").spawn().unwrap();
    let script = format!(
        "ls -d /proc/[0-9]* | wc -l; kill -9 {0}; kill -9 {own}; kill -9 -1; cat /proc/{0}/environ /proc/{own}/environ; \
         cat /proc/1/environ /proc/1/maps; ls -l /proc/1/fd; grep -a CANARY /proc/*/environ; echo here",
        bystander.id()
    );
    trial.run(&script).says("here").never_says("CANARY-VALUE").never_says("socket:");
    assert!(bystander.try_wait().unwrap().is_none(), "the process outside was killed");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

fn what_a_command_leaves_is_ended() {
    let trial = Trial::new();
    let script = "trap '' TERM; (setsid bash -c 'echo > begun; while :; do echo >> beats; sleep 0.01; done' &) ; \
                  until [ -e begun ]; do sleep 0.01; done";
    let ended = trial.run(script).exits(0);
    let Some(HelperReport::Ended { leftovers, .. }) = ended.report else { panic!("{:?}", ended.report) };
    assert!(leftovers >= 1, "{leftovers}");
    trial.falls_silent("beats");
}

fn the_command_ends_with_its_parent() {
    let trial = Trial::new();
    let mut running = trial.start("trap '' TERM HUP; while :; do echo >> beats; sleep 0.01; done", None);
    trial.beats(&mut running, "beats");
    // As the kernel does when the parent is killed.
    drop(running.control.take());
    running.child.wait().unwrap();
    trial.falls_silent("beats");
}

fn a_request_to_end_reaches_the_command() {
    let trial = Trial::new();
    let mut running =
        trial.start("trap 'echo ASKED; exit 7' TERM; while :; do echo >> beats; sleep 0.01; done", None);
    trial.beats(&mut running, "beats");
    let helper = rustix::process::Pid::from_child(&running.child);
    rustix::process::kill_process(helper, rustix::process::Signal::TERM).unwrap();
    running.finish().exits(7).says("ASKED");
}

fn the_end_is_reported() {
    let trial = Trial::new();
    trial.run("exit 3").exits(3);
    let ended = trial.run("kill -9 $$");
    assert_eq!(ended.report, Some(HelperReport::Ended { code: None, signal: Some(9), leftovers: 0 }));
    assert_eq!(ended.status.code(), Some(137));
}

fn the_input_arrives() {
    let mut trial = Trial::new();
    trial.plan.input = b"two\nlines\n".to_vec();
    trial.run("wc -l; cat").exits(0).says("2");
    trial.plan.input = Vec::new();
    trial.run("cat; echo nothing").exits(0).says("nothing");
}

fn the_number_of_processes_is_limited() {
    let mut trial = Trial::new();
    trial.plan.max_processes = 320;
    let script = "import os, time\ncount = 0\ntry:\n    while count < 1000:\n        if os.fork() == 0: time.sleep(60)\n        \
                  count += 1\nexcept OSError:\n    print('REFUSED', flush=True)\nopen('count', 'w').write(str(count))\n";
    fs::write(trial.project().join("forks.py"), script).unwrap();
    let ended = trial.run("exec python3 forks.py");
    // Before Linux 6.14 nothing limits root, and bubblewrap closes what does since then.
    let can_hold_root = trial.plan.wall == Wall::Namespaces && has_own_pid_max();
    let is_held = !rustix::process::geteuid().is_root() || can_hold_root;
    assert_eq!(ended.output.contains("REFUSED"), is_held, "{}", ended.output);
    let count: u32 = fs::read_to_string(trial.project().join("count")).unwrap().parse().unwrap();
    assert!(!is_held || count < 320, "{count}");
}

fn has_own_pid_max() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 14)
}

/// The kernel's own answer where it has no such interface is ENOSYS; the filter's is EPERM.
fn no_call_of_the_x32_interface() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let call = "python3 -c 'import ctypes; libc = ctypes.CDLL(None, use_errno=True); \
                print(libc.syscall(0x40000000 | 39), ctypes.get_errno())'";
    Trial::new().run(call).exits(0).says("-1 1");
}

fn a_private_home_leads_where_it_did() {
    let mut trial = Trial::new();
    let (home, content) = (trial.folder("home"), trial.folder("content"));
    let project = trial.folder("home/work/project");
    fs::create_dir_all(project.join(".git")).unwrap();
    fs::write(project.join(".git/config"), "theirs").unwrap();
    let link = ViewStep::Link { place: home.join("linked"), target: project.clone() };
    trial.plan.base.extend([
        ViewStep::Private { place: home.clone(), content: content.clone() },
        ViewStep::Pin(home.join("work")),
        ViewStep::Grant(project.clone()),
        link,
    ]);
    trial
        .plan
        .view
        .extend([ViewStep::Pin(project.join(".git")), ViewStep::Protect(project.join(".git/config"))]);
    let script = format!(
        "cd {}; mv work w; mkdir -p work/project/.git; echo x > work/project/.git/config; rm -rf work/project/.git; \
         echo x > w/project/.git/config; cat linked/.git/config; echo ok > linked/made",
        home.display()
    );
    trial.run(&script).exits(0).says("theirs");
    assert_eq!(fs::read_to_string(project.join(".git/config")).unwrap(), "theirs");
    assert!(project.join("made").exists() && !content.join("w").exists());
    // A link that an earlier command left would lead the project's protection to another place.
    fs::remove_dir_all(content.join("work")).unwrap();
    std::os::unix::fs::symlink("/tmp", content.join("work")).unwrap();
    let ended = trial.run("echo RAN");
    assert!(
        matches!(&ended.report, Some(HelperReport::Failed { what }) if what.contains("no folder")),
        "{:?}",
        ended.report
    );
}

fn paths_are_bytes() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut trial = Trial::new();
    let secret = trial.project().join(std::ffi::OsStr::from_bytes(b"bad\xff"));
    fs::write(&secret, "CANARY").unwrap();
    trial.plan.view.push(ViewStep::Hide(secret));
    trial.run("cat bad*; echo here").exits(0).says("here").never_says("CANARY");
}

fn a_sandbox_that_cannot_be_made_is_no_sandbox() {
    let mut trial = Trial::new();
    trial.plan.base.push(ViewStep::Grant("/nowhere/at/all".into()));
    let ended = trial.run("echo RAN > ran");
    assert!(
        matches!(&ended.report, Some(HelperReport::Failed { what }) if what.contains("/nowhere/at/all")),
        "{:?}",
        ended.report
    );
    assert!(!trial.project().join("ran").exists());
    let mut trial = Trial::new();
    trial.plan.network = Network::Shared;
    trial.run("true").exits(0);
    let mut text = String::new();
    fs::File::open("/proc/self/status").unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("NoNewPrivs:\t0"), "the parent is not confined");
}
