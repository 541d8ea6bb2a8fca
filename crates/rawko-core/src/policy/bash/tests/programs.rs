//! Programs that start or write something by their words, by class.

use super::PROJECT;
use crate::agent::BashFilter;
use crate::policy::bash::{BashRules, permission};
use crate::policy::bash_permission;

/// Checks commands whose programs are all listed.
#[track_caller]
fn check(commands: &[&str], allowed: bool) {
    let wrong: Vec<String> = commands
        .iter()
        .filter(|command| {
            let words = command.split(|c: char| c.is_whitespace() || c == '\'').map(str::to_owned);
            let listed = words.filter(|word| word != "evil" && !word.contains('/')).collect();
            let filter = BashFilter { allowed_commands: Some(listed), ..BashFilter::default() };
            let rules = BashRules {
                agent: None,
                filter: Some(&filter),
                own_run: None,
                granted_run: None,
                writable: &[],
                denied: &[],
                is_confined: false,
                project: PROJECT,
            };
            permission(rules, command).is_allowed() != allowed
        })
        .map(|command| (*command).to_owned())
        .collect();
    assert!(wrong.is_empty(), "not {allowed}:\n{}", wrong.join("\n"));
}

#[test]
fn editors_run_commands_of_their_input() {
    check(
        &[
            "vi -c '!evil' x",
            "vim -es x",
            "ex -s x",
            "ed -s x",
            "echo '!evil' | ed",
            "ed <<E\n!evil\nE",
            "emacs --batch",
            "nano x",
            "less +!evil x",
            "man -P evil ls",
            "zless +!evil x",
            "dc -e '!evil'",
            "ftp h",
            "fzf --preview evil",
        ],
        false,
    );
    check(&["less x", "man ls", "zless x.gz", "bc x"], true);
}

#[test]
fn wrappers_that_are_not_read_are_refused_listed_or_not() {
    for wrapper in [
        "ssh-agent",
        "logsave x",
        "chronic",
        "ifne",
        "pee",
        "setlock x",
        "numactl -N0",
        "dumb-init",
        "tini --",
        "torify",
        "torsocks",
        "proxychains",
        "aa-exec",
        "niceload",
        "setpriv",
        "unshare",
        "nsenter",
        "chrt 1",
        "script -c",
        "watch",
        "entr",
        "parallel",
        "doas",
        "su -c",
        "runuser",
        "systemd-run",
        "flock x",
        "strace",
        "ltrace",
        "gdb --args",
        "valgrind",
        "perf stat",
        "sudo",
        "busybox",
        "eatmydata",
        "fakeroot",
        "catatonit",
        "run0",
        "rlwrap",
        "unbuffer",
        "crontab",
    ] {
        check(&[&format!("{wrapper} ls"), &format!("{wrapper} evil")], false);
    }
    for wrapper in ["taskset 1", "ionice -c3", "stdbuf -oL", "nice", "nohup", "setsid", "timeout 1", "env"] {
        check(&[&format!("{wrapper} ls")], true);
        check(&[&format!("{wrapper} evil")], false);
    }
}

#[test]
fn options_that_write_or_start_something_are_refused() {
    check(
        &[
            "curl -o x u",
            "curl -ox u",
            "curl -sSLo x u",
            "curl --output x u",
            "curl --output=x u",
            "curl --outp x u",
            "curl -O u",
            "curl -sO u",
            "curl -OJ u",
            "curl --remote-name u",
            "curl -D x u",
            "curl -c x u",
            "curl --cookie-jar x u",
            "curl -K x",
            "curl --config x",
            "curl --trace x u",
            "curl --stderr x u",
            "curl -w '%output{x}' u",
            "curl --etag-save x u",
            "curl --engine x u",
            "wget -O x u",
            "wget -qO x u",
            "wget --output-document=x u",
            "wget -o x u",
            "wget -P / u",
            "wget --config x u",
            "wget --config=x u",
            "wget -e x u",
            "wget --use-askpass=x u",
            "wget --save-cookies x u",
            "ssh -I x h",
            "ssh -F x h",
            "ssh -oProxyCommand=evil h",
            "ssh -o ProxyCommand=evil h",
            "scp -S evil a b",
            "rsync -e evil a b",
            "rsync --rsh=evil a b",
            "rsync --log-file=x a b",
            "rsync --config=x a b",
            "zip -TT evil x y",
            "zip -lf x y z",
            "nc -e evil h 1",
            "nc -c evil h 1",
            "ncat --sh-exec evil h 1",
            "tcpdump -z evil",
            "tcpdump -w x",
            "ip netns exec a evil",
            "ip -batch x",
            "openssl enc -out x",
            "openssl req -engine x",
            "gpg -o x y",
            "gpg --exec-path x y",
            "pandoc -o x y",
            "pandoc --filter evil y",
            "pandoc -F evil y",
            "dot -Tpng -ox y",
            "dot -O y",
            "xmllint --output x y",
            "xmllint -shell y",
            "pygmentize -x -l y",
            "cloc --vcs=evil x",
            "cloc --out=x y",
            "cloc --extract-with evil x",
            "patch -e x",
            "wdiff -a x y",
            "bat --pager evil x",
            "ack --ackrc=x y",
            "base64 -o x y",
            "aria2c --on-download-complete=evil u",
            "groff -U x",
            "pv -o x y",
        ],
        false,
    );
    check(
        &[
            "curl -s https://example.org/x",
            "curl -XPOST -d@x -H'Content-Type: x' u",
            "curl -fsSL -o - u",
            "curl -o /dev/null -w %{http_code} u",
            "curl --cookie a=b u",
            "curl --data-binary @x u",
            "wget -qO- u",
            "wget -q -O - u",
            "wget -nv --tries=3 u",
            "ssh -p 22 h ls",
            "rsync -av a b",
            "zip -r x y",
            "ip addr",
            "openssl x509 -in x -noout -text",
            "dot -Tpng x",
            "pandoc -f html -t markdown x",
            "patch -p1",
            "base64 -d x",
            "cloc src",
            "nc -z h 1",
        ],
        true,
    );
}

#[test]
fn variables_that_name_programs_and_options_may_not_be_set() {
    for name in [
        "RSYNC_RSH",
        "RSYNC_CONNECT_PROG",
        "ZIPOPT",
        "MANOPT",
        "LESSOPEN",
        "TAR_OPTIONS",
        "GREP_OPTIONS",
        "UNZIP",
        "ZIP",
        "GZIP",
        "XZ_DEFAULTS",
        "TAPE",
        "SUDO_ASKPASS",
        "CVS_RSH",
        "SSLKEYLOGFILE",
        "OPENSSL_CONF",
        "GLIBC_TUNABLES",
        "POSIXLY_CORRECT",
        "LUA_INIT",
        "PIP_INDEX_URL",
        "CMAKE_GENERATOR",
        "DOTNET_STARTUP_HOOKS",
        "GOTOOLCHAIN",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        check(&[&format!("{name}=x ls"), &format!("export {name}=x"), &format!("env {name}=x ls")], false);
    }
    check(
        &[
            "PAGER=cat ls",
            "GIT_PAGER=cat ls",
            "PYTHONUNBUFFERED=1 ls",
            "DJANGO_SETTINGS_MODULE=a.b ls",
            "A_MODULE=x ls",
            "ZIPS=x ls",
        ],
        true,
    );
    check(&["PAGER=evil ls", "GIT_PAGER=cat;evil ls", "GIT_PAGER='cat;evil' ls", "PYTHONPATH=. ls"], false);
}

#[test]
fn programs_and_variables_that_start_or_write_something_are_known() {
    check(&["PAGER=cat ls", "sed '1a x' y"], true);
    check(&["curl -o x u", "ed x", "tini ls", "ZIPOPT=x ls", "wget -O x u", "zless +x y"], false);
    check(&["RANDOM=x ls", "git push evil"], false);
}

/// A chain of programs that start one another costs no more than its length, and ends early.
#[test]
fn chains_of_wrappers_are_judged_in_bounded_steps() {
    let filter = BashFilter {
        allowed_commands: Some(["xargs", "env", "timeout", "nice", "find", "ls"].map(str::to_owned).to_vec()),
        ..BashFilter::default()
    };
    for part in
        ["xargs ", "xargs -I{} ", "env ", "env A=1 ", "timeout 1 nice ", "find . -exec ", "xargs env nice "]
    {
        let (short, long) = (part.repeat(50), part.repeat(90_000 / part.len()));
        let denied = |chain: &str| {
            let permission = bash_permission(&filter, PROJECT, &format!("{chain}ls"));
            assert!(!permission.is_allowed(), "{part}");
            format!("{permission:?}")
        };
        // The same number of programs is looked at, however many follow.
        assert_eq!(denied(&short), denied(&long), "{part}");
    }
}
