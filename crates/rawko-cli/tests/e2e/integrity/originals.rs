//! The state that a run began with is in the repository, where agents can write.

use super::python::{FIX_PYTHON, UNIT};

/// Lets the object of the test hold the weakened one.
const OVERWRITE: &str = "old=$(git rev-parse HEAD:tests/test_app.py); new=$(git hash-object -w tests/test_app.py); \
                         f=.git/objects/${old:0:2}/${old:2}; chmod u+w $f; cp .git/objects/${new:0:2}/${new:2} $f";
const WEAKEN: &str = "sed -i 's/, 3)/, -1)/' tests/test_app.py";

#[test]
fn an_original_that_was_overwritten_or_removed_is_no_proof() {
    let remove = |names: &str| {
        format!("for name in $({names}); do rm -f .git/objects/${{name:0:2}}/${{name:2}}; done")
    };
    for (command, path) in [
        (OVERWRITE.to_owned(), "git object"),
        (remove("git rev-parse HEAD:tests/test_app.py"), "git object"),
        (remove("git for-each-ref --format='%(objectname)' refs/rawko"), "git object"),
        // The run knows what was in it.
        (remove("git for-each-ref --format='%(tree)' refs/rawko"), "tests/test_app.py"),
    ] {
        UNIT.claimed(&[WEAKEN, &command], path);
    }
}

#[test]
fn a_ref_that_was_moved_is_not_followed() {
    let moved = "tree=$(git write-tree); kept=$(git commit-tree $tree -m x </dev/null); \
                 for ref in $(git for-each-ref --format='%(refname)' refs/rawko); do git update-ref $ref $kept; done";
    UNIT.claimed(&[WEAKEN, "git add tests", moved], "tests/test_app.py");
}

/// Git packs and prunes on its own account, too.
#[test]
fn a_repository_may_be_packed_meanwhile() {
    UNIT.verified(&[FIX_PYTHON, "git gc -q --prune=now"], "intact");
    UNIT.verified(
        &[FIX_PYTHON, "mv tests/test_app.py tests/test_adding.py; git repack -q -a -d"],
        "originals_pass",
    );
}
