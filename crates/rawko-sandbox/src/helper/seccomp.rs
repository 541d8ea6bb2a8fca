//! System calls that no command needs: those that reach out of the namespaces, and those that widen the kernel's surface.
//!
//! All others are allowed, because commands are any programs. A call that is refused fails with `EPERM`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// Refused whatever their arguments.
const REFUSED: [libc::c_long; 43] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// New namespaces, by `clone` or `unshare`.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// The sockets of the Internet.
const INTERNET: [libc::c_int; 2] = [libc::AF_INET, libc::AF_INET6];
/// The types of Unix socket that send to whatever path they like, connected or not. The second is another name of the first.
const UNIX_DATAGRAMS: [libc::c_int; 2] = [libc::SOCK_DGRAM, libc::SOCK_RAW];
/// The part of an argument that is a socket's type.
const SOCKET_TYPE: u64 = 0xf;

/// The sockets that a command may open. A pair of connected Unix sockets is no way out and always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Those of the Internet, Unix sockets that are connected before they send, and those that list the interfaces: in
    /// namespaces of its own, where those of others are not there.
    InternetAndUnix,
    /// Those of the Internet.
    Internet,
    /// Those of the Internet that speak plain TCP: Landlock holds no others to their ports.
    Tcp,
    /// None.
    None,
}

/// Kinds of socket that are not a stream.
const NOT_STREAMS: [libc::c_int; 5] =
    [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP];
/// Calls that can connect while they send, and which of their arguments says so.
const SENDS: [(libc::c_long, u8); 3] =
    [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];

/// Shared memory, semaphores and queues of System V. Where there are namespaces, the command has its own.
const SYSTEM_V: [libc::c_long; 11] = [
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// The bits of a file's mode that give any user who runs it the rights of its owner or its group: outside the sandbox,
/// where the file stays, those are the user's.
const SET_ID: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];
/// Calls that set a mode, and which of their arguments it is.
const MODES: [(libc::c_long, u8); 4] =
    [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (SYS_FCHMODAT2, 2), (libc::SYS_mknodat, 2)];
/// The same in the form that newer machines do not have.
#[cfg(target_arch = "x86_64")]
const OLD_MODES: [(libc::c_long, u8); 3] = [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MODES: [(libc::c_long, u8); 0] = [];
/// Since Linux 6.6, with the same number on every machine.
const SYS_FCHMODAT2: libc::c_long = 452;
/// Calls that may make a file, and which of their arguments are the flags and the mode. Without these flags they make none,
/// and the mode may be anything.
const OPENS: &[(libc::c_long, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];
/// The bit of `O_TMPFILE` that is not that of `O_DIRECTORY`.
const MAKES_TEMPORARY: libc::c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Applies the filter to this process and all below it.
pub(super) fn apply(sockets: Sockets) -> Result<(), Box<dyn std::error::Error>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    // Programs learn from ENOSYS that there is no clone3 and no openat2, and use clone and openat, whose arguments a filter
    // can see.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]);
    let refuse = |rules, errno: libc::c_int| -> Result<BpfProgram, Box<dyn std::error::Error>> {
        let action = SeccompAction::Errno(u32::try_from(errno)?);
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()?)
    };
    #[cfg(target_arch = "x86_64")]
    apply_filter(&no_x32())?;
    apply_filter(&refuse(unknown, libc::ENOSYS)?)?;
    apply_filter(&refuse(refused(sockets)?, libc::EPERM)?)?;
    if matches!(sockets, Sockets::Tcp | Sockets::None) {
        // By this error, which no other call gives, it is known what was refused.
        let unix = Condition::new(0, Length::Dword, Is::Eq, u64::from(libc::AF_UNIX.cast_unsigned()))?;
        let unix = BTreeMap::from([(libc::SYS_socket, vec![SeccompRule::new(vec![unix])?])]);
        apply_filter(&refuse(unix, libc::EAFNOSUPPORT)?)?;
    }
    Ok(())
}

/// Refuses the system calls of the x32 interface, which no program uses. They have numbers of their own, so no other filter
/// knows them.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    /// Set in the number of every such call.
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jf, k| {
        // The codes are below 256.
        #[allow(clippy::cast_possible_truncation)]
        let code = code as u16;
        seccompiler::sock_filter { code, jt: 0, jf, k }
    };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    vec![
        // The number is the first field.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, refusal),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn refused(sockets: Sockets) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let bits = |argument, bits: libc::c_int| {
        let bits = u64::from(bits.cast_unsigned());
        SeccompRule::new(vec![Condition::new(argument, Length::Dword, Is::MaskedEq(bits), bits)?])
    };
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let any = NAMESPACES.iter().map(|namespace| bits(0, *namespace)).collect::<Result<_, _>>()?;
        rules.insert(call, any);
    }
    let is_family =
        |is, family: libc::c_int| Condition::new(0, Length::Dword, is, u64::from(family.cast_unsigned()));
    let own: &[libc::c_int] =
        if sockets == Sockets::InternetAndUnix { &[libc::AF_UNIX, libc::AF_NETLINK] } else { &[] };
    let others = INTERNET.iter().chain(own).copied().map(|family| is_family(Is::Ne, family));
    let mut refused = vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?];
    let is_type = |kind: libc::c_int| {
        Condition::new(1, Length::Dword, Is::MaskedEq(SOCKET_TYPE), u64::from(kind.cast_unsigned()))
    };
    match sockets {
        Sockets::InternetAndUnix => {
            for kind in UNIX_DATAGRAMS {
                refused.push(SeccompRule::new(vec![is_family(Is::Eq, libc::AF_UNIX)?, is_type(kind)?])?);
            }
            // By this protocol programs read interfaces and routes. To change them takes a right that no command has.
            let reads = u64::from(libc::NETLINK_ROUTE.cast_unsigned());
            let other = Condition::new(2, Length::Dword, Is::Ne, reads)?;
            refused.push(SeccompRule::new(vec![is_family(Is::Eq, libc::AF_NETLINK)?, other])?);
        }
        Sockets::Internet => {}
        Sockets::Tcp => {
            for kind in NOT_STREAMS {
                refused.push(SeccompRule::new(vec![is_type(kind)?])?);
            }
            let tcp = [0, u64::from(libc::IPPROTO_TCP.cast_unsigned())];
            let other = tcp.into_iter().map(|protocol| Condition::new(2, Length::Dword, Is::Ne, protocol));
            refused.push(SeccompRule::new(other.collect::<Result<_, _>>()?)?);
            for (call, argument) in SENDS {
                rules.insert(call, vec![bits(argument, libc::MSG_FASTOPEN)?]);
            }
        }
        // No rule: whatever the arguments.
        Sockets::None => refused.clear(),
    }
    rules.insert(libc::SYS_socket, refused);
    let masked = |argument, bits: u32| {
        let bits = u64::from(bits);
        Condition::new(argument, Length::Dword, Is::MaskedEq(bits), bits)
    };
    for (call, mode) in MODES.into_iter().chain(OLD_MODES) {
        let any = SET_ID.iter().map(|bit| SeccompRule::new(vec![masked(mode, *bit)?]));
        rules.insert(call, any.collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in OPENS {
        let makes = [libc::O_CREAT, MAKES_TEMPORARY];
        let pairs = makes.iter().flat_map(|flag| SET_ID.iter().map(move |bit| (flag.cast_unsigned(), *bit)));
        let any = pairs.map(|(flag, bit)| SeccompRule::new(vec![masked(*flags, flag)?, masked(*mode, bit)?]));
        rules.insert(*call, any.collect::<Result<_, _>>()?);
    }
    // From a datagram socket of a pair anything can be sent to any other by its path.
    let datagrams = UNIX_DATAGRAMS.iter().map(|kind| SeccompRule::new(vec![is_type(*kind)?]));
    rules.insert(libc::SYS_socketpair, datagrams.collect::<Result<_, _>>()?);
    // The limits of another process: without namespaces, also of those outside.
    let another = Condition::new(0, Length::Dword, Is::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![another])?]);
    if matches!(sockets, Sockets::Tcp | Sockets::None) {
        rules.extend(SYSTEM_V.iter().map(|call| (*call, Vec::new())));
    }
    // Typing into a terminal.
    let equals = |value: u64| SeccompRule::new(vec![Condition::new(1, Length::Dword, Is::Eq, value)?]);
    // Their type is that of the C library: musl's is signed.
    rules.insert(libc::SYS_ioctl, vec![equals(libc::TIOCSTI as _)?, equals(libc::TIOCLINUX as _)?]);
    Ok(rules)
}
