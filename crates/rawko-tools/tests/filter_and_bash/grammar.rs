//! Command lines made of what is hard to judge, and small changes of them.
//!
//! Unlisted programs stand wherever bash should see text: in quotes, comments, here-documents and patterns, and wherever
//! a listed program could be made to start or write something by an option.

use super::dice::Dice;

/// Programs that are listed.
pub(crate) const LISTED: &[&str] = &[
    "ls", "cat", "wc", "sort", "uniq", "sed", "find", "grep", "head", "cut", "awk", "diff", "diff3", "sdiff",
    "shuf", "iconv", "file", "date", "xxd", "od", "comm", "paste", "xargs", "env", "nice", "timeout",
    "nohup", "stdbuf", "setsid", "time", "ionice", "taskset", "command", "test", "[", "echo", "printf",
    "export", "read", "set", "true", "git", "curl", "wget", "zip", "rsync", "less", "man", "vi", "ed", "ssh",
    "tar",
];

/// Programs that are there and not listed, besides the ends of here-documents.
pub(crate) const UNLISTED: &[&str] = &[
    "evil", "touch", "rm", "sh", "bash", "E", "EOF", "a", "b", "x", "z", "src", "work", "0", "1", "2", "i",
    "A", "in", "do", "fi", "n", "p",
];

/// Text that would run something if it were parsed in another way than bash does.
const INERT: &[&str] = &[
    "touch z",
    "; evil",
    "$(evil)",
    "`evil`",
    " <(evil)",
    ")evil",
    "E\nevil",
    "]] ; evil",
    "esac; evil",
    "\\\nevil",
    "\nevil\n",
    "| rm z",
    "E) evil",
    "#",
    "a[$(evil)]",
];

const PLAIN_WORDS: &[&str] = &[
    "a",
    "src",
    "-n",
    "x=y",
    "a*",
    "{a,b}",
    "a#b",
    "!",
    "\\'",
    "\\\"",
    "\\$",
    "\\\\",
    "E",
    "EOF)",
    "[a]",
    "$a",
    "\"$a\"",
    "~",
    "--",
    "-",
    "/dev/null",
    "{}",
    "@",
    "%",
    "src/b",
    "./a",
    "1",
    "?",
    "-*",
];

const WORDS: &[&str] = &[
    "a",
    "src",
    "'~'",
    "\"a\u{1}b\"",
    "\"$\u{1}(&)\"",
    "$(&)",
    "$\u{1}(&)",
    "`ls`",
    "<\u{1}(&)",
    "$'\\''",
    "$'\\x7e'",
    "$((1<<2))",
    "$((x+1))",
    "${a}",
    "${a:-$(%)}",
    "${a%b}",
    "a\u{1}b",
    "\\#",
    "$(cat ^)",
    "\"$(cat ^)\"",
    "$\u{1}(%)",
    "\"$\u{1}(%)\"",
    "<\u{1}(%)",
    "?",
    "-?",
    "$((\u{5}))",
    "\"$((\u{5}))\"",
    "$\u{1}((\u{5}))",
    "${x\u{6}}",
    "\"${x\u{6}}\"",
    "\"${\u{1}a\u{6}}\"",
    "${@\u{6}}",
    "${#x\u{6}}",
    "${!x\u{6}}",
    "$(cat src/e)",
];

/// What is calculated: `i`, `n` and `x` may be integers or not.
const CALCULATIONS: &[&str] = &[
    "i+1",
    "i++",
    "i<(n)",
    "++n",
    "x",
    "i*n-1",
    "x=1",
    "n+=2",
    "i<n?i:n",
    "$i+1",
    "${n}",
    "$x",
    "a$i",
    "$i$n",
    "a[i]",
    "a[$x]",
    "a[$(evil)]",
    "$(evil)",
    "$(cat src/e)",
    "${#x}",
    "PWD",
    "_",
    "REPLY",
    "PATH=1",
    "i,x",
    "$1+i",
    "$#",
    "0x1f&i",
    "i==x",
    "`evil`",
    "${x-1}",
    "x[0]",
    "$[i]",
    "(i)",
    "i\n+1",
    "'x'",
    "10#$i",
];

/// What follows a name inside `${…}`.
const OPERATORS: &[&str] = &[
    "%b",
    "##*/",
    "/a/b",
    "//\\//_",
    "^^",
    ",",
    ":-a",
    ":+a",
    "-",
    ":?",
    ":1",
    ": -1",
    ":i:2",
    ":x",
    ":$i",
    "[0]",
    "[@]",
    "[*]",
    "[i]",
    "[$x]",
    "[x]",
    "[$(evil)]",
    "@P",
    "@Q",
    "@A",
    "=a",
    ":=$(evil)",
    ":-$(evil)",
    ":-`evil`",
    "%$(evil)",
    "/a/$x",
    ":-$x",
    ":-'a'",
    ":-\"a\"",
    ":-{}",
    "/{",
    "[@]:1:n",
    "[0]@P",
    ":-<(evil)",
    ":$(evil)",
    "%@(a)",
    "[a[$(evil)]]",
    ":-~",
    "/$x",
    "#$x",
    "[-1]",
    ":x?1:2",
    "//[a]/",
    ":-\\}",
    "[@]@P",
    "\\\n%b",
];

/// How a variable gets a value.
const SETTINGS: &[&str] = &[
    "i=0",
    "n=5",
    "x=1",
    "i=0 n=3",
    "x='a[$(evil)]'",
    "x+='[$(evil)]'",
    "x=a",
    "x=$(cat src/e)",
    "x=$((i+1))",
    "x=$i",
    "read x <src/e",
    "read <src/e",
    "export x='a[$(evil)]'",
    "command read -r x <src/e",
    "x=(1 2)",
    "a=(a src)",
    "x=('a[$(evil)]')",
    "a=([$(evil)]=1)",
    "a[0]=1",
    "a=($(cat src/e))",
    "a+=(1)",
    "x=$n$i",
    "x=\"$((n))\"",
    "x=5a",
    "a=(*)",
    "a=(\n1 # (\n2\n)",
    "PWD=1",
    "REPLY=1",
    "_=1",
    "i=-1",
    "a=(@)",
    "x=@",
    "set -u",
    "((x=5))",
    "for x in *; do ls $((x)); done",
    "for x in 1 2; do ((i+=x)); done",
    "for x in {1..3}; do ls $((x+1)); done",
    "for x in $(cat src/e); do ((x)); done",
    "for ((i=0; i<n; i++)); do ls $i; break; done",
    "x=\"1\"",
    "x=1\\\n2",
    "cd src",
    "cd 'a[$(evil)]'",
    "export i",
    "unset x",
    "printf -v x %s 'a[$(evil)]'",
    "x=1; x='a[$(evil)]' ls",
];

const COMMANDS: &[&str] = &[
    "ls @",
    "cat @ @",
    "wc -l \u{1}@",
    "ls @ @ # ~",
    "cat ^",
    "cat <<<@",
    "ls 2>&1 @",
    "cat <a @",
    "a=@ ls",
    "a=@; ls $a",
    "( & )",
    "{ &; }",
    "if &; then &; fi",
    "case @ in a) &;; esac",
    "case @ in (a|'~') & ;& *) &\nesac",
    "for i in @; do &; done",
    "for i in a b; do ls $i; done",
    "[[ -e @ ]]",
    "[[ @ == @ && ! -f @ ]]",
    "[[ @ -eq @ ]]",
    "[[ @ <\u{1}(&) ]]",
    "[[\n@ < @ ]] && ls",
    "((1 < 2)) # ~",
    "((x=@))",
    "! ls @",
    "ls >(&) @",
    "[[ -e <\u{1}(%) ]]",
    "ls $\u{1}(%)",
    "[[ @ == <\u{1}(%) ]]",
    "ls > @",
    "ls >> z",
    "ls 2>@ >&2",
    "cat >z ^",
    "cd @ && &",
    "cd src; &",
    "test @ @ @",
    "[ -n @ ]",
    "export a=@",
    "export @",
    "set @",
    "read @",
    "printf @ @",
    "PATH=@ ls",
    "Z=1 \u{2}",
    "x() { &; }; x",
    "\u{7}; ls $((\u{5}))",
    "\u{7}; ((\u{5}))",
    "\u{7}; \u{7}; ls $((\u{5})) @",
    "\u{7}; \u{7}; ((\u{5})) && &",
    "\u{7}; [[ \u{5} -eq $i ]]",
    "\u{7}; [[ $x -lt \u{5} || @ -gt 1 ]] && &",
    "\u{7}; ls \"${a\u{6}}\" ${x\u{6}}",
    "for ((\u{5}; i<2; i++)); do &; break; done",
    "for ((i=0; i<2; \u{5})); do &; break; done",
    "for x in {1..3} @; do ls $((x)); done",
    "\u{7}\nwhile ((i++ < 2)); do &; break; done",
    "a=(@ @); ls \"${a[@]}\"",
    "a=(@\n@ # ~\n); \u{2} \"${a[@]}\"",
    "a+=(@) ls",
    "\u{7}; cat ^",
    "sort \"${a[@]}\"",
    "time &",
    "\u{2}",
    "\u{2}",
    "\u{2}",
    "\u{2}",
    "\u{2}",
    "\u{2}",
    "\u{3} \u{2}",
    "\u{3} \u{3} \u{2}",
    "\u{3} %",
    "\u{3} @ %",
    "ls | \u{3} \u{2}",
];

/// Listed programs that start the program in their operands, with options of theirs.
const WRAPPERS: &[&str] = &[
    "env",
    "env -i",
    "env A=1",
    "env \u{4}",
    "env PATH=src",
    "xargs",
    "xargs -0",
    "xargs -I{}",
    "xargs -n1",
    "xargs \u{4}",
    "nice",
    "nice -n 5",
    "nice -5",
    "nice \u{4}",
    "timeout 1",
    "timeout -s INT 1",
    "timeout \u{4} 1",
    "nohup",
    "nohup --",
    "stdbuf -oL",
    "stdbuf \u{4}",
    "setsid",
    "setsid -w",
    "setsid \u{4}",
    "time -p",
    "\\time",
    "\\time \u{4}",
    "ionice -c3",
    "ionice \u{4}",
    "taskset 1",
    "taskset \u{4} 1",
    "command",
    "command --",
    "command -p",
    "find . -exec",
    "find a -name a -exec",
    "find . -execdir",
    "find . -ok",
    "git bisect run",
    "git rebase -x",
    "git submodule foreach",
    "git -c",
];

/// Words by which some program writes or starts something, or that make another word harmless or dangerous.
const OPTIONS: &[&str] = &[
    "-o z",
    "-oz",
    "-o",
    "--output=z",
    "--output z",
    "--outp=z",
    "-O",
    "-O z",
    "-O%",
    "-T z",
    "-i",
    "-i.bak",
    "-iz",
    "-ni",
    "--in-place",
    "--in-pl",
    "-n",
    "-e",
    "-f a",
    "-f src/b",
    "-s",
    "-r",
    "-u",
    "-c",
    "-d,",
    "-k1",
    "-z",
    "-x",
    "-p",
    "-l",
    "--compress-program=evil",
    "--compress-prog evil",
    "--compress evil",
    "-S1b",
    "-S%",
    "-S '%'",
    "--split-string=evil",
    "--split-string='evil z'",
    "-C src",
    "--chdir=src",
    "--diff-program=evil",
    "--diff-program evil",
    "--filter=evil",
    "-exec % \\;",
    "-exec % {} +",
    "-execdir % ';'",
    "-ok % \\;",
    "-okdir % \\;",
    "-delete",
    "-fprint z",
    "-fls z",
    "-fprintf z a",
    "-fprint0 z",
    "-name a",
    "-name '*'",
    "-type f",
    "-print",
    "-quit",
    "1p",
    "'1w z'",
    "'w z'",
    "'s/A/b/w z'",
    "'1e evil'",
    "'s/.*/evil/e'",
    "'s/.*/evil/ge'",
    "'1!w z'",
    "'/A/{w z\n}'",
    "p",
    "'$!d'",
    "'s/a/b/'",
    "'r a'",
    "'R a'",
    "'{print > \"z\"}'",
    "'BEGIN{system(\"evil\")}'",
    "'BEGIN{\"evil\"|getline}'",
    "'{print | \"evil\"}'",
    "'{print}'",
    "'1>2{print}'",
    "'$1>\"z\"'",
    "'{print $1>\"z\"}'",
    "-v a=1",
    "--version",
    "--help",
    "-a",
    "--arg-file=a",
    "-a a",
    "-I%",
    "-I {}",
    "-Ils",
    "-P2",
    "-L1",
    "-E x",
    "-i{}",
    "--replace=ls",
    "--process-slot-var=PATH",
    "-1",
    "--",
    "a",
    "src",
    "z",
    "+1",
    "+!evil",
    "-w",
    "-W",
    "--files0-from=a",
    "--random-source=a",
    "-D a",
    "--debug",
    "-m",
    "-q",
    "-b",
    "-Fa",
    "-g",
    "-ex",
    "-L",
    "-t",
    "-v",
    "--preserve-status",
    "-k 1",
    "--kill-after=1",
    "--signal=9",
    "-f z",
    "-a -o z",
    "--append",
    "--format=x",
    "-fo z",
    "-pp",
    "-ao z",
    "-c 'evil'",
    "--use-compress-program=evil",
    "-I evil",
    "--to-command=evil",
    "--checkpoint=1 --checkpoint-action=exec=evil",
    "-F evil",
    "--rsh=evil",
    "-e evil",
    "-xf z",
    "-TT evil",
    "--ext-diff",
    "-Oevil",
    "--open-files-in-pager=evil",
    "--no-pager",
    "-c core.pager=evil",
    "-c alias.x=!evil",
    "--exec-path=src",
    "--upload-pack=evil",
    "--pager evil",
    "-P evil",
    "--config a",
    "-K a",
    "--dump-header z",
    "-D z",
    "-c z",
    "--cookie-jar z",
    "--trace z",
    "--stderr z",
    "--remote-name",
    "--remote-header-name",
    "--output-dir src",
    "--output-document=z",
    "--post-file=a",
    "--execute=a",
    "--append-output=z",
    "--directory-prefix=src",
    "--save-cookies=z",
    "--warc-file=z",
    "--unzip-command=evil",
    "-o ProxyCommand=evil",
    "-oProxyCommand=evil",
    "-E z",
    "--log-file=z",
    "--debugger=evil",
];

const JOINTS: &[&str] =
    &["; ", "\n", " && ", " || ", " | ", " \u{1}|& ", "&\u{1}&\n", " \\\n; ", "\n# ~\n", " |\u{1}| ", " & "];

const BODY: &[&str] = &[
    "text",
    "",
    "% ",
    "%)",
    "%; evil",
    "%) evil",
    "\t%",
    "(",
    "'",
    "\"",
    "x\\",
    "\\",
    "touch z",
    "$x",
    "$(evil)",
    "`evil`",
    "${x:-$(evil)}",
    "$(ls)",
    "a $(ls # ))",
    "$(ls",
    ")",
    "$(ls 'a)')",
    "$(cat <<E",
    "$(ls; evil)",
    "\\$(evil)",
    "\\\\$(evil)",
    "'$(ls \"a\")'",
    "\"$(ls \"$x\")\" $((i+1))",
    "$((x))",
    "${x%a} ${a[@]}",
    "$(echo `ls`)",
    "$(case a in a) ls;; esac)",
    "\t$(ls)",
    "$\\",
];

/// What a change of a line puts into it.
const TOKENS: &[&str] = &[
    "'",
    "\"",
    "\\",
    "\\\n",
    "\n",
    "`",
    "$(",
    ")",
    "(",
    "{",
    "}",
    "$",
    "${",
    "$((",
    "))",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "<",
    ">",
    ">>",
    "<<E\n",
    "\nE\n",
    "#",
    " ",
    "\t",
    "*",
    "?",
    "[",
    "]",
    "[[ ",
    " ]]",
    "!",
    "~",
    "=",
    "+=",
    "-",
    "--",
    "evil",
    " evil ",
    "; evil",
    "$(evil)",
    "z",
    "x",
    "$x",
    "((",
    "$((x))",
    "a[",
    "=",
    "@",
    "@P",
    "x=",
    " -eq ",
    "[$(evil)]",
    "<(",
    ">(",
    "<<<",
    "&>",
    ">&",
    ">|",
    "2>",
    "\u{a0}",
    "\r",
    "\u{b}",
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "in ",
    "esac",
    "case ",
    "for i in ",
    "while ",
    "eval ",
    "exec ",
    "function f ",
    "()",
    "coproc ",
    "time ",
    "$'",
    "$\"",
    "\\x",
    "{a,b}",
    "-o",
    "-exec",
    "w z",
    "/",
    "..",
    ":",
];

pub(crate) struct Generator {
    dice: Dice,
    /// Lines to change.
    earlier: Vec<String>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), earlier: Vec::new() }
    }

    /// The next line: a new one, or a change of one that was kept.
    pub(crate) fn line(&mut self) -> String {
        if self.earlier.is_empty() || self.dice.once_in(2) { self.script(2) } else { self.changed() }
    }

    /// Keeps a line that the filter allows: its neighbours are the most interesting ones.
    pub(crate) fn keep(&mut self, line: &str) {
        const KEPT: usize = 500;
        if line.len() > 400 {
            return;
        }
        if self.earlier.len() < KEPT {
            self.earlier.push(line.to_owned());
        } else {
            let at = self.dice.below(KEPT);
            line.clone_into(&mut self.earlier[at]);
        }
    }

    fn changed(&mut self) -> String {
        let at = self.dice.below(self.earlier.len());
        let mut line: Vec<char> = self.earlier[at].chars().collect();
        for _ in 0..=self.dice.below(3) {
            let start = self.dice.below(line.len() + 1);
            let end = (start + self.dice.below(6)).min(line.len());
            match self.dice.below(4) {
                0 => drop(line.drain(start..end)),
                1 => {
                    let copy: Vec<char> = line[start..end].to_vec();
                    let to = self.dice.below(line.len() + 1);
                    line.splice(to..to, copy);
                }
                _ => {
                    let token = self.dice.of(TOKENS);
                    line.splice(start..start, token.chars());
                }
            }
        }
        line.into_iter().filter(|c| *c != '\0').collect()
    }

    /// Fills in a template: `@` is a word, `&` a script, `~` text that must not run, `^` a here-document, `%` an unlisted
    /// program, `\u{1}` an occasional joined line, `\u{2}` a listed program with words of its own, `\u{3}` a wrapper,
    /// `\u{4}` an option, `\u{5}` something to calculate, `\u{6}` an operator of an expansion, `\u{7}` a variable that is set.
    fn fill(&mut self, template: &str, depth: usize) -> String {
        let mut text = String::new();
        for c in template.chars() {
            match c {
                '@' => text.push_str(&self.word(depth)),
                '&' if depth == 0 => text.push_str("ls"),
                '&' => text.push_str(&self.script(depth - 1)),
                '~' => text.push_str(self.dice.of(INERT)),
                '^' => text.push_str(&self.heredoc()),
                '%' => text.push_str(self.dice.of(&["evil", "touch z", "rm z"])),
                '\u{1}' => text.push_str(if self.dice.once_in(4) { "\\\n" } else { "" }),
                '\u{2}' => text.push_str(&self.call(depth)),
                '\u{3}' => {
                    let wrapper = self.dice.of(WRAPPERS);
                    text.push_str(&self.fill(wrapper, 0));
                }
                '\u{4}' => text.push_str(&self.option()),
                '\u{5}' => text.push_str(self.dice.of(CALCULATIONS)),
                '\u{6}' => text.push_str(self.dice.of(OPERATORS)),
                '\u{7}' => {
                    let setting = self.dice.of(SETTINGS);
                    text.push_str(&self.fill(setting, 0));
                }
                c => text.push(c),
            }
        }
        text
    }

    fn call(&mut self, depth: usize) -> String {
        let mut text = self.dice.of(LISTED).to_owned();
        for _ in 0..self.dice.below(4) {
            text.push(' ');
            let word = if self.dice.once_in(4) { self.word(depth) } else { self.option() };
            text.push_str(&word);
        }
        text
    }

    fn option(&mut self) -> String {
        if self.dice.once_in(6) {
            let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
            let mut text = "-".to_owned();
            for _ in 0..=self.dice.below(2) {
                text.push(char::from(letters[self.dice.below(letters.len())]));
            }
            text.push_str(self.dice.of(&["", " z", "z", " evil", "=z"]));
            return text;
        }
        let option = self.dice.of(OPTIONS);
        let mut text = option.replace('%', "evil");
        // The same word in another spelling.
        match self.dice.below(12) {
            0 => text = text.replacen('-', "\\-", 1),
            1 if !text.contains(['\'', '"']) => text = format!("'{text}'"),
            2 if !text.contains(['\'', '"']) => text = format!("$'{text}'"),
            3 => text = text.replacen('o', "\"o\"", 1),
            4 => text = text.replacen('e', "\\\ne", 1),
            _ => {}
        }
        text
    }

    fn word(&mut self, depth: usize) -> String {
        let templates = if depth == 0 { PLAIN_WORDS } else { WORDS };
        let template = self.dice.of(templates);
        if depth == 0 && matches!(template, "@" | "%") {
            return template.to_owned();
        }
        self.fill(template, depth.saturating_sub(1))
    }

    fn script(&mut self, depth: usize) -> String {
        let template = self.dice.of(COMMANDS);
        let mut text = self.fill(template, depth);
        while self.dice.once_in(3) {
            let (joint, template) = (self.dice.of(JOINTS), self.dice.of(COMMANDS));
            // The `&` of an operator stands for itself.
            text.push_str(&joint.replace('~', self.dice.of(INERT)).replace('\u{1}', ""));
            text.push_str(&self.fill(template, depth.saturating_sub(1)));
        }
        text
    }

    fn heredoc(&mut self) -> String {
        let end = self.dice.of(&["E", "EOF"]);
        let start = self.dice.of(&["<<'%'", "<<%", "<<-%", "<<\\%", "<<-\"%\""]).replace('%', end);
        let rest = self.dice.of(&["", "", " | wc", " && ls", " # touch z", " >/dev/null"]);
        let mut text = format!("{start}{rest}\n");
        for _ in 0..self.dice.below(4) {
            text.push_str(&self.dice.of(BODY).replace('%', end));
            text.push('\n');
        }
        text + end + "\n"
    }
}
