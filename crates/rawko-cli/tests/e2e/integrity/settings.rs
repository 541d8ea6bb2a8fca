//! What is configured, and runs that changed nothing.

use serde_json::json;

use super::Project;
use super::python::UNIT;
use crate::answers::bash;

#[test]
fn what_may_happen_to_checks_is_configured() {
    let weaken = || vec![bash("sed -i 's/, 3)/, -1)/' tests/test_app.py")];
    let allowed = UNIT.run_with(weaken(), &["--require-verified", "--allow-changed-checks"], &[]);
    let finish = allowed.finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "allowed");
    assert_eq!(finish["verification"]["integrity"]["changed"][0]["path"], "tests/test_app.py");
    let denied =
        UNIT.run_with(weaken(), &["--max-iterations", "1"], &[("/verify/changedChecks", json!("deny"))]);
    let finish = denied.finish();
    assert_eq!(finish["status"], "limited", "{finish:#}");
    let own = UNIT.run_with(
        vec![bash("sed -i 's/a - b/a + b/' app.py")],
        &[],
        &[("/verify/tests", json!(["app.*"]))],
    );
    assert_eq!(own.finish()["verification"]["integrity"]["changed"][0]["path"], "app.py");
}

#[test]
fn a_run_that_changed_nothing_proves_nothing() {
    let green = Project { files: &[("a", "1\n")], verify: &["true"] };
    for commands in [&["ls"][..], &["touch b", "rm b"], &["true"]] {
        let finish = green.run(commands).finish();
        assert_eq!(finish["status"], "claimed", "{finish:#}");
        assert_eq!(finish["doubt"]["reason"], "unchanged", "{finish:#}");
    }
}
