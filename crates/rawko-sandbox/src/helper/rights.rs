//! Gives up every right that the command does not need. No process below gets back a right that is given up here.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus,
    Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::seccomp::Sockets;
use super::{StepResult, during, seccomp, visible};
use crate::plan::{ConfinementPlan, Network, ViewStep, Wall};
use crate::sys::landlock_version;

/// What a process of the user root may need for files of other users. It holds inside the namespace alone.
const OF_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// The first version of Landlock that holds TCP to ports.
const HOLDS_PORTS: i32 = 4;

/// Gives them up.
pub(super) fn give_up(plan: &ConfinementPlan) -> StepResult<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::Nproc, plan.max_processes)?;
    drop_capabilities(&plan.wall)?;
    during("forbidding new rights", set_no_new_privs(true))?;
    let status = match &plan.wall {
        // The first version of Landlock moves no file from one folder to another, which tools do all the time, and cannot
        // be asked to.
        Wall::Namespaces | Wall::Bubblewrap { .. } if landlock_version() < 2 => Ok(()),
        Wall::Namespaces | Wall::Bubblewrap { .. } => restrict_writing(plan).map(drop),
        Wall::Landlock => restrict_all(plan).and_then(|status| match status {
            RulesetStatus::NotEnforced => Err("this kernel has no Landlock".into()),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }),
    };
    during("restricting files", status)?;
    let sockets = match (&plan.wall, plan.network) {
        // On the machine's network, abstract names are those of the machine.
        (Wall::Namespaces | Wall::Bubblewrap { .. }, Network::Shared) => Sockets::Internet,
        (Wall::Namespaces | Wall::Bubblewrap { .. }, _) => Sockets::InternetAndUnix,
        (Wall::Landlock, Network::Proxy { .. }) if landlock_version() >= HOLDS_PORTS => Sockets::Tcp,
        (Wall::Landlock, _) => Sockets::None,
    };
    during("filtering system calls", seccomp::apply(sockets))
}

/// Lowers a limit; a lower one that is there already stays.
fn limit(resource: Resource, most: u64) -> StepResult<()> {
    let now = getrlimit(resource);
    let least = |bound: Option<u64>| Some(bound.map_or(most, |bound| bound.min(most)));
    let limit = Rlimit { current: least(now.current), maximum: least(now.maximum) };
    during("setting limits", setrlimit(resource, limit))
}

fn drop_capabilities(wall: &Wall) -> StepResult<()> {
    let wanted = match (rustix::process::geteuid().is_root(), wall) {
        (true, Wall::Namespaces) => OF_ROOT,
        // There root is root. It may need its files' rights, and no other user.
        (true, Wall::Bubblewrap { .. } | Wall::Landlock) => {
            OF_ROOT.difference(CapabilitySet::SETGID | CapabilitySet::SETUID)
        }
        (false, _) => CapabilitySet::empty(),
    };
    let kept = wanted & during("reading capabilities", capabilities(None))?.permitted;
    for capability in CapabilitySet::all().difference(kept).iter() {
        match remove_capability_from_bounding_set(capability) {
            // This kernel does not know the capability.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            // Only a process that has a right can drop it for good; one that has none gets none, as no program gives
            // new ones.
            Err(rustix::io::Errno::PERM) if *wall != Wall::Namespaces => {}
            Err(error) => return Err(format!("dropping capabilities: {error}")),
        }
    }
    during("dropping capabilities", clear_ambient_capability_set())?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    during("dropping capabilities", set_capabilities(None, sets))
}

type RuleResult = Result<RulesetStatus, Box<dyn std::error::Error>>;

/// The newest version whose rules are used. The kernel takes what it knows.
const NEWEST: ABI = ABI::V6;

/// The second wall around files: writing only where it is granted, also if a mount could be undone. Where there is no
/// Landlock, there are only the mounts.
fn restrict_writing(plan: &ConfinementPlan) -> RuleResult {
    let fixed = ["/tmp", "/var/tmp", "/dev", "/proc/self"].map(PathBuf::from);
    let writable: Vec<PathBuf> = plan
        .steps()
        .filter_map(|step| match step {
            ViewStep::Grant(place)
            | ViewStep::Layer { folder: place, .. }
            | ViewStep::Private { place, .. } => Some(place.clone()),
            ViewStep::Cover(_)
            | ViewStep::Show(_)
            | ViewStep::Link { .. }
            | ViewStep::Protect(_)
            | ViewStep::Pin(_)
            | ViewStep::Hide(_)
            | ViewStep::Placeholders { .. }
            | ViewStep::Text { .. } => None,
        })
        .chain(fixed)
        .collect();
    let rules = ruleset()?.scope(Scope::AbstractUnixSocket)?.create()?;
    let rules = grant(rules, &[PathBuf::from("/")], AccessFs::from_read(NEWEST))?;
    let rules = grant(rules, &writable, AccessFs::from_all(NEWEST))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// The only wall: reading, writing, signals and the network.
fn restrict_all(plan: &ConfinementPlan) -> RuleResult {
    let fixed = visible::DEVICES.map(PathBuf::from).into_iter().chain([plan.temporary.clone()]);
    let writable: Vec<PathBuf> = plan
        .steps()
        .filter_map(|step| match step {
            ViewStep::Grant(place) | ViewStep::Private { content: place, .. } => Some(place.clone()),
            ViewStep::Cover(_)
            | ViewStep::Show(_)
            | ViewStep::Link { .. }
            | ViewStep::Layer { .. }
            | ViewStep::Protect(_)
            | ViewStep::Pin(_)
            | ViewStep::Hide(_)
            | ViewStep::Placeholders { .. }
            | ViewStep::Text { .. } => None,
        })
        .chain(fixed)
        .collect();
    let rules = ruleset()?.handle_access(AccessNet::from_all(NEWEST))?;
    let mut rules = rules.scope(Scope::AbstractUnixSocket | Scope::Signal)?.create()?;
    if let Network::Proxy { port, .. } = plan.network {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let seen = visible::visible(plan.steps());
    let rules = grant(rules, &seen.readable, AccessFs::from_read(NEWEST))?;
    let rules = grant(rules, &seen.listable, AccessFs::ReadDir.into())?;
    let rules = grant(rules, &writable, AccessFs::from_all(NEWEST))?;
    Ok(rules.restrict_self()?.ruleset)
}

fn ruleset() -> Result<Ruleset, RulesetError> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    rules.handle_access(AccessFs::from_all(NEWEST))
}

/// Grants `access` to places; those that are not there need no rule.
fn grant(
    mut rules: RulesetCreated,
    places: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for place in places {
        let Ok(folder) = PathFd::new(place) else { continue };
        let access = if place.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        rules = rules.add_rule(PathBeneath::new(folder, access))?;
    }
    Ok(rules)
}
