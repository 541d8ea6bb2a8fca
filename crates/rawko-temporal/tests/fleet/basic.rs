//! A task from its submission to its end.

use rawko::journal::Folding;
use rawko_core::session::Status;
use rawko_temporal::EngineState;

use crate::world::{World, bash, developer, write};

pub(crate) fn a_task_ends_the_same_in_its_journal_and_on_the_engine() {
    let Some(world) =
        World::new(developer(vec![write("one.txt", "1\n"), bash("cat one.txt && echo two > two.txt")]))
    else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("first", "Write two files.");
    let ended = world.ended(&fleet, "first");
    let status = ended.status.unwrap();
    let outcome = status.outcome.clone().unwrap_or_else(|| panic!("{status:?}\n{}", world.logs()));
    assert_eq!((ended.engine, outcome.status), (EngineState::Completed, Status::Claimed), "{}", world.logs());

    let mut folding = Folding::default();
    for event in world.events(&fleet, "first") {
        let _ = folding.apply(&event);
    }
    assert_eq!(folding.folded().session.outcome().as_ref(), Some(&outcome));
    assert_eq!(outcome.files_modified, ["one.txt", "two.txt"]);

    assert_eq!(world.git(&["show", "rawko/first:one.txt"]), "1\n");
    assert_eq!(world.git(&["show", "rawko/first:two.txt"]), "two\n");
    assert_eq!(world.effects("first").len(), 2, "a commit for each effect that changed the tree");
    assert_eq!(status.head.unwrap().as_str(), world.git(&["rev-parse", "rawko/first"]).trim());
}

pub(crate) fn what_a_verification_leaves_is_on_the_branch() {
    let Some(world) = World::new(developer(vec![write("one.txt", "1\n")])) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("proven", "Write a file.");
    spec.options.verify = Some(vec!["test -e one.txt && echo 1.2.3 > versions.lock".to_owned()]);
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let status = world.ended(&fleet, "proven").status.unwrap();
    assert_eq!(status.outcome.unwrap().status, Status::Verified);
    assert_eq!(world.git(&["show", "rawko/proven:versions.lock"]), "1.2.3\n");
    assert_eq!(status.head.unwrap().as_str(), world.git(&["rev-parse", "rawko/proven"]).trim());
}
