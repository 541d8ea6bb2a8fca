//! One test for each guard. Most attacks meet two walls; these tests look at each wall by itself, so that none can be
//! taken away unseen.

use std::fmt::Write as _;
use std::fs;

use rawko_sandbox::Wall;

use super::trial::{Ended, Trial, WALL};

pub(super) const TESTS: [(&str, fn()); 11] = [
    ("refused_system_calls_are_refused_by_the_filter", refused_system_calls_are_refused_by_the_filter),
    ("namespaces_cannot_be_made", namespaces_cannot_be_made),
    ("no_file_lends_its_owners_rights", no_file_lends_its_owners_rights),
    ("unix_sockets_are_connected_before_they_send", unix_sockets_are_connected_before_they_send),
    ("interfaces_are_listed_and_not_changed", interfaces_are_listed_and_not_changed),
    ("nothing_is_typed_into_a_terminal", nothing_is_typed_into_a_terminal),
    ("rights_are_given_up", rights_are_given_up),
    ("every_namespace_is_a_new_one", every_namespace_is_a_new_one),
    ("a_queue_of_the_machine_is_not_there", a_queue_of_the_machine_is_not_there),
    ("mounts_are_closed", mounts_are_closed),
    ("folders_of_the_machine_are_covered", folders_of_the_machine_are_covered),
];

/// Runs a program in Python that has `call(number, *arguments)`: the name of the error, or `OK`.
fn python(trial: &Trial, program: &str) -> Ended {
    let head = "import ctypes, errno, os, socket\n\
                libc = ctypes.CDLL(None, use_errno=True)\n\
                def call(number, *arguments):\n    \
                    ctypes.set_errno(0)\n    \
                    arguments = [ctypes.c_long(argument) for argument in arguments]\n    \
                    if libc.syscall(ctypes.c_long(number), *arguments) >= 0: return 'OK'\n    \
                    return errno.errorcode.get(ctypes.get_errno(), 'UNKNOWN')\n";
    fs::write(trial.project().join("tries.py"), format!("{head}{program}")).unwrap();
    trial.run("python3 -S tries.py")
}

/// The calls that fail with another error, or not at all, where no filter refuses them: their arguments are zeros.
const CALLS: [(&str, libc::c_long); 27] = [
    ("add_key", libc::SYS_add_key),
    ("bpf", libc::SYS_bpf),
    ("clock_adjtime", libc::SYS_clock_adjtime),
    ("clock_settime", libc::SYS_clock_settime),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fsopen", libc::SYS_fsopen),
    ("fspick", libc::SYS_fspick),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("keyctl", libc::SYS_keyctl),
    ("mount", libc::SYS_mount),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("move_mount", libc::SYS_move_mount),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("open_tree", libc::SYS_open_tree),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("pivot_root", libc::SYS_pivot_root),
    ("quotactl", libc::SYS_quotactl),
    ("request_key", libc::SYS_request_key),
    ("setns", libc::SYS_setns),
    ("syslog", libc::SYS_syslog),
    ("umount2", libc::SYS_umount2),
    ("userfaultfd", libc::SYS_userfaultfd),
];

fn refused_system_calls_are_refused_by_the_filter() {
    let mut program = String::new();
    for (name, number) in CALLS {
        writeln!(program, "print('{name}', call({number}, 0, 0, 0, 0, 0, 0))").unwrap();
    }
    // Programs learn from this error to use `clone`.
    writeln!(program, "print('clone3', call({}, 0, 0))", libc::SYS_clone3).unwrap();
    // An x32 call, which kernels without x32 do not know.
    #[cfg(target_arch = "x86_64")]
    writeln!(program, "print('x32', call({}, 1, 1, 0))", libc::SYS_socket | 0x4000_0000).unwrap();
    let ended = python(&Trial::new(), &program).exits(0);
    let mut expected: Vec<String> = CALLS.iter().map(|(name, _)| format!("{name} EPERM")).collect();
    expected.push("clone3 ENOSYS".to_owned());
    #[cfg(target_arch = "x86_64")]
    expected.push("x32 EPERM".to_owned());
    assert_eq!(ended.output.lines().collect::<Vec<_>>(), expected);
}

fn namespaces_cannot_be_made() {
    let program = format!(
        "print(call({unshare}, {user}), call({unshare}, {user} | {mount}), call({clone}, {user} | 17, 0, 0, 0, 0))\n",
        unshare = libc::SYS_unshare,
        clone = libc::SYS_clone,
        user = libc::CLONE_NEWUSER,
        mount = libc::CLONE_NEWNS,
    );
    let ended = python(&Trial::new(), &program);
    assert_eq!(ended.output.trim(), "EPERM EPERM EPERM");
}

fn no_file_lends_its_owners_rights() {
    let trial = Trial::new();
    let (creates, temporary) = (libc::O_CREAT | libc::O_WRONLY, libc::O_TMPFILE | libc::O_WRONLY);
    let mut program = "from ctypes import c_char_p, addressof, create_string_buffer\n\
                       def path(name): path.kept.append(create_string_buffer(name)); return addressof(path.kept[-1])\n\
                       path.kept = []\n\
                       open('file', 'w').close(); fd = os.open('file', os.O_RDONLY); os.mkdir('folder')\n"
        .to_owned();
    let mut expected = Vec::new();
    let mut tries = |name: &str, call: String| {
        for mode in ["0o4755", "0o2755", "0o6777", "0o755"] {
            let call = call.replace("MODE", mode).replace("NEW", &format!("b'{name}{mode}'"));
            writeln!(program, "print('{name} {mode}', call({call}))").unwrap();
            expected.push(format!("{name} {mode} {}", if mode == "0o755" { "OK" } else { "EPERM" }));
        }
    };
    tries("fchmod", format!("{}, fd, MODE", libc::SYS_fchmod));
    tries("fchmodat", format!("{}, -100, path(b'file'), MODE", libc::SYS_fchmodat));
    tries("fchmodat of a folder", format!("{}, -100, path(b'folder'), MODE", libc::SYS_fchmodat));
    tries("openat", format!("{}, -100, path(NEW), {creates}, MODE", libc::SYS_openat));
    tries("a temporary file", format!("{}, -100, path(b'.'), {temporary}, MODE", libc::SYS_openat));
    tries("mknodat", format!("{}, -100, path(NEW), MODE | 0o100000, 0", libc::SYS_mknodat));
    #[cfg(target_arch = "x86_64")]
    {
        tries("chmod", format!("{}, path(b'file'), MODE", libc::SYS_chmod));
        tries("creat", format!("{}, path(NEW), MODE", libc::SYS_creat));
        tries("open", format!("{}, path(NEW), {creates}, MODE", libc::SYS_open));
        tries("mknod", format!("{}, path(NEW), MODE | 0o100000, 0", libc::SYS_mknod));
    }
    // Before Linux 6.6 the filter still answers first.
    writeln!(program, "print('fchmodat2', call(452, -100, path(b'file'), 0o4755, 0))").unwrap();
    expected.push("fchmodat2 EPERM".to_owned());
    writeln!(program, "print('openat2', call({}, 0, 0, 0, 0))", libc::SYS_openat2).unwrap();
    expected.push("openat2 ENOSYS".to_owned());
    // Where no file is made, the mode means nothing.
    writeln!(program, "print('opened', call({}, -100, path(b'file'), 0, 0o4755))", libc::SYS_openat).unwrap();
    expected.push("opened OK".to_owned());
    let ended = python(&trial, &program).exits(0);
    assert_eq!(ended.output.lines().collect::<Vec<_>>(), expected);
    let script =
        "cp /bin/true tool; chmod u+s tool; chmod 6755 tool; install -m 4755 /bin/true installed; echo here";
    trial.run(script).says("here");
    let is_set = |file: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(file).unwrap().permissions().mode() & 0o6000 != 0
    };
    for entry in fs::read_dir(trial.project()).unwrap() {
        let file = entry.unwrap().path();
        assert!(!is_set(&file), "{}", file.display());
    }
}

/// Others send to whatever path they like.
fn unix_sockets_are_connected_before_they_send() {
    let program = "for make in (socket.socket, socket.socketpair):\n    for kind in (socket.SOCK_STREAM, \
                   socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_RAW):\n        try:\n            \
                   make(socket.AF_UNIX, kind)\n            print('OK')\n        except OSError as error:\n            \
                   print(errno.errorcode[error.errno])\n";
    let ended = python(&Trial::new(), program);
    let expected = ["OK", "OK", "EPERM", "EPERM"].repeat(2);
    assert_eq!(ended.output.split_whitespace().collect::<Vec<_>>(), expected);
}

/// Programs list the addresses at which they serve. Other protocols of these sockets reach other parts of the kernel.
fn interfaces_are_listed_and_not_changed() {
    let program = "import struct\nprint(sorted(name for _, name in socket.if_nameindex())[0])\n\
                   for protocol in (4, 9, 10, 15, 16):\n    try:\n        socket.socket(socket.AF_NETLINK, \
                   socket.SOCK_RAW, protocol)\n        print('OPENED', protocol)\n    except OSError as error:\n        \
                   print(errno.errorcode[error.errno])\n\
                   s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n\
                   s.send(struct.pack('IHHII', 32, 16, 0x605, 1, 0) + bytes(16))\n\
                   print(errno.errorcode[-struct.unpack('i', s.recv(4096)[16:20])[0]])\n";
    let ended = python(&Trial::new(), program);
    let expected = ["lo", "EPERM", "EPERM", "EPERM", "EPERM", "EPERM", "EPERM"];
    assert_eq!(ended.output.split_whitespace().collect::<Vec<_>>(), expected);
}

fn nothing_is_typed_into_a_terminal() {
    let program = "import fcntl, pty, termios\n_, terminal = pty.openpty()\nfcntl.ioctl(terminal, termios.TIOCSCTTY, 0) \
                   if os.getpid() == os.getsid(0) else None\ntry:\n    fcntl.ioctl(terminal, termios.TIOCSTI, b'x')\n    \
                   print('TYPED')\nexcept OSError as error:\n    print(errno.errorcode[error.errno])\n\
                   print('session', os.getsid(0))\ntry:\n    open('/dev/tty')\n    print('TERMINAL')\nexcept OSError as \
                   error:\n    print(errno.errorcode[error.errno])\n";
    let ended = python(&Trial::new(), program);
    assert_eq!(ended.output.lines().collect::<Vec<_>>(), ["EPERM", "session 1", "ENXIO"]);
}

fn rights_are_given_up() {
    let ended = Trial::new().run("cat /proc/self/status; ulimit -c; ulimit -H -u");
    let field = |name: &str| {
        let line = ended.output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {}", ended.output)).trim().to_owned()
    };
    let is_root = rustix::process::geteuid().is_root();
    // For files of others: chown, dac_override, fowner, fsetid, setgid, setuid.
    let kept = match (is_root, WALL.with_borrow(|wall| *wall == Wall::Namespaces)) {
        (true, true) => "00000000000000db",
        // There root is root, and becomes no other user.
        (true, false) => "000000000000001b",
        (false, _) => "0000000000000000",
    };
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert_eq!(field(set), kept, "{set}");
    }
    assert_eq!((field("CapInh"), field("CapAmb")), ("0".repeat(16), "0".repeat(16)));
    assert_eq!((field("NoNewPrivs").as_str(), field("Seccomp").as_str()), ("1", "2"));
    assert_eq!(ended.output.lines().rev().nth(1), Some("0"), "no core is written: {}", ended.output);
    let score = Trial::new().run(
        "cat /proc/self/oom_score_adj; (echo 0 > /proc/self/oom_score_adj) 2>/dev/null; \
                                  cat /proc/self/oom_score_adj",
    );
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse::<i32>().unwrap();
    let raised = own.max(500).to_string();
    assert_eq!(score.output.lines().collect::<Vec<_>>(), [raised.as_str(), raised.as_str()]);
    // A right that was given up: only with it can a process change its root.
    let ended = python(
        &Trial::new(),
        "try:\n    os.chroot('/')\n    print('CHANGED')\nexcept OSError: print('refused')\n",
    );
    assert_eq!(ended.output.trim(), "refused");
}

fn every_namespace_is_a_new_one() {
    let names = ["ipc", "mnt", "net", "pid", "user", "uts"];
    let ended = Trial::new().run("for n in ipc mnt net pid user uts; do readlink /proc/self/ns/$n; done");
    let inside: Vec<&str> = ended.output.lines().collect();
    assert_eq!(inside.len(), names.len(), "{}", ended.output);
    for (name, inside) in names.iter().zip(inside) {
        let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert_ne!(outside.to_str(), Some(inside), "{name}");
    }
}

#[allow(unsafe_code, reason = "message queues have no safe interface")]
fn a_queue_of_the_machine_is_not_there() {
    let key = 0x7261_776b;
    // SAFETY: the call takes numbers.
    let queue = unsafe { libc::msgget(key, libc::IPC_CREAT | 0o666) };
    assert!(queue >= 0, "{}", std::io::Error::last_os_error());
    let ended = python(&Trial::new(), &format!("print(libc.msgget({key}, 0))\n"));
    // SAFETY: the queue was made above, and no pointer is passed.
    unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
    assert_eq!(ended.output.trim(), "-1");
}

/// Landlock would refuse to write as well, with another error.
fn mounts_are_closed() {
    let mut trial = Trial::new();
    let shown = trial.outside("shown/file", "theirs");
    let covered = trial.folder("outside");
    let shown_folder = covered.join("shown");
    trial.covers_and_shows(&covered, &shown_folder);
    let (covered, shown) = (covered.display(), shown.display());
    let ended = trial.run(&format!(
        "for p in {covered}/new /run/new /dev/new /proc/self/oom_score_adj /usr/new {shown}; do (: >> $p) 2>&1; done; cat {shown}; \
         grep -v nosuid /proc/self/mountinfo | grep -v ' /dev/'; echo here"
    ));
    assert_eq!(ended.output.matches("Read-only file system").count(), 6, "{}", ended.output);
    assert!(
        ended.output.ends_with("theirshere\n"),
        "a mount takes programs with rights of their own: {}",
        ended.output
    );
}

fn folders_of_the_machine_are_covered() {
    let name = format!("rawko-canary-{}", std::process::id());
    let places: Vec<_> =
        ["/tmp", "/var/tmp", "/dev/shm", "/run"].iter().map(|place| format!("{place}/{name}")).collect();
    let made: Vec<_> = places.iter().filter(|place| fs::write(place, "CANARY").is_ok()).collect();
    let ended = Trial::new().run(&format!("cat {}; echo here", places.join(" ")));
    made.iter().for_each(|place| fs::remove_file(place).unwrap());
    assert!(made.len() >= 3, "{made:?}");
    ended.says("here").never_says("CANARY");
}
