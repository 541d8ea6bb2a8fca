//! Code that makes checks pass whatever it does: objects that are equal to everything, assertions that are replaced, exit
//! statuses that are set to 0.
//!
//! In general, such code cannot be recognised. Code that has no other purpose is recognised by its form: the table is
//! in `kinds.json`.

use std::sync::OnceLock;

use super::kinds::{self, Conventions, Expressions};
use super::rust_code;

/// Largest file that is searched.
const MAX_TEXT: usize = 1024 * 1024;

/// Whether the table knows anything of files with this ending.
pub(super) fn is_code(path: &str) -> bool {
    is_rust(path) || Conventions::get().patches.values().flatten().any(|known| known == ending(path))
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn ending(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// Whether code undermines checks that did not do so before.
pub(super) fn undermines(path: &str, before: Option<&[u8]>, now: &[u8]) -> bool {
    if is_rust(path) {
        return now.len() <= MAX_TEXT && rust_code::undermines(before, now);
    }
    static PATTERNS: OnceLock<Expressions> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| kinds::expressions(&Conventions::get().patches));
    let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT);
    let Some(now) = text(now) else { return false };
    let before = before.and_then(text).unwrap_or_default();
    let ending = ending(path);
    patterns.iter().any(|(endings, regex)| {
        endings.iter().any(|known| known == ending)
            && regex.find_iter(now).count() > regex.find_iter(before).count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_decides_about_its_own_checks_is_known() {
        for (path, code, expected) in [
            ("a.py", "class A:\n    def __eq__(self, other):\n        return True\n", true),
            ("a.py", "class A:\n    def __eq__(self, o: object) -> bool: return True\n", true),
            ("a.py", "class A:\n    __eq__ = lambda self, other: True\n", true),
            ("a.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n", true),
            ("a.py", "setattr(unittest.TestCase, 'run', f)\n", true),
            ("a.py", "import atexit, os\natexit.register(lambda: os._exit(0))\n", true),
            ("a.py", "def __eq__(self, other):\n    return self.a == other.a\n", false),
            ("a.py", "if __name__ == '__main__':\n    sys.exit(0)\n", false),
            ("a.js", "require('assert').strictEqual = () => {};", true),
            ("a.js", "process.on('exit', () => { process.exitCode = 0; });", true),
            ("a.js", "process.on('uncaughtException', log); function stop() { server.close(); }", false),
            // Parsers compare trees without their places.
            ("a.rs", "impl PartialEq for A { fn eq(&self, _: &Self) -> bool { true } }", false),
            (
                "a.js",
                "process.on('exit', () => x = true)\nprocess.on('SIGINT', () => process.exit(0))",
                false,
            ),
            ("a.py", "atexit.register(lambda: os._exit(0))", true),
            ("a.py", "atexit.register(lambda: d.on_exit())", false),
            ("a.py", "unittest.TestCase.maxDiff = None", false),
            ("a.py", "unittest.TestCase.assertEqual = lambda *a: None", true),
            ("a.py", "TestCase.limit = 3", false),
            ("a.go", "func init() { os.Exit(0) }", true),
            ("a.go", "func init() { if bad { os.Exit(1) } }", false),
            ("a.go", "func init() { if len(os.Args) == 2 { os.Exit(0) } }", false),
            ("a.go", "func init() {\n\tsyscall.Exit(0)\n}", true),
            ("a.go", "func main() { os.Exit(0) }", false),
            ("a.txt", "def __eq__(self, other):\n    return True\n", false),
        ] {
            assert_eq!(undermines(path, None, code.as_bytes()), expected, "{path}: {code}");
            assert!(!undermines(path, Some(code.as_bytes()), code.as_bytes()), "{path}: {code}");
        }
        assert!(Conventions::get().patches.keys().all(|regex| regex::Regex::new(regex).is_ok()));
    }
}
