//! Where no namespaces can be made, Landlock holds commands alone.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use rawko_sandbox::{END_NOW, HelperReport, Network, ViewStep, Wall, landlock_version};

use super::trial::Trial;

pub(super) const TESTS: [(&str, fn()); 9] = [
    ("landlock_holds_files", files_are_held),
    ("landlock_grants_around_what_is_hidden", shown_entries_are_granted_around_hidden_ones),
    ("landlock_lets_a_project_be_listed", a_project_with_something_hidden_can_be_listed),
    ("landlock_gives_a_home_of_its_own", the_home_is_the_commands_own),
    ("landlock_holds_the_network", the_network_is_held),
    ("landlock_holds_signals_and_keys", processes_outside_are_out_of_reach),
    ("landlock_leaves_limits_and_queues_alone", limits_and_queues_outside_stay),
    ("a_subreaper_ends_what_is_left", what_is_left_is_ended),
    ("a_subreaper_ends_with_its_parent", all_ends_with_the_parent),
];

fn trial() -> Trial {
    let mut trial = Trial::new();
    trial.plan.wall = Wall::Landlock;
    trial
}

fn limits_and_queues_outside_stay() {
    trial()
        .run("(echo 0 > /proc/self/oom_score_adj) 2>/dev/null; [ $(cat /proc/self/oom_score_adj) -ge 500 ]")
        .exits(0);
    let mut bystander = Command::new("sleep").arg("300").spawn().unwrap();
    let limits = || fs::read_to_string(format!("/proc/{}/limits", bystander.id())).unwrap();
    let before = limits();
    let script = format!(
        "prlimit --pid {} --nofile=3:3; prlimit --pid $PPID --nofile=0:0; ulimit -n 100; ulimit -n; \
         python3 -S -c 'import ctypes; print(\"queue\", ctypes.CDLL(None).msgget(0x7261776c, 0o1666))'; echo here",
        bystander.id()
    );
    let ended = trial().run(&script);
    let after = limits();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(before, after);
    ended.says("\n100\n").says("queue -1").says("here");
}

fn files_are_held() {
    let trial = trial();
    let outside = trial.outside("theirs", "safe");
    let script = format!(
        "echo mine > made; cat made; echo x > {0}; echo x > {0}2; rm -f {0}; mv {0} moved; ln {0} linked; \
         ln -s {0} led; echo x > led; truncate -s 0 {0}; echo x > /etc/x; mkdir /usr/x; echo x > /tmp/left; \
         echo x > /dev/shm/left; mount -t tmpfs none /mnt; unshare -Ur true; echo here; exit 3",
        outside.display()
    );
    let ended = trial.run(&script).exits(3).says("mine").says("here");
    assert!(
        matches!(ended.report, Some(HelperReport::Ended { code: Some(3), leftovers: 0, .. })),
        "{:?}",
        ended.report
    );
    assert_eq!(fs::read_to_string(&outside).unwrap(), "safe");
    for absent in ["/etc/x", "/usr/x", "/tmp/left", "/dev/shm/left"] {
        assert!(!fs::exists(absent).unwrap(), "{absent}");
    }
    assert!(!trial.project().join("linked").exists());
}

fn shown_entries_are_granted_around_hidden_ones() {
    let mut trial = trial();
    let tool = trial.outside("tools/bin/tool", "SHOWN");
    let secret = trial.outside("tools/secret", "CANARY");
    let covered = trial.outside("covered/key", "CANARY");
    let folder = trial.folder("outside");
    let view = [
        ViewStep::Cover(folder.clone()),
        ViewStep::Show(folder.join("tools")),
        ViewStep::Hide(secret.clone()),
    ];
    trial.plan.view.splice(0..0, view);
    let script = format!(
        "cat {} {} {}; ls {}; cp -r {} copied; cat copied/*; echo here",
        tool.display(),
        secret.display(),
        covered.display(),
        covered.parent().unwrap().display(),
        folder.display()
    );
    trial.run(&script).says("SHOWN").says("here").never_says("CANARY").never_says("key\n");
}

/// As an agent that only reads sees its project: journals and what is denied are hidden in it.
fn a_project_with_something_hidden_can_be_listed() {
    let mut trial = trial();
    let secret = trial.outside("p/secrets/key", "CANARY");
    let project = secret.parent().unwrap().parent().unwrap().to_owned();
    trial.outside("p/src/a.txt", "SHOWN");
    let view = [ViewStep::Show(project.clone()), ViewStep::Hide(secret.parent().unwrap().to_owned())];
    trial.plan.view.extend(view);
    let script =
        format!("cd {}; ls; cat src/*; cat secrets/key; cp -r secrets /tmp/x; echo here", project.display());
    trial.run(&script).says("secrets\nsrc\n").says("SHOWN").says("here").never_says("CANARY");
}

fn the_home_is_the_commands_own() {
    let mut trial = trial();
    let home = trial.outside("home/.ssh/id", "CANARY").parent().unwrap().parent().unwrap().to_owned();
    let tools = trial.outside("home/.tools/tool", "SHOWN").parent().unwrap().to_owned();
    let content = trial.folder("own");
    let steps = [ViewStep::Private { place: home.clone(), content: content.clone() }, ViewStep::Show(tools)];
    trial.plan.view.splice(0..0, steps);
    let script = format!(
        "export HOME={}; exec bash -c '[ \"$HOME\" ]; cat ~/.ssh/id; cat ~/.tools/tool; echo x > ~/.bashrc; echo here'",
        home.display()
    );
    // The variables are those that the helper is started with.
    trial
        .run_with(
            "HOME",
            &home,
            "cat ~/.ssh/id; cat ~/.tools/tool; echo mine > ~/.made; echo x > $TMPDIR/t; echo here",
        )
        .says("SHOWN")
        .says("here")
        .never_says("CANARY");
    assert_eq!(fs::read_to_string(content.join(".made")).unwrap(), "mine\n");
    assert!(fs::exists(trial.plan.temporary.join("t")).unwrap());
    trial.run(&script).says("here").never_says("CANARY");
    assert!(!home.join(".bashrc").exists() && !home.join(".made").exists());
}

fn the_network_is_held() {
    let mut trial = trial();
    let (way, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let script = format!(
        "for port in {} {}; do (echo > /dev/tcp/127.0.0.1/$port) 2>/dev/null && echo REACHED $port; done; \
         (echo x > /dev/udp/127.0.0.1/53) && echo SENT; \
         python3 -c 'import socket\nfor kind, protocol in [(1, 262), (1, 132), (3, 1), (2, 17)]:\n  try:\n    \
         socket.socket(2, kind, protocol); print(\"OPENED\", kind, protocol)\n  except OSError: pass\n\
         try:\n  s = socket.socket(); s.sendto(b\"x\", 0x20000000, (\"127.0.0.1\", {1})); print(\"SENT\")\n\
         except OSError: pass\ntry:\n  socket.socket(socket.AF_UNIX); print(\"OPENED\")\nexcept OSError as error: \
         print(error.strerror)'; echo here",
        port(&way),
        port(&other)
    );
    let ended = trial.run(&script);
    let ended = ended.says("here").says("Address family not supported by protocol");
    ended.never_says("REACHED").never_says("OPENED").never_says("SENT");
    trial.plan.network = Network::Proxy { address: std::net::Ipv4Addr::LOCALHOST, port: port(&way) };
    let ended = trial.run(&script).says("here").never_says("OPENED").never_says("SENT");
    // Before version 4, nothing holds a connection to a port, so there is none.
    let reached = format!("REACHED {}\n", port(&way));
    assert_eq!(ended.output.contains(&reached), landlock_version() >= 4, "{}", ended.output);
    ended.never_says(&format!("REACHED {}\n", port(&other)));
}

fn processes_outside_are_out_of_reach() {
    let trial = trial();
    let mut bystander = Command::new("sleep").arg("300").env("CANARY", "CANARY-VALUE").spawn().unwrap();
    let script = format!(
        "cat /proc/{0}/environ /proc/$PPID/environ; ls -l /proc/$PPID/fd; grep -a CANARY /proc/*/environ; \
         kill -9 {0}; kill -9 $PPID; echo here",
        bystander.id()
    );
    let ended = trial.run(&script).never_says("CANARY-VALUE").never_says("socket:");
    if landlock_version() >= 6 {
        ended.says("here");
        assert!(bystander.try_wait().unwrap().is_none(), "the process outside was killed");
    }
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

const DETACHED: &str = "trap '' TERM; (setsid bash -c 'trap \"\" TERM; echo > begun; while :; do echo >> beats; sleep 0.01; \
                        done' </dev/null >/dev/null 2>&1 &) ; until [ -e begun ]; do sleep 0.01; done";

fn what_is_left_is_ended() {
    let trial = trial();
    let ended = trial.run(DETACHED).exits(0);
    let Some(HelperReport::Ended { leftovers, .. }) = ended.report else { panic!("{:?}", ended.report) };
    assert!(leftovers >= 1, "{leftovers}");
    trial.falls_silent("beats");
}

fn all_ends_with_the_parent() {
    for ends in ["the parent is gone", "asked to end now", "asked to end"] {
        let trial = trial();
        let mut running = trial.start(&format!("{DETACHED}; while :; do sleep 0.01; done"), None);
        trial.beats(&mut running, "beats");
        let helper = rustix::process::Pid::from_child(&running.child);
        let send = |signal| rustix::process::kill_process(helper, signal).unwrap();
        match ends {
            "asked to end now" => send(END_NOW),
            "asked to end" => send(rustix::process::Signal::TERM),
            _ => drop(running.control.take()),
        }
        running.child.wait().unwrap();
        trial.falls_silent("beats");
    }
}
