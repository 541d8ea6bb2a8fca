//! In the sandbox: what git obeys, what is denied under another name, what rawko keeps.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use crate::answers::{bash, developer, report};
use crate::sandbox::{enforced, is_possible, tries};

#[test]
fn what_git_would_obey_does_not_stay() {
    if !is_possible() {
        return;
    }
    for command in [
        "echo ../evil > .git/commondir; echo x > .git/config.worktree; mkdir .git/hooks; echo x > .git/hooks/post-checkout; \
         mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo here",
        "rm -rf .git/info; mkdir info; echo '* filter=x' > info/attributes; ln -s ../info .git/info; ln -s ../info .git/hooks; \
         echo here",
    ] {
        let trial = |server| {
            let trial = enforced(server);
            let _ = std::fs::remove_dir_all(trial.project().join(".git/hooks"));
            trial
        };
        let (ended, output) = tries(trial, command);
        assert!(output.contains("here"), "{output}");
        for absent in ["commondir", "config.worktree", "hooks", "info/attributes"] {
            let path = ended.trial.project().join(".git").join(absent);
            assert!(path.symlink_metadata().is_err(), "{absent} after {command}: {output}");
        }
        // What the link led to is the command's own work.
        assert_eq!(ended.trial.project().join("info/attributes").exists(), command.starts_with("rm"));
    }
}

#[test]
fn git_obeys_no_folder_that_looks_like_a_repository() {
    if !is_possible() {
        return;
    }
    let command = "mkdir -p bare/refs bare/objects; echo 'ref: refs/heads/main' > bare/HEAD; \
                   printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = \"echo OBEYED >&2; false\"\\n' > bare/config; \
                   git init -q inner; git -C inner config core.fsmonitor 'echo OBEYED >&2; false'; touch inner/a; \
                   git -C inner status; cd bare; git status; echo here";
    let (_, output) = tries(enforced, command);
    assert!(output.contains("here") && output.contains("safe.bareRepository"), "{output}");
    assert!(!output.contains("OBEYED"), "{output}");
}

#[test]
fn the_users_git_obeys_no_repository_that_a_command_added() {
    if !is_possible() {
        return;
    }
    let command = "git init -q inner; cd inner; echo a > a; git add a; git -c user.name=A -c user.email=a@b.c commit -qm a; \
                   git config core.fsmonitor 'touch ../OBEYED; false'; mkdir -p .git/hooks; \
                   printf '#!/bin/sh\\ntouch ../OBEYED\\n' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change; \
                   cd ..; git add inner; touch -d '1 hour ago' inner/a; git ls-files -s inner; echo here";
    let (ended, output) = tries(enforced, command);
    assert!(output.contains("160000") && output.contains("here"), "{output}");
    let project = ended.trial.project();
    let _ = std::fs::remove_file(project.join("OBEYED"));
    let status = testkit::git_command(&project).arg("status").output().unwrap();
    assert!(status.status.success(), "{status:?}");
    assert!(!project.join("OBEYED").exists());
    assert!(!project.join("inner/.git/hooks").exists());
}

#[test]
fn links_with_protected_names_are_put_back_and_what_they_lead_to_is_protected() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let project = trial.project();
        std::fs::create_dir_all(project.join("meta/real")).unwrap();
        std::fs::rename(project.join(".git"), project.join("meta/git")).unwrap();
        std::os::unix::fs::symlink("meta/git", project.join(".git")).unwrap();
        std::os::unix::fs::symlink("meta/real", project.join(".claude")).unwrap();
        trial
    };
    let command = "git init -q other; git -C other config core.fsmonitor 'touch ../OBEYED; false'; rm .git; ln -s other/.git .git; \
                   echo x > meta/real/settings.json; rm .claude; mkdir .claude; echo x > .claude/settings.json; \
                   echo x >> meta/git/config; echo here";
    let (ended, output) = tries(trial, command);
    assert!(output.contains("here"), "{output}");
    let project = ended.trial.project();
    assert_eq!(std::fs::read_link(project.join(".git")).unwrap().to_str(), Some("meta/git"));
    assert_eq!(std::fs::read_link(project.join(".claude")).unwrap().to_str(), Some("meta/real"));
    assert!(!project.join("meta/real/settings.json").exists());
    assert!(!std::fs::read_to_string(project.join("meta/git/config")).unwrap().contains('x'));
    let status = testkit::git_command(&project).arg("status").output().unwrap();
    assert!(status.status.success() && !project.join("OBEYED").exists(), "{status:?}");
}

#[test]
fn a_part_of_a_project_is_worked_in_where_the_rest_is_not_readable() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server).file("src/a", "a\n").file("other/b", "b\n");
        trial.user_config("/permissions/read", json!(["src"]))
    };
    let (ended, output) =
        tries(trial, "cat src/a other/b; echo c > src/c; echo d > other/d; ls -a; echo here");
    assert!(output.contains("here") && output.contains("a\n") && !output.contains("b\n"), "{output}");
    let project = ended.trial.project();
    assert!(project.join("src/c").exists() && !project.join("other/d").exists(), "{output}");
}

#[test]
fn what_rawko_keeps_of_sessions_is_not_there() {
    if !is_possible() {
        return;
    }
    let (ended, output) =
        tries(enforced, "find .rawko -type f | wc -l; ls -A .rawko/sessions; touch .rawko/sessions/x");
    assert!(output.starts_with("0\n"), "{output}");
    assert_ne!(std::fs::read_dir(ended.trial.project().join(".rawko/sessions")).unwrap().count(), 0);
}

#[test]
fn what_is_denied_is_hidden_by_any_name() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server).file(".env", "KEY=CANARY").file("keys/a.pem", "CANARY");
        let project = trial.project();
        std::fs::hard_link(project.join(".env"), project.join("innocent")).unwrap();
        std::fs::hard_link(project.join("keys/a.pem"), project.join("keys/b.txt")).unwrap();
        std::fs::write(project.join(OsStr::from_bytes(b"bad\xff.pem")), "CANARY").unwrap();
        trial.user_config("/permissions/deny", json!([".env", "**/*.pem"]))
    };
    let (_, output) = tries(trial, "cat .env innocent keys/* *.pem; echo here");
    assert!(output.contains("here"), "{output}");
    // Without any pattern, too.
    let trial = |server| {
        let trial = enforced(server).file(".env", "KEY=CANARY");
        std::fs::hard_link(trial.project().join(".env"), trial.project().join("innocent")).unwrap();
        trial.user_config("/permissions/deny", json!([".env"]))
    };
    let (_, output) = tries(trial, "cat .env innocent; echo here");
    assert!(output.contains("here"), "{output}");
}

#[test]
fn what_was_just_made_is_hidden_from_the_next_command() {
    if !is_possible() {
        return;
    }
    let server = developer([
        bash("mkdir deep"),
        bash("printf 'CAN%s' ARY > deep/new.pem"),
        bash("cat deep/new.pem; echo here"),
        report("tried"),
    ]);
    let ended = enforced(server).user_config("/permissions/deny", json!(["**/*.pem"])).run("Try it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(2);
    assert!(output.contains("here") && !output.contains("CANARY"), "{output}");
    assert!(ended.trial.project().join("deep/new.pem").exists());
}

#[test]
fn keys_in_a_home_that_is_granted_are_hidden() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let home = trial.outside().join("home");
        std::fs::create_dir(home.join(".ssh")).unwrap();
        for (name, content) in [(".ssh/id_ed25519", "CANARY"), (".netrc", "CANARY"), ("kept", "KEPT")] {
            std::fs::write(home.join(name), content).unwrap();
        }
        let home = home.display().to_string();
        trial.user_config("/permissions/read", json!([".", home]))
    };
    let (_, output) = tries(trial, "cat ~/.ssh/* ~/.netrc ~/kept");
    assert!(output.contains("KEPT"), "{output}");
}

#[test]
fn folders_outside_of_the_project_are_protected_like_it() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let granted = trial.outside().join("granted");
        for folder in ["sub/inner", ".rawko/sessions/s", ".claude", "sub/.claude", "out"] {
            std::fs::create_dir_all(granted.join(folder)).unwrap();
        }
        let name = |path: &str| granted.join(path).display().to_string();
        for repository in ["", "sub/inner", "out/pages"] {
            trial.git(&["init", "-q", &name(repository)]);
        }
        trial.git(&["init", "-q", "--bare", &name("bare.git")]);
        for file in ["sub/a.pem", ".rawko/sessions/s/journal.jsonl", "plain"] {
            std::fs::write(granted.join(file), "CANARY").unwrap();
        }
        std::fs::hard_link(granted.join("sub/a.pem"), granted.join("linked")).unwrap();
        let both = json!([".", name("")]);
        trial
            .user_config("/permissions/read", both.clone())
            .user_config("/permissions/write", both)
            .user_config("/permissions/deny", json!([name("**/*.pem"), name("plain")]))
    };
    let command = "cd ../granted; cat sub/a.pem linked plain .rawko/sessions/s/*; \
                   for f in .git/hooks/x .git/config .rawko/x .claude/x sub/.claude/x sub/inner/.git/hooks/x bare.git/config \
                   out/pages/.git/config; do (echo EVIL >> $f) 2>/dev/null && echo \"WROTE $f\"; done; \
                   mv .git moved && echo MOVED; mv sub moved && echo MOVED; echo work > sub/work; echo here";
    let (ended, output) = tries(trial, command);
    assert!(output.contains("here") && !output.contains("WROTE") && !output.contains("MOVED"), "{output}");
    assert!(ended.trial.outside().join("granted/sub/work").exists(), "{output}");
}

#[test]
fn what_a_grant_names_is_protected_all_the_same() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let hooks = trial.outside().join("other/.git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        let hooks = hooks.display().to_string();
        trial.user_config("/permissions/write", json!([".", ".git/hooks", hooks]))
    };
    let command = "for f in .git/hooks ../other/.git/hooks; do (echo EVIL > $f/x) 2>/dev/null && echo \"WROTE $f\"; done; \
                   echo here";
    let (_, output) = tries(trial, command);
    assert!(output.contains("here") && !output.contains("WROTE"), "{output}");
}

#[test]
fn what_was_there_at_the_beginning_stays_protected() {
    if !is_possible() {
        return;
    }
    let attack = "for f in dist/.git/hooks/x packages/lib/.git/hooks/x sub/.claude/x; do \
                  (echo EVIL > $f) 2>/dev/null && echo \"WROTE $f\"; done; echo here";
    let server = developer([
        bash("echo begun"),
        // Longer than a survey lasts. The next one does not look into build folders.
        bash("sleep 5.1"),
        bash(attack),
        report("tried"),
    ]);
    let trial =
        enforced(server).file("sub/.claude/settings.json", "{}").file(".gitignore", "dist\npackages\n");
    for repository in ["dist", "packages/lib"] {
        trial.git(&["init", "-q", repository]);
    }
    let ended = trial.run("Try it.");
    ended.exits(0);
    for (output, _) in ended.results("Bash").split_off(2) {
        assert!(output.contains("here") && !output.contains("WROTE"), "{output}");
    }
}

#[test]
fn accounts_beside_programs_are_not_shown() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let home = trial.outside().join("home");
        let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        for (name, account) in
            [(".pulumi", "credentials.json"), (".docker", "config.json"), ("otherproject", ".env")]
        {
            let bin = home.join(name).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::create_dir_all(home.join(name).join("lib")).unwrap();
            std::fs::write(home.join(name).join(account), "CANARY").unwrap();
            std::fs::write(home.join(name).join("lib/text"), "TEXT").unwrap();
            let program = bin.join(format!("run-{name}"));
            std::fs::write(&program, "#!/bin/sh\ncat \"${0%/*}/../lib/text\"\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&program, mode).unwrap();
            path.push_str(&format!(":{}", bin.display()));
        }
        trial.env("PATH", path)
    };
    let command = "cat ~/.pulumi/credentials.json ~/.docker/config.json ~/otherproject/.env; run-.pulumi; \
                   run-otherproject || echo here";
    let (_, output) = tries(trial, command);
    assert_eq!(output.matches("TEXT").count(), 1, "{output}");
    assert!(output.contains("here"), "{output}");
}

#[test]
fn names_that_the_user_protects_are_read_and_not_written() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        enforced(server)
            .user_config("/permissions/protect", json!([".vscode", ".envrc", ".npmrc"]))
            .file(".vscode/tasks.json", "TASKS\n")
            .file("web/.npmrc", "NPM\n")
    };
    let command = "cat .vscode/tasks.json web/.npmrc; echo x >> .vscode/tasks.json; echo x > .vscode/new; mv .vscode old; \
                   echo x > web/.npmrc; rm -f web/.npmrc; echo x > .envrc; ln -s /etc/hosts .npmrc; mkdir -p web/src; \
                   echo work > web/src/npmrc && echo here";
    let (ended, output) = tries(trial, command);
    for seen in ["TASKS", "NPM", "here", "[The sandbox renamed .envrc to .envrc.set-aside"] {
        assert!(output.contains(seen), "{seen}: {output}");
    }
    let project = ended.trial.project();
    let text = |name: &str| std::fs::read_to_string(project.join(name)).unwrap();
    assert_eq!((text(".vscode/tasks.json").as_str(), text("web/.npmrc").as_str()), ("TASKS\n", "NPM\n"));
    for absent in [".vscode/new", "old", ".envrc", ".npmrc"] {
        assert!(project.join(absent).symlink_metadata().is_err(), "{absent}: {output}");
    }
    assert_eq!((text("web/src/npmrc").as_str(), text(".envrc.set-aside").as_str()), ("work\n", "x\n"));
}

#[test]
fn what_tools_keep_besides_programs_and_caches_is_not_there() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let home = trial.outside().join("home");
        for (name, text) in [
            ("go/src/example.com/other/main.go", "CANARY"),
            ("go/pkg/mod/kept", "MODULE"),
            (".gradle/release/keys.properties", "storePassword=CANARY"),
            (".gradle/wrapper/gradle-wrapper.properties", "WRAPPER"),
            (".config/git/work.inc", "[http]\n\textraHeader = CANARY\n"),
            (".config/git/ignore", "IGNORED\n"),
            (".julia/logs/repl_history.jl", "CANARY"),
            (".deno/deno_history.txt", "CANARY"),
        ] {
            let path = home.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        trial
    };
    let command = "find ~/ -type f -exec cat {} + 2>/dev/null; cat ~/go/src/example.com/other/main.go ~/.config/git/work.inc \
                   ~/.gradle/release/keys.properties ~/.julia/logs/repl_history.jl ~/.deno/deno_history.txt; \
                   mkdir -p ~/go/bin && touch ~/go/bin/tool ~/go/pkg/new ~/.gradle/release/x ~/.config/git/x && echo here";
    let (_, output) = tries(trial, command);
    for seen in ["here", "MODULE", "WRAPPER", "IGNORED"] {
        assert!(output.contains(seen), "{seen}: {output}");
    }
}

/// A folder of the project is on the search path, as direnv puts it there, and conda knows its environments by a history.
#[test]
fn files_of_the_project_and_of_packages_are_read_whatever_their_names() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let mut trial = enforced(server)
            .file("scripts/token.py", "print('TOKEN')\n")
            .file("scripts/db/credentials.ts", "CODE\n");
        let home = trial.outside().join("home");
        for name in ["miniconda3/conda-meta/history", "scripts/git-history"] {
            std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            std::fs::write(home.join(name), "#!/bin/sh\necho HISTORY\n").unwrap();
            std::fs::set_permissions(home.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        let scripts = [trial.project().join("scripts"), home.join("scripts"), home.join("miniconda3/bin")];
        std::fs::create_dir_all(&scripts[2]).unwrap();
        let scripts = scripts.map(|it| it.display().to_string()).join(":");
        trial = trial.env("PATH", format!("{path}:{scripts}"));
        trial
    };
    let command = "python3 scripts/token.py; cat scripts/db/credentials.ts; git-history; \
                   test -f ~/miniconda3/conda-meta/history && echo CONDA; echo here";
    let (_, output) = tries(trial, command);
    for seen in ["TOKEN", "CODE", "HISTORY", "CONDA", "here"] {
        assert!(output.contains(seen), "{seen}: {output}");
    }
}

#[test]
fn root_sees_no_more_of_the_system_than_others() {
    // Where this user is no administrator, the kernel holds the command.
    let Some(service) = is_possible().then(|| tempfile::tempdir_in("/opt").ok()).flatten() else {
        testkit::skip("/opt cannot be written here");
        return;
    };
    let open = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(service.path(), 0o755);
    for (name, text, mode) in
        [("own", "CANARY", 0o600), ("for-all", "SEEN", 0o644), ("granted/own", "GRANTED", 0o600)]
    {
        let path = service.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        open(&path, mode);
    }
    // What root has installed for itself is used.
    let tool = service.path().join("tool/bin");
    std::fs::create_dir_all(&tool).unwrap();
    std::fs::write(tool.join("run"), "#!/bin/sh\necho TOOL\n").unwrap();
    for path in [&tool.join("run"), &tool, &service.path().join("tool")] {
        open(path, 0o700);
    }
    let kept = service.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("key"), "CANARY").unwrap();
    open(&kept, 0o700);
    let granted = service.path().join("granted");
    let trial = |server| {
        enforced(server).user_config("/permissions/read", json!([".", granted.display().to_string()]))
    };
    let command = format!(
        "cd {}; cat own for-all granted/own kept/key; tool/bin/run; echo here",
        service.path().display()
    );
    let (_, output) = tries(trial, &command);
    for seen in ["SEEN", "GRANTED", "TOOL", "here"] {
        assert!(output.contains(seen), "{seen}: {output}");
    }
}

#[test]
fn temporary_files_and_caches_elsewhere_are_not_there() {
    if !is_possible() {
        return;
    }
    // Not in a folder that commands have for themselves, nor in the home, nor beside the project.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (temporary, cache) = (elsewhere.path().join("tmp"), elsewhere.path().join("cache"));
    for file in
        [temporary.join("theirs/key"), cache.join("pip/kept"), cache.join("rawko/x"), cache.join("own/x")]
    {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "CANARY").unwrap();
    }
    std::fs::write(cache.join("pip/kept"), "KEPT").unwrap();
    let names = [&temporary, &cache].map(|folder| folder.display().to_string());
    let trial =
        |server| enforced(server).env("TMPDIR", names[0].clone()).env("XDG_CACHE_HOME", names[1].clone());
    let command = format!(
        "find {0} -type f -exec cat {{}} +; cat {0}/tmp/theirs/key; echo x > $TMPDIR/x && cat $TMPDIR/x && echo here",
        elsewhere.path().display()
    );
    let (_, output) = tries(trial, &command);
    assert!(output.contains("here") && output.contains("KEPT"), "{output}");
}

#[test]
fn accounts_that_are_made_during_a_run_are_hidden() {
    if !is_possible() {
        return;
    }
    let server = developer([
        bash("touch begun; while [ ! -e go ]; do sleep 0.1; done"),
        bash(
            "cat ~/.cargo/credentials.toml ~/.m2/settings.xml ~/.cargo/config.toml ~/.gradle/init.d/*; echo here",
        ),
        report("tried"),
    ]);
    let trial = enforced(server);
    let (home, project) = (trial.outside().join("home"), trial.project());
    for folder in [".cargo", ".m2", ".gradle/init.d"] {
        std::fs::create_dir_all(home.join(folder)).unwrap();
    }
    let running = trial.start("Try it.");
    running.wait_until("the first command runs", || project.join("begun").exists());
    for (name, text) in [
        (".cargo/credentials.toml", "[registry]\ntoken = \"CANARY\"\n"),
        (".cargo/config.toml", "[build]\njobs = 7\n[registries.mine]\ntoken = \"CANARY\"\n"),
        (".m2/settings.xml", "<password>CANARY</password>"),
        (".gradle/init.d/a.gradle", "password = 'CANARY'\n"),
    ] {
        std::fs::write(home.join(name), text).unwrap();
    }
    std::fs::write(project.join("go"), "").unwrap();
    let ended = running.end();
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(1);
    assert!(output.contains("here") && output.contains("jobs = 7"), "{output}");
    assert!(!output.contains("CANARY"), "{output}");
}

/// Nothing in it is kept, so it is named.
#[test]
fn what_is_changed_in_a_granted_folder_outside_the_project_is_named() {
    if !is_possible() {
        return;
    }
    let check = |command: &str, expected: &[&str]| {
        let mut granted = std::path::PathBuf::new();
        let trial = |server| {
            let trial = enforced(server);
            granted = trial.outside().join("granted");
            std::fs::create_dir_all(granted.join("old")).unwrap();
            for file in ["old/kept.txt", "old/gone.txt"] {
                std::fs::write(granted.join(file), "old").unwrap();
            }
            let grant = format!("--allow-write=.,{}", granted.display());
            trial.args(&[&grant])
        };
        let (ended, output) = tries(trial, &format!("cd ../granted && {command}; echo here"));
        assert!(output.contains("here"), "{output}");
        let expected: Vec<String> =
            expected.iter().map(|path| format!("{}{path}", granted.display())).collect();
        assert_eq!(ended.finish()["filesModified"], json!(expected), "{command}: {output}");
        let later: Vec<&String> = expected.iter().filter(|path| path.ends_with(".envrc")).collect();
        assert_eq!(ended.finish()["runsLater"].as_array().map_or(0, Vec::len), later.len(), "{command}");
        let (code, out, err) = ended.trial.rawko(&["diff", "last", "--json"]);
        let diff: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        assert_eq!((code, &diff["outside"]), (Some(0), &json!(expected)), "{diff}");
    };
    check("cat old/kept.txt", &[]);
    check("echo new > new.txt; rm old/gone.txt", &["/new.txt", "/old/"]);
    check("echo new > .envrc", &["/.envrc"]);
}
