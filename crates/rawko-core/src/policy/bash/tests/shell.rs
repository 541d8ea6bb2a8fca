//! What the shell itself does: builtins, variables, redirections.

use super::check;

#[test]
fn builtins_and_constructs_that_change_what_runs_are_refused() {
    check(
        &[
            "eval ls",
            "source x",
            ". x",
            "exec ls",
            "trap ls EXIT",
            "alias ls=x",
            "hash -p x ls",
            "enable -f x ls",
            "builtin eval ls",
            "command eval x",
            "ls() { touch x; }; ls",
            "function ls { touch x; }",
            "coproc ls",
            "let x=1",
            "declare x=1",
            "typeset -i x",
            "local x",
            "readonly x",
            "unset x",
            "shopt -s extglob",
            "mapfile -C x y",
            "printf -v PATH x",
            "printf \"$x\" y",
            "printf %n PATH",
            "printf -- '%s%-5.2ln' y PATH",
            "printf '%%%*n' 1 PATH",
            "printf \"a$x\" PATH",
            "test -v 'a[$(touch x)]'",
            "[ -v 'a[$(touch x)]' ]",
            "[ $x ]",
            "[ \"$x\" \"$y\" ]",
            "[[ -v x ]]",
            "[[ 'a[$(touch x)]' -eq 0 ]]",
            "[[ a =~ b ]]",
            "((x=1))",
            "ls $((x))",
            "ls $[x]",
            "for ((i=0;i<1;i++)); do ls; done",
            "a[0]=1 ls",
            "a[$(ls)]=1",
            "a=(1 2)",
            "ls ${!x}",
            "ls ${x@P}",
            "ls ${x:=y}",
            "ls ${x[1]}",
            "ls ${x%.rs}",
            "ls ${ ls; }",
            "export PATH=x",
            "export -n X",
            "export \"$x\"",
            "set -o history",
            "set \"$x\"",
            "read PATH",
            "read 'a[$(touch x)]'",
            "read -a PATH",
            "for PATH in x; do ls; done",
            "select x in a; do ls; done",
            "ls {fd}>/dev/null",
            "ls {PATH}</dev/null",
        ],
        false,
    );
    check(
        &[
            "export FOO=1 && ls",
            "set -euo pipefail; ls",
            "read -r line",
            "[ -f x ] && ls",
            "test \"$x\" = y",
            "ls {fd}",
        ],
        true,
    );
}

/// A value assigned to a variable that bash keeps as an integer is calculated, and the index of an element runs
/// commands.
#[test]
fn variables_that_bash_keeps_as_integers_may_not_be_set() {
    for name in ["BASHPID", "HISTCMD", "OPTIND", "RANDOM", "SECONDS", "SRANDOM"] {
        for form in [
            "NAME='a[$(evil)]'; ls",
            "NAME+='a[$(evil)]'; ls",
            "NAME='a[$(evil)]' ls",
            "NAME+='a[$(evil)]' ls",
            "export NAME='a[$(evil)]'",
            "export NAME+='a[$(evil)]'",
            "for NAME in 'a[$(evil)]'; do ls; done",
            "read NAME",
            "read -r x NAME",
            "NAME=('a[$(evil)]')",
            "NAME[0]='a[$(evil)]'",
            "NAME+=('a[$(evil)]')",
            "NAME=$x",
            "((NAME=1))",
            "for ((NAME=0; NAME<1; NAME++)); do ls; done",
            "ls ${NAME:='a[$(evil)]'}",
            "ls $((NAME = 1))",
        ] {
            let command = form.replace("NAME", name);
            check(&[&command], false);
            super::confined::check(&["."], &[&command], false);
        }
    }
    let passing =
        ["echo $RANDOM", "SECONDS=0; ls; echo $SECONDS", "RANDOM=42; echo $RANDOM", "RANDOM_SEED=1 ls"];
    check(&passing, true);
    super::confined::check(&["."], &passing, true);
}

#[test]
fn variables_that_give_orders_may_not_be_set() {
    for name in [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "IFS",
        "PS4",
        "GIT_DIR",
        "GIT_PAGER",
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "RIPGREP_CONFIG_PATH",
        "HOME",
        "XDG_CONFIG_HOME",
        "LESSOPEN",
        "TAR_OPTIONS",
        "GREP_OPTIONS",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PERL5LIB",
        "NODE_OPTIONS",
        "NODE_PATH",
        "CARGO_HOME",
        "RUSTC_WRAPPER",
        "CC",
        "CXX",
        "LDFLAGS",
        "MAKEFLAGS",
        "INPUTRC",
        "SHELL",
        "BASH_FUNC_x",
        "PROMPT_COMMAND",
        "CDPATH",
        "GLOBIGNORE",
        "EXECIGNORE",
        "http_proxy",
        "npm_config_x",
        "TMPDIR",
        "SSH_ASKPASS",
        "BROWSER",
        "GCONV_PATH",
        "LOCPATH",
        "TERMINFO",
        "HISTFILE",
        "SHELLOPTS",
        "BASHOPTS",
        "OPTIND",
        "_",
        "JAVA_TOOL_OPTIONS",
    ] {
        let commands = [
            format!("{name}=x ls"),
            format!("{name}=x"),
            format!("{name}+=x ls"),
            format!("env {name}=x ls"),
            format!("export {name}=x"),
        ];
        check(&commands.iter().map(String::as_str).collect::<Vec<_>>(), false);
    }
    check(
        &[
            "FOO=bar ls",
            "x=1; ls $x",
            "LC_ALL=C sort a",
            "env LC_ALL=C RUST_LOG=debug ls",
            "name=\"$x\"y ls",
            "path=src; ls \"$path\"",
        ],
        true,
    );
}

#[test]
fn nothing_is_written_by_redirection_and_no_network_is_opened() {
    check(
        &[
            "ls >x",
            "ls>x",
            "ls >>x",
            "ls >|x",
            "ls &>x",
            "ls &>>x",
            "ls >&x",
            "ls 2>x",
            "ls <>x",
            "ls > $x",
            "ls > \"$x\"",
            "ls >/dev/nul?",
            "ls >/dev/null/x",
            "ls >&1-2",
            "ls >&1x",
            "ls <&-E ls",
            "ls >&-\"E\" x",
            "ls <& -E",
            "cat <<EOF & <&-E ls\nEOF",
            ">x",
            "{ ls; } >x",
            "(ls) >x",
            "if ls; then ls; fi >x",
            "while ls; do ls; done 2>x",
            "[[ a ]] >x",
            "ls >/dev/tcp/h/1",
            "cat </dev/tcp/h/1",
            "cat </dev//udp/h/1",
            "cat <$x",
            "cat <<EOF >x\nEOF",
            "ls 3<>/dev/tcp/a/1",
            "for f in a; do ls; done >x",
            "case a in a) ls;; esac >x",
            "! ls >x",
            "ls 2&>x",
            "FOO=1 >x",
            "ls >/dev/tty",
            "ls >/dev/stdout",
        ],
        false,
    );
    check(
        &[
            "ls >/dev/null",
            "ls 2>/dev/null",
            "ls &>/dev/null",
            "ls >/dev/null 2>&1",
            "ls 2>&-",
            "ls >&2",
            "cat <x",
            "cat <<<x",
            "cat 0<&3-",
            "wc -l < src/tcp/a.rs",
            "(ls; ls) 2>/dev/null",
        ],
        true,
    );
}
