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

/// The kinds of socket that a command may open: those of the Internet. A pair of connected Unix sockets is no way out
/// and stays allowed.
const SOCKETS: [libc::c_int; 2] = [libc::AF_INET, libc::AF_INET6];

/// Applies the filter to this process and all below it.
pub(super) fn apply() -> Result<(), Box<dyn std::error::Error>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    // Programs learn from ENOSYS that there is no clone3, and use clone, whose arguments a filter can see.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let refuse = |rules, errno: libc::c_int| -> Result<BpfProgram, Box<dyn std::error::Error>> {
        let action = SeccompAction::Errno(u32::try_from(errno)?);
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()?)
    };
    #[cfg(target_arch = "x86_64")]
    apply_filter(&no_x32())?;
    apply_filter(&refuse(unknown, libc::ENOSYS)?)?;
    apply_filter(&refuse(refused()?, libc::EPERM)?)?;
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

fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let bits = |argument, bits: libc::c_int| {
        let bits = u64::from(bits.cast_unsigned());
        SeccompRule::new(vec![Condition::new(argument, Length::Dword, Is::MaskedEq(bits), bits)?])
    };
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let any = NAMESPACES.iter().map(|namespace| bits(0, *namespace)).collect::<Result<_, _>>()?;
        rules.insert(call, any);
    }
    let others =
        SOCKETS.iter().map(|kind| Condition::new(0, Length::Dword, Is::Ne, u64::from(kind.cast_unsigned())));
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?]);
    // From a datagram socket of a pair anything can be sent to any other by its path.
    let datagram = u64::from(libc::SOCK_DGRAM.cast_unsigned());
    let datagram = Condition::new(1, Length::Dword, Is::MaskedEq(0xf), datagram)?;
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![datagram])?]);
    // Typing into a terminal.
    let equals = |value: u64| SeccompRule::new(vec![Condition::new(1, Length::Dword, Is::Eq, value)?]);
    rules.insert(libc::SYS_ioctl, vec![equals(libc::TIOCSTI)?, equals(libc::TIOCLINUX)?]);
    Ok(rules)
}
