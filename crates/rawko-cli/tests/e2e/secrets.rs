//! Keys and terminals. That the key is nowhere and no control character reaches a terminal is checked after every
//! run; here are the runs that would most likely break it.

use serde_json::json;
use testkit::{Answer, Asked, ErrorResponse, ModelServer, Say, Who};

use crate::answers::{bash, complete, developer, report, select};
use crate::trial::{CANARY, Trial};

#[test]
fn a_server_that_repeats_the_key_in_its_error() {
    let echo = |asked: &Asked| {
        let key = asked.header("x-api-key").unwrap_or_default();
        assert_eq!(key, CANARY, "the key reaches the server");
        Answer::refuse(401, "authentication_error", format!("the key {key} is not valid"))
    };
    let ended = Trial::new(ModelServer::start(echo)).run("Do it.");
    ended.exits(4);
    let summary = ended.finish()["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("is not valid") && summary.contains("[redacted]"), "{summary}");
}

#[test]
fn a_server_that_repeats_the_key_in_a_page_and_in_headers() {
    let echo = |asked: &Asked| {
        let key = asked.header("x-api-key").unwrap_or_default();
        let body = Some(format!("<html><title>Bad key {key}</title>{key}</html>"));
        let headers = vec![("request-id".to_owned(), format!("req-{key}"))];
        Answer::Refuse(ErrorResponse { status: 403, body, headers, ..ErrorResponse::default() })
    };
    Trial::new(ModelServer::start(echo)).run("Do it.").exits(4);
}

#[test]
fn a_model_that_asks_the_shell_for_the_key() {
    let ended = Trial::new(developer([bash("env; cat /proc/$PPID/environ | tr '\\0' '\\n'")])).run("Do it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    assert!(output.contains("PATH="), "{output}");
    // The shell itself is not given the key; where it can look into rawko's own environment, it sees none.
    let (own, _) = output.split_once("_=/").unwrap_or((&output, ""));
    assert!(!own.contains("ANTHROPIC_API_KEY"), "{own}");
    for asked in ended.trial.server.asked() {
        assert!(!String::from_utf8_lossy(&asked.body).contains(CANARY));
    }
}

/// Looks for a secret in the environments of all processes, and in the memory of rawko. What a command prints is
/// redacted, so it prints numbers, and the pattern is no text that the secret is in.
const LOOK: &str = "\
count=0; for file in /proc/[0-9]*/environ; do \
if tr '\\0' '\\n' < $file 2>/dev/null | grep -q PATTERN; then count=$((count+1)); fi; done 2>/dev/null; \
echo environments: $count; env | grep -c PATTERN; \
head -c 1 /proc/$PPID/mem > /dev/null && echo memory is open; \
head -c 1 /proc/$PPID/auxv > /dev/null && echo process is open";

#[track_caller]
fn finds_no_key(trial: impl FnOnce(ModelServer) -> Trial) {
    // Of this run alone: others may run beside it.
    let id = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let secret = format!("deploy-canary-{id:x}");
    let look = LOOK.replace("PATTERN", &format!("'[d]{}'", &secret[1..]));
    let ended = trial(developer([bash(&look)])).env("DEPLOY_TOKEN", secret).run("Look for keys.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    assert!(output.contains("environments: 0\n0\n"), "{output}");
    // Root may look into everything, but there is nothing in the environment.
    if !rustix::process::geteuid().is_root() {
        assert!(!output.contains("is open"), "{output}");
    }
}

#[test]
fn a_command_that_looks_for_the_key_everywhere() {
    finds_no_key(Trial::new);
}

#[test]
fn a_confined_command_that_looks_for_the_key_everywhere() {
    if !crate::sandbox::is_possible() {
        return;
    }
    finds_no_key(crate::sandbox::enforced);
}

/// What a hostile model would like a terminal to do.
const ESCAPES: &str =
    "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}]52;c;cHduZWQ=\u{7} \u{9b}2J \u{8}\u{8} \r over";

#[test]
fn escapes_of_models_tools_and_servers_do_not_reach_a_terminal() {
    for output in ["text", "json", "stream-json"] {
        let server = ModelServer::start(|asked: &Asked| match (asked.who(), asked.number) {
            (_, 0) => Answer::refuse(529, "overloaded_error", ESCAPES).header("retry-after-ms", "1"),
            (Who::Select, _) => select("developer"),
            (Who::Agent, 2) => Say { text: ESCAPES.into(), thinking: ESCAPES.into(), ..Say::default() }
                .with_call(
                    "Bash",
                    &json!({"command": format!("printf '%s' '{}'; exit 7", ESCAPES.replace('\r', ""))}),
                )
                .with_call(ESCAPES, &json!({ "x": ESCAPES }))
                .into(),
            (Who::Agent, _) => report(ESCAPES),
            (Who::Evaluate, _) => complete(ESCAPES),
        });
        let ended = Trial::new(server).output(output).args(&["--verbose"]).run(ESCAPES);
        ended.exits(0);
        assert!(ended.stdout.contains("red"), "the text itself stays: {}", ended.stdout);
    }
}

/// Whatever the user's mask lets through: journals, blobs, checkpoints, keys, caches and memories hold what was read.
#[cfg(unix)]
#[test]
fn what_is_kept_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let long = "long ".repeat(40_000);
    let server = developer([
        bash("cat long.txt"),
        crate::answers::call("Write", &json!({"file_path": "a.txt", "content": "a\n"})),
    ]);
    let trial = Trial::new(server).file("long.txt", &long);
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    // Nothing is masked: what rawko does not say itself, everybody may read.
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let ended = trial.run("Write a.txt.");
    rustix::process::umask(before);
    ended.exits(0);
    let home = ended.trial.outside().join("home");
    let kept = [ended.trial.project().join(".rawko/sessions"), home.join("state"), home.join(".cache")];
    let files: Vec<_> = kept.iter().flat_map(|folder| crate::support::files_below(folder)).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        // A file in a folder that no other user may enter is out of reach, whatever its own mode is.
        let is_closed = |path: &std::path::Path| {
            std::fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o077 == 0)
        };
        let inside = file.ancestors().take_while(|folder| *folder != ended.trial.outside());
        assert!(inside.into_iter().any(is_closed), "{} can be read by others", file.display());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        let is_own = file.extension().is_some_and(|end| end == "jsonl" || end == "key" || end == "json");
        assert!(!is_own || mode == 0o600, "{} has mode {mode:o}", file.display());
    }
}

/// Keys are in rawko's memory, so no core of it is written.
#[cfg(target_os = "linux")]
#[test]
fn a_crash_leaves_no_core() {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let crashes = |program: &str, arguments: &[&str]| {
        let script = "ulimit -c unlimited; exec \"$0\" \"$@\"";
        let mut child = Command::new("bash")
            .args(["-c", script, program])
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        // The shell has become the program when its name is the program's.
        let name = || std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
        let began = std::time::Instant::now();
        // Then it sleeps until there is input, or for a minute.
        let sleeps = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap_or_default();
            stat.contains("pipe") || stat.contains("nanosleep")
        };
        while (name().starts_with("bash") || !sleeps()) && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::ABORT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(6), "{program}: {status}");
        status.core_dumped()
    };
    if !crashes("sleep", &["60"]) {
        testkit::skip("this machine writes no core of any program");
        return;
    }
    // It waits for its standard input.
    let rawko =
        std::env::var(crate::support::BINARY).unwrap_or_else(|_| env!("CARGO_BIN_EXE_rawko").to_owned());
    assert!(!crashes(&rawko, &["machine", "simulate"]), "a core of rawko was written");
}

const TOKEN: &str = "deploy-canary-2a94c1f0";

/// The results of these commands, in a project with the token in a file and in the environment.
#[track_caller]
fn shown(files: &[(&str, &str)], secret: &str, calls: Vec<Answer>, tool: &str) -> Vec<String> {
    let trial = files.iter().fold(Trial::new(developer(calls)), |trial, (path, text)| trial.file(path, text));
    let ended = trial.env("DEPLOY_TOKEN", secret).args(&["--yes"]).run("Look.");
    ended.exits(0);
    for part in ["canary-2a94c1f0", "MIIEowIBAAKC", "Kp2mQx9Lw4Zt8Rv3Ns"] {
        assert!(!ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    ended.results(tool).into_iter().map(|(content, _)| content).collect()
}

#[test]
fn colours_do_not_uncover_a_secret() {
    let file = format!("token={TOKEN}\n");
    let calls = vec![bash("grep --color=always canary a.env; grep --color=always oken a.env")];
    let output = shown(&[("a.env", &file)], TOKEN, calls, "Bash").remove(0);
    assert!(!output.contains("2a94c1f0") && output.contains("[redacted]"), "{output:?}");
}

#[test]
fn the_lines_of_a_secret_are_masked_each() {
    let lines = ["MIIEowIBAAKCAQEA7Kp2mQx9Lw4Zt8Rv3Ns6Hb5J", "d1Fg0YcTuEaWiXoBnMqPzSkZ7Kp2mQx9Lw4Zt8Rv3Ns"];
    let key = format!("begin\n{}\n{}\nend", lines[0], lines[1]);
    let calls = vec![
        Answer::call("Read", &json!({"file_path": "key.txt"})),
        Answer::call("Read", &json!({"file_path": "key.txt", "offset": 3})),
    ];
    for output in shown(&[("key.txt", &key)], &key, calls, "Read") {
        assert!(!output.contains("Kp2mQ") && output.contains("\t[redacted]\n"), "{output}");
    }
}

#[test]
fn a_cut_leaves_no_part_of_a_secret() {
    let long = format!("{}{TOKEN}\n", "x".repeat(1_990));
    let middle = "head -c 14990 /dev/zero | tr '\\0' y; cat a.env; head -c 20000 /dev/zero | tr '\\0' y";
    let file = format!("{TOKEN}\n");
    let files = [("long.txt", long.as_str()), ("a.env", file.as_str())];
    let read = vec![Answer::call("Read", &json!({"file_path": "long.txt"}))];
    let output = shown(&files, TOKEN, read, "Read").remove(0);
    assert!(!output.contains("deploy-ca") && output.contains("bytes of this line cut"), "{output}");
    let output = shown(&files, TOKEN, vec![bash(middle)], "Bash").remove(0);
    assert!(!output.contains("deploy-") && output.contains("bytes cut from the middle"), "{output}");
}
