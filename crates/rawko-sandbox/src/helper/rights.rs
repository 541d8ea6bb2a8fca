//! Gives up every right that the command does not need. What is given up here, no process below gets back.

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::{StepResult, during, seccomp};
use crate::plan::{Plan, Step};
use crate::sys;

/// What a process of the user root may need for files of other users. It holds inside the namespace alone.
const OF_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Gives them up.
pub(super) fn give_up(plan: &Plan) -> StepResult<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::Nproc, plan.max_processes)?;
    drop_capabilities()?;
    during("forbidding new rights", set_no_new_privs(true))?;
    restrict_files(plan)?;
    during("filtering system calls", seccomp::apply())
}

/// Lowers a limit; a lower one that is there already stays.
fn limit(resource: Resource, most: u64) -> StepResult<()> {
    let now = getrlimit(resource);
    let least = |bound: Option<u64>| Some(bound.map_or(most, |bound| bound.min(most)));
    let limit = Rlimit { current: least(now.current), maximum: least(now.maximum) };
    during("setting limits", setrlimit(resource, limit))
}

fn drop_capabilities() -> StepResult<()> {
    let kept = if rustix::process::geteuid().is_root() { OF_ROOT } else { CapabilitySet::empty() };
    for capability in CapabilitySet::all().difference(kept).iter() {
        match remove_capability_from_bounding_set(capability) {
            // This kernel does not know the capability.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(format!("dropping capabilities: {error}")),
        }
    }
    during("dropping capabilities", clear_ambient_capability_set())?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    during("dropping capabilities", set_capabilities(None, sets))
}

/// The second wall around files: writing only where it is granted, also if a mount could be undone.
fn restrict_files(plan: &Plan) -> StepResult<()> {
    // Without Landlock the mounts stand alone. Its first version moves no file from one folder to another, which tools do
    // all the time, and cannot be asked to.
    if sys::landlock_version() < 2 {
        return Ok(());
    }
    // A kernel that knows less takes what it knows.
    let abi = ABI::V6;
    let writable = plan.base.iter().filter_map(|step| match step {
        Step::Grant(place) | Step::Layer { folder: place, .. } | Step::Private { place, .. } => {
            Some(place.as_path())
        }
        Step::Cover(_)
        | Step::Show(_)
        | Step::Link { .. }
        | Step::Protect(_)
        | Step::Pin(_)
        | Step::Hide(_) => None,
    });
    let fixed = ["/tmp", "/var/tmp", "/dev", "/proc/self"].map(std::path::Path::new);
    let apply = || -> Result<RulesetStatus, Box<dyn std::error::Error>> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .scope(Scope::AbstractUnixSocket)?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::from_read(abi)))?;
        for place in writable.chain(fixed) {
            let Ok(folder) = PathFd::new(place) else { continue };
            let access = if place.is_dir() { AccessFs::from_all(abi) } else { AccessFs::from_file(abi) };
            rules = rules.add_rule(PathBeneath::new(folder, access))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    };
    during("restricting files", apply()).map(drop)
}
