//! Arithmetic, lists and expansions where the sandbox is the wall: what only makes text of constants and values passes,
//! and nothing by which a value could run a command.

use super::confined::check;
use super::{LISTED, PROJECT};
use crate::agent::BashFilter;
use crate::policy::bash::{BashRules, bash_permission, permission};

const PLAIN: [&str; 43] = [
    "i=0; while [ $i -lt 3 ]; do ls; i=$((i+1)); done",
    "i=0; ((i++)); ls",
    "i=0; (( i += 2, i-- )); echo \"$((i * 2))\"",
    "for ((i=0; i<3; i++)); do echo $i; done",
    "for i in 1 2 3; do echo $((i*2)); done",
    "for i in {1..5}; do echo $((10 - $i)) ${i}; done",
    "for i in $(seq 1 5); do echo \"$((i % 2))\"; done",
    "n=5; m=$((n*2)); echo $(( ${n} + $m ))",
    "n=5; [[ $n -gt 3 ]] && ls",
    "n=5; [[ n -gt 3 || 4 -le $((n+1)) ]] && ls",
    "[[ $# -eq 0 ]] && ls",
    "[[ $? -eq 0 && -f x ]] || ls",
    "[[ ${#x} -gt 3 ]] && ls",
    "x=$(ls); [[ ${#x} -gt 3 ]] && echo \"$((${#x} + 1))\"",
    "for f in *.rs; do echo ${f%.rs} \"${f##*/}\"; done",
    "f=src/a.rs; echo ${f#src/} ${f/a/b} ${f//\\//_} ${f^^} ${f,,}",
    "echo ${x:-none} \"${x:+yes}\" ${1:-a} ${x:?missing}",
    "x=abc; echo ${x:1} ${x:0:2} \"${x: -1}\" ${#x}",
    "n=1; x=abc; echo ${x:n:2} ${x:$n}",
    "echo ${x:-$HOME/a} ${x%$y}",
    "a=(1 2 'x y'); echo \"${a[@]}\" ${a[0]} ${#a[@]} \"${a[*]}\"",
    "a=(x y); for i in 0 1; do echo ${a[i]} ${a[$i]}; done",
    "a=($(ls)); a+=(x); echo ${#a[@]}",
    "a=(x) # evil",
    "a=(\\| y); echo \"${a[0]}\" $(b=(x '|' y); echo ${#b[@]})",
    "files=(\n  a\n  b # c\n); ls ./x",
    "ls | wc; echo ${PIPESTATUS[0]}",
    "echo \"${a[@]:1:2}\" \"${@:2}\" \"${*%x}\"",
    "cat <<EOF\n$(ls)\nEOF",
    "cat <<EOF\na $(git log | head -1) b ${x:-y} $((1+1)) \\$(evil) \"$(ls \"a b\")\"\nEOF",
    "cat <<EOF >x\nit's $(ls) and $x\nEOF",
    "cat <<-EOF\n\t$(ls)\n\tEOF",
    "i=1; cat <<EOF\n$((i+1))\nEOF",
    "cat <<EOF\n$(ls\n)\nEOF",
    "x=5; x+=5; echo $((x))",
    "x=-5; echo $((-x))",
    "x=\"$((1+1))\"; echo $((x))",
    "i=0; while [[ $i -lt 3 ]]; do ((i+=1)); done",
    "((n=5)); echo $((n))",
    "n=3; for ((i=n; i>0; i--)); do ls; done",
    "a=5; b=3; echo $((a > b ? a : b)) $((a<<2)) $((0x1F & a))",
    "cat <<'EOF'\n$(evil) ${x@P}\nEOF",
    "ls; [ $? -eq 0 ] && [ $# = 0 ] || i=1 && test $i -gt $((i+1))",
];

#[test]
fn plain_constructs_pass_in_the_sandbox() {
    check(&["."], &PLAIN, true);
}

#[test]
fn outside_of_the_sandbox_they_are_refused() {
    let listed = LISTED.iter().chain(&["seq"]).map(|&name| name.to_owned());
    let filter = BashFilter { allowed_commands: Some(listed.collect()), ..BashFilter::default() };
    for command in PLAIN.iter().filter(|command| !command.contains("'EOF'")) {
        assert!(!bash_permission(&filter, PROJECT, command).is_allowed(), "{command:?}");
    }
}

#[test]
fn what_could_evaluate_text_is_refused() {
    check(
        &["."],
        &[
            // The value is not known to be an integer.
            "echo $((x))",
            "x=a; echo $((x))",
            "x='a[$(evil)]'; echo $((x))",
            "x=1; x='a[$(evil)]'; echo $((x))",
            "x=1; x+='[$(evil)]'; echo $((x))",
            "echo $((x)); x=$(cat a)",
            "x=$(cat a); echo $((x + 1))",
            "x=1; y=$x; echo $((y))",
            "for x in *; do echo $((x)); done",
            "for x in 1 $(cat a); do echo $((x)); done",
            "for x in $(seq 1 $n); do echo $((x)); done",
            "for x in '$(seq 1 5)'; do echo $((x)); done",
            "for x; do echo $((x)); done",
            "x=1; read x; echo $((x))",
            "x=1; read -r y x <a; ((x++))",
            "REPLY=1; read <a; echo $((REPLY))",
            "PWD=1; cd src; echo $((PWD))",
            "x=1; export x=y; echo $((x))",
            "x=1; command read x; echo $((x))",
            "x=(a); echo $((x))",
            "x=1; x=('a[$(evil)]'); echo $((x))",
            "echo $((_))",
            "_=1; echo $((_))",
            "x=1; echo $(($1 + x))",
            "x=1; echo $((a$x))",
            "x=1; echo $((x$x))",
            "x=1; echo $((a[x]))",
            "x=1; echo $((x[$(evil)]))",
            "echo $(( $(evil) ))",
            "echo $(( `evil` ))",
            "x=1; echo $((x + \"$y\"))",
            "((PATH=1)); ls",
            "x=1; ((IFS=x))",
            "x=1; y=2; echo $((x<(y)))",
            "echo ${x%<(evil)}",
            "for ((PATH=0; PATH<1; PATH++)); do ls; done",
            "for ((i=0; i<$(evil); i++)); do ls; done",
            "for ((i=0; i<n; i++)); do ls; done",
            "[[ $x -eq 1 ]]",
            "[[ 1 -eq $x ]]",
            "[[ x -eq 1 ]]",
            "[[ 'a[$(evil)]' -eq 1 ]]",
            "x=1; [[ $x -eq $y ]]",
            "x=1; [[ $x -eq a[$(evil)] ]]",
            "x=1; [[ -v x ]]",
            "x=1; [[ -v a[x] ]]",
            "[[ $x =~ a ]]",
            "[[ a =~ (x #) ]]; evil\n) ]]",
            "[ $x -lt 3 ]",
            "x=$(cat a); [ $x -lt 3 ]",
            "x=1; [ $x$y -lt 3 ]",
            "x=1; y=2; [ \"$x\" $y$z ]",
            // Expansions that evaluate, assign or run.
            "echo ${x@P}",
            "echo ${x[0]@P}",
            "echo ${@@P}",
            "echo ${!x}",
            "echo ${!x@}",
            "echo ${x:=y}",
            "echo ${x=y}",
            "echo ${x:-$(evil)}",
            "echo ${x:-`evil`}",
            "echo ${x:-<(evil)}",
            "echo ${x%$(evil)}",
            "echo ${x/a/$(evil)}",
            "echo ${x:y}",
            "echo ${x:a[$(evil)]}",
            "echo ${x[y]}",
            "echo ${x[$(evil)]}",
            "echo ${#x[$(evil)]}",
            "echo ${x[a[$(evil)]]}",
            "echo ${x:-${y@P}}",
            "echo ${x:0:$(evil)}",
            "echo ${ evil; }",
            "echo ${| evil; }",
            "${x%y} a",
            "${x:-evil}",
            // Lists.
            "a=([$(evil)]=x)",
            "a=([x]=y)",
            "a=(x [1]=y)",
            "a[0]=x",
            "a[$(evil)]=x",
            "a=($(evil))",
            "a=(x); \"${a[@]}\"",
            "PATH=(x); ls",
            "a=()# evil",
            "a=(x)ls evil",
            "ls $(a=(\\|\nevil))",
            "ls >(a=(x\\;\nevil))",
            "a=(-exec evil); find . \"${a[@]}\"",
            "a=(--compress-program=evil); sort \"${a[@]}\" x",
            "sort \"${a[@]:0}\" x",
            "declare -n x=y",
            "declare -i x=y",
            "printf -v x y",
            "let x=y",
            "local x",
            "mapfile -t a <x",
            // Here-documents.
            "cat <<EOF\n$(evil)\nEOF",
            "cat <<EOF\n$(ls; evil)\nEOF",
            "cat <<EOF\n$(ls >../x)\nEOF",
            "cat <<EOF\n$(cat <<X\n$(evil)\nX\n)\nEOF",
            "cat <<EOF\n$(cat <<X\na\nX\n)\nEOF",
            "cat <<EOF\n`ls`\nEOF",
            "cat <<EOF\n\\\\$(evil)\nEOF",
            "cat <<EOF\n$\\\n(evil)\nEOF",
            "cat <<EOF\n${x@P}\nEOF",
            "cat <<EOF\n${x:-$(evil)}\nEOF",
            "cat <<EOF\n$[x]\nEOF",
            "cat <<EOF\n$((x))\nEOF",
            "cat <<EOF\n$(cd .. && ls)\nEOF",
            "cat <<EOF\n'$(evil)'\nEOF",
            "ls $(cat <<EOF\n$(evil)\nEOF\n)",
            "for i in {1..a}; do echo $((i)); done",
            "select x in 1; do echo $((x)); done",
            "f() { ls; }; f",
            "trap 'ls' EXIT",
        ],
        false,
    );
}

#[test]
fn a_denial_names_what_it_calculates_with_and_the_line_that_decided() {
    let denied = |command: &str, words: &[&str], change: &str| {
        let filter = BashFilter {
            allowed_commands: Some(vec!["sort".into(), "echo".into()]),
            ..BashFilter::default()
        };
        let writable = vec!["src".to_owned()];
        let rules = BashRules {
            agent: None,
            filter: Some(&filter),
            own_run: None,
            granted_run: None,
            writable: &writable,
            denied: &[],
            is_confined: true,
            project: PROJECT,
        };
        let permission = permission(rules, command);
        let message = permission.denial().unwrap().content;
        for word in words {
            assert!(message.contains(word), "{word:?} is missing in {message}");
        }
        let would_allow = permission.would_allow().unwrap();
        assert!(would_allow.contains(change), "{change:?} is missing in {would_allow}");
    };
    let lifts = "remove the list under tools.bashFilter.allowedCommands of this agent";
    denied("echo $((count + 1))", &["`count`", "integers"], lifts);
    denied("sort --compress-program=x a", &["`--compress-program`", "starts a program"], lifts);
    let path = "add `- /etc/x` under permissions.write of this agent";
    denied("echo a >/etc/x", &["`/etc/x` is outside of what you may write (src, /tmp)"], path);
    denied(
        "ls",
        &["you may run sort, echo"],
        "add `- ls` under tools.bashFilter.allowedCommands of this agent",
    );
}

#[test]
fn patterns_and_removals_are_looked_for_in_here_documents() {
    let filter = BashFilter { blocked_patterns: vec!["^sudo ".to_owned()], ..BashFilter::default() };
    for command in ["cat <<EOF\n$('sudo' ls)\nEOF", "cat <<EOF\n$(x=1 sudo ls)\nEOF"] {
        assert!(!bash_permission(&filter, PROJECT, command).is_allowed(), "{command:?}");
    }
    check(&["."], &["cat <<EOF\n$(rm -rf /)\nEOF"], false);
}
