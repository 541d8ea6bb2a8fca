use proptest::prelude::*;

use super::*;

fn profile() -> Profile {
    Profile {
        read: vec!["/Users/ann/project".into(), "/Users/ann/.rustup".into()],
        write: vec!["/Users/ann/project/src".into()],
        denied: vec!["/Users/ann/project/src/.env".into()],
        protected: vec!["/Users/ann/project/bare.git".into()],
        home: "/Users/ann/Library/Caches/rawko/home".into(),
        temporary: "/private/var/folders/x/rawko".into(),
        proxy: Some(4_711),
    }
}

/// The rules with their words and strings, read as SBPL reads them.
fn rules(text: &str) -> Vec<Vec<String>> {
    let (mut rules, mut rule, mut depth) = (Vec::new(), Vec::new(), 0);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                assert!(depth >= 0, "too many closing parentheses");
                if depth == 0 {
                    rules.push(std::mem::take(&mut rule));
                }
            }
            '"' => {
                let mut string = String::new();
                loop {
                    match letters.next().expect("the string ends") {
                        '"' => break,
                        '\\' => string.push(match letters.next().expect("something follows") {
                            'n' => '\n',
                            'r' => '\r',
                            't' => '\t',
                            other => other,
                        }),
                        other => string.push(other),
                    }
                }
                rule.push(string);
            }
            _ if letter.is_whitespace() => {}
            _ => {
                let mut word = String::from(letter);
                while let Some(next) = letters.next_if(|c| !c.is_whitespace() && !"()\"".contains(*c)) {
                    word.push(next);
                }
                rule.push(word);
            }
        }
    }
    assert_eq!(depth, 0, "a rule is open at the end");
    rules
}

/// What the last rule that names the path or a folder around it says about the operation.
fn verdict(profile: &Profile, operation: &str, path: &str) -> String {
    let text = profile.text().unwrap();
    let matches = |rule: &&Vec<String>| {
        let names = |pair: &[String]| match pair[0].as_str() {
            "subpath" => Path::new(path).starts_with(&pair[1]),
            "literal" => path == pair[1],
            _ => false,
        };
        rule.iter().any(|word| word == operation) && rule.windows(2).any(names)
    };
    rules(&text).iter().rfind(matches).map_or_else(|| "deny".to_owned(), |rule| rule[0].clone())
}

#[test]
fn a_profile() {
    insta::assert_snapshot!(profile().text().unwrap());
}

#[test]
fn nothing_granted_grants_nothing() {
    let profile = Profile { home: "/h".into(), temporary: "/t".into(), ..Profile::default() };
    let text = profile.text().unwrap();
    assert!(!text.contains("network"), "{text}");
    for rule in rules(&text) {
        let unfiltered = rule.iter().any(|word| word.starts_with("file-write") || word == "file-read*");
        assert!(!unfiltered || rule.iter().any(|word| word.contains('/')), "{rule:?} holds for every path");
    }
    assert_eq!(verdict(&profile, "file-read*", "/Users/ann/.ssh/id_rsa"), "deny");
    assert_eq!(verdict(&profile, "file-write*", "/usr/bin/env"), "deny");
}

#[test]
fn the_last_rule_counts() {
    #[track_caller]
    fn check(operation: &str, path: &str, expected: &str) {
        assert_eq!(verdict(&profile(), operation, path), expected, "{operation} {path}");
    }
    check("file-read*", "/Users/ann/project/README.md", "allow");
    check("file-write*", "/Users/ann/project/README.md", "deny");
    check("file-write*", "/Users/ann/project/src/main.rs", "allow");
    check("file-read*", "/Users/ann/project/src/.env", "deny");
    check("file-write*", "/Users/ann/project/src/.env", "deny");
    check("file-read*", "/Users/ann/project/bare.git/config", "allow");
    check("file-read*", "/Library/Keychains/System.keychain", "deny");
    check("file-read*", "/Library/Developer/CommandLineTools/usr/bin/git", "allow");
    check("file-read*", "/Users/ann/.ssh/id_rsa", "deny");
    check("file-write*", "/dev/tty", "deny");
    // Else the folder could be moved, and what is denied in it read under its new name.
    check("file-write-unlink", "/Users/ann/project/src", "deny");
    check("file-write-unlink", "/Users/ann/project", "deny");
}

#[test]
fn a_path_that_a_profile_cannot_name_is_refused() {
    #[track_caller]
    fn check(path: &str, expected: fn(PathBuf) -> ProfileError) {
        let profile = Profile { denied: vec![path.into()], ..profile() };
        assert_eq!(profile.text(), Err(expected(path.into())), "{path:?}");
    }
    check("/a\0b", ProfileError::NoText);
    check("src", ProfileError::NotResolved);
    check("", ProfileError::NotResolved);
    check("/a/../b", ProfileError::NotResolved);
}

proptest! {
    /// A path is one string, whatever is in it, and no rule of its own.
    #[test]
    fn a_path_is_quoted(name in "(/[ -~\n\r\t\"\\\\()äß;#]{1,20}){1,3}") {
        prop_assume!(!name.split('/').any(|part| part == "." || part == ".."));
        let text = Profile { denied: vec![PathBuf::from(&name)], ..profile() }.text().unwrap();
        let expected = ["deny", "file-read*", "file-write*", "subpath", &name];
        let rules = rules(&text);
        prop_assert_eq!(rules.len(), self::rules(&profile().text().unwrap()).len());
        prop_assert_eq!(rules.last().unwrap(), &expected.map(str::to_owned));
    }

    /// Whatever is granted besides, what is denied stays denied.
    #[test]
    fn denied_wins(granted in "(/[a-c]){1,4}", denied in "(/[a-c]){1,4}") {
        let profile = Profile {
            read: vec![PathBuf::from(&granted)],
            write: vec![PathBuf::from(&granted)],
            denied: vec![PathBuf::from(&denied)],
            home: "/h".into(),
            temporary: "/t".into(),
            ..Profile::default()
        };
        for operation in ["file-read*", "file-write*"] {
            prop_assert_eq!(verdict(&profile, operation, &format!("{denied}/x")), "deny");
        }
        if !Path::new(&granted).starts_with(&denied) {
            prop_assert_eq!(verdict(&profile, "file-write*", &granted), "allow");
        }
    }
}
