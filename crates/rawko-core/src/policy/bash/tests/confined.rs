//! Where the sandbox is the wall: writing inside the write paths passes, running what is not listed does not.

use super::{LISTED, PROJECT};
use crate::agent::BashFilter;
use crate::policy::bash::{BashRules, permission};

/// Checks commands of an agent that may write `writable`, and not `secrets`.
#[track_caller]
pub(super) fn check(writable: &[&str], commands: &[&str], allowed: bool) {
    let listed = LISTED.iter().chain(&["rm", "curl", "wget", "shuf", "seq"]).map(|&name| name.to_owned());
    let filter = BashFilter { allowed_commands: Some(listed.collect()), ..BashFilter::default() };
    let writable: Vec<String> = writable.iter().map(|&path| path.to_owned()).collect();
    let rules = BashRules {
        agent: None,
        filter: Some(&filter),
        own_run: None,
        granted_run: None,
        writable: &writable,
        denied: &["secrets".to_owned()],
        is_confined: true,
        project: PROJECT,
    };
    let wrong: Vec<String> = commands
        .iter()
        .map(|command| (command, permission(rules, command)))
        .filter(|(_, permission)| permission.is_allowed() != allowed)
        .map(|(command, permission)| format!("{command:?}: {permission:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_may_be_written_inside_the_write_paths() {
    check(
        &["."],
        &[
            "ls >x",
            "ls >>src/x 2>&1",
            "cat > test.py <<'EOF'\nprint(\"$(evil)\")\nEOF",
            "cd src && cat >x <<EOF\na\nEOF",
            "ls >&src/x-1.log",
            "ls >&\"x\" 2>&1",
            "ls >/home/me/project/src/x",
            "ls >/tmp/x; cat </tmp/x",
            "cd /tmp && ls >x",
            "cd /tmp/a && cd .. && ls",
            "ls >./a/../x",
            "ls 2>/dev/stderr",
            "{ ls; wc; } >x",
            "for f in a b; do ls $f; done >x",
            "sed -i s/a/b/ x",
            "sed -i.bak -e s/a/b/ -e '/x/d' src/x",
            "sed -ni p x",
            "sed -i 's/a/b/' src/*.py",
            "sed --in-place=.orig '3a\\    text; w z' x",
            "sed -i '/import x/a import y' x",
            "sed -i '2i\\\\tfoo\nbar' x || sed -i ':a;N;$!ba;s/x/y/' x",
            "sort -o x y",
            "sort -uox y",
            "sort --output=x y",
            "uniq a b",
            "shuf -o x y",
            "curl -s -o x https://example.org",
            "curl -O https://example.org/x",
            "find . -name '*.py' -exec grep -l x {} \\;",
            "find . -type f -exec grep -n x {} + | head",
            "find src -name '*.py' -exec sed -i s/a/b/ {} \\;",
            "find . -name x -exec wc -l {} \\; -print",
            "find . -execdir ls {} +",
            "find . -name '*.pyc' -delete",
            "PYTHONPATH=. ls",
            "export PYTHONPATH=src; ls",
            "PYTHONPATH=. timeout 5 ls",
        ],
        true,
    );
}

#[test]
fn files_may_not_be_written_elsewhere() {
    check(
        &["."],
        &[
            "ls >../x",
            "ls >/etc/x",
            "ls >/home/me/projects",
            "ls >~/x",
            "ls >\"$x\"",
            "ls >x$y",
            "ls >.git/hooks/pre-commit",
            "ls >.rawko/config.yaml",
            "ls >sub/.GIT/config",
            "ls >/home/me/project/.claude/x",
            "ls >secrets/x",
            "ls >src/../secrets/x",
            "ls >/home/me/project/secrets",
            "cd src && ls >../../x",
            "cd /tmp && ls >../x",
            "cd /tmp/.. && ls",
            "cd /etc",
            "ls >/tmp",
            "ls >/tmp/../etc/x",
            "ls >/dev/tcp/h/1",
            "ls >/dev/sda",
            "sed -i s/a/b/ ../x",
            "sed -i s/a/b/ /etc/x",
            "sed -i s/a/b/ x .git/config",
            "sed -i'/../*' s/a/b/ x",
            "sed -i s/a/b/ $x",
            "sort -o ../x y",
            "sort -o/etc/x y",
            "sort --output=/etc/x y",
            "uniq a ../b",
            "curl -so/etc/x u",
            "curl --output ../x u",
            "find /etc -name x -exec sed -i s/a/b/ {} \\;",
            "find . /etc -exec sed -i s/a/b/ {} +",
            "find -L /etc -exec sed -i s/a/b/ {} +",
            "find .. -name x -delete",
            "find / -delete",
            "find . -fprint x",
        ],
        false,
    );
}

#[test]
fn an_unlisted_program_does_not_run() {
    check(
        &["."],
        &[
            // Bash expands the word of `>&` twice.
            "ls >&'$(evil)'",
            "ls 1>& \\$\\(evil\\)",
            "export a >&E='a[$(evil)]'",
            "ls >&'0`evil`'",
            "x='$(evil)'; ls >&1\"$x\"",
            "{ ls; } >&$'\\x24(evil)'",
            "ls >&'~/x'",
            "evil >x",
            "find . -exec evil {} \\;",
            "find . -exec ls {} \\; -exec evil {} \\;",
            "find . -exec ls {} + -exec evil ';'",
            "find . -exec {} \\;",
            "find . -exec env evil {} \\;",
            "find . -exec find . -exec evil \\; \\;",
            "find . -exec sh -c 'evil' \\;",
            "find . -exec ls {}",
            "find . -exec ls + evil",
            "find . -ok ls {} \\;",
            "find . -exec sort --compress-program={} x \\;",
            "sed -i '1e evil' x",
            "sed -i '1{e evil\n}' x",
            "sed -i 's/a/b/e' x",
            "sed -i 's/a/b/w ../x' x",
            "sed -i 'a text\ne evil' x",
            "sed -i ':a;e evil' x",
            "sort --compress-program=evil -o x y",
            "PATH=. ls",
            "LD_PRELOAD=x ls",
            "export PATH=.",
            "eval ls >x",
            "f() { ls; }; f",
            "cat <<EOF >x\n$(evil)\nEOF",
            "curl -K x -o y u",
        ],
        false,
    );
}

/// What git and rawko run is decided there: no redirection and no option writes it, in whichever folder the command
/// runs.
#[test]
fn protected_folders_are_out_of_reach() {
    check(
        &["."],
        &[
            "cd .git && echo ../evil > commondir && cd .. && git diff",
            "cd .git/rebase-merge && echo \"exec X\" > git-rebase-todo",
            "cd .GIT; echo x >config",
            "cd src/../.git && echo x >config",
            "cd ./.rawko && echo x >config.yaml",
            "(cd .claude; echo x >settings.json)",
            "command cd .git && echo x >config",
            "cd .git && sed -i s/a/b/ config",
            "cd .git && sort -o config a",
            "cd .git && find . -name config -delete",
            "cd .git && ls {a,b} >x",
            "cd .gi? && echo x >config",
            "cd '.git' && cat <<E >config\nx\nE",
            "echo x >.gi?/config",
            "echo x >.[g]it/config",
            "echo x >.*/config",
            "echo x >src*",
            "echo x >{.git/config,}",
            "sed -i s/a/b/ .*/config",
            "sed -i s/a/b/ .gi?/config",
            "sed -i s/a/b/ */.git/config",
        ],
        false,
    );
    check(
        &["."],
        &[
            "cd .git && cat config",
            "cd .git && ls >/tmp/x 2>/dev/null",
            "cd .github && echo x >workflow.yml",
            "sed -i s/a/b/ src/*.py .github/*.yml",
        ],
        true,
    );
}

#[test]
fn narrow_write_paths_are_kept() {
    check(
        &["src"],
        &["ls >src/x", "ls >/home/me/project/src/x", "sed -i s/a/b/ src/*.py", "ls >/tmp/x"],
        true,
    );
    check(&["src"], &["find src -exec sed -i s/a/b/ {} \\;"], true);
    check(
        &["src"],
        &["ls >x", "ls >src/../x", "cd docs && ls >src/x", "find . -exec sed -i s/a/b/ {} \\;"],
        false,
    );
    check(&["/data"], &["ls >/data/x"], true);
    check(&["/data"], &["ls >x", "ls >/database/x", "ls >/data/.git/x"], false);
    check(&["/home/me/project/src"], &["ls >src/x"], true);
}

/// An agent that has neither Write nor Edit.
#[test]
fn without_write_paths_nothing_is_written() {
    check(
        &[],
        &[
            "ls >x",
            "ls >/tmp/x",
            "sed -i s/a/b/ x",
            "sort -o x y",
            "find . -exec sed -i s/a/b/ {} \\;",
            "find . -delete",
            "cd /tmp",
            "PYTHONPATH=. ls",
        ],
        false,
    );
}

#[test]
fn a_denial_names_the_path_to_grant_where_a_grant_would_help() {
    let lifted = |writable: &[&str], command: &str| {
        let filter = BashFilter { allowed_commands: Some(vec!["ls".to_owned()]), ..BashFilter::default() };
        let writable: Vec<String> = writable.iter().map(|&path| path.to_owned()).collect();
        let rules = BashRules {
            agent: Some("writer"),
            filter: Some(&filter),
            own_run: None,
            granted_run: None,
            writable: &writable,
            denied: &["secrets".to_owned()],
            is_confined: true,
            project: PROJECT,
        };
        permission(rules, command).would_allow().map(str::to_owned)
    };
    let path = "add `- /data/x` under permissions.write of agent `writer` and of the configuration";
    assert_eq!(lifted(&["src"], "ls >/data/x").as_deref(), Some(path));
    assert_eq!(lifted(&["src"], "rm /data/x").as_deref(), Some(path));
    // No grant helps.
    assert_eq!(lifted(&["."], "ls >secrets/x"), None);
    assert_eq!(lifted(&["."], "ls >.git/x"), None);
    // The sandbox would refuse it, whatever the list.
    assert_eq!(lifted(&[], "ls >x"), None);
    let program = "add `- wc` under tools.bashFilter.allowedCommands of agent `writer`";
    assert_eq!(lifted(&[], "wc x").as_deref(), Some(program));
}
