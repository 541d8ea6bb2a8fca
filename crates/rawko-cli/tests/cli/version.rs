//! `rawko --version`, with and without the facts of the build, and the manual pages.

use crate::place::{Place, names};

#[test]
fn the_version_tells_the_build_on_request() {
    let place = Place::new();
    let short = place.rawko(&["--version"]).ends(0);
    assert_eq!(short.out, format!("rawko {}\n", env!("CARGO_PKG_VERSION")));
    let long = place.rawko(&["--version", "--verbose"]).ends(0);
    assert!(long.out.starts_with(&short.out), "{}", long.out);
    let named: Vec<&str> =
        long.out.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(named, ["commit", "features", "target", "journal format", "sandbox"]);
    assert!(long.out.contains(&format!("journal format: {}\n", rawko::journal::FORMAT)), "{}", long.out);
    assert_eq!(place.rawko(&["-vV"]).ends(0).out, long.out);
    // In a folder whose configuration is broken, too.
    place.write(".rawko/config.yaml", "nonsense: [");
    assert_eq!(place.rawko(&["-vV"]).ends(0).out, long.out);
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    place.rawko(&["man", "deep/man1"]).ends(0);
    let pages = names(&place.project().join("deep/man1"));
    for page in ["rawko.1", "rawko-run.1", "rawko-sessions-show.1", "rawko-config-schema.1"] {
        assert!(pages.contains(&page.to_owned()), "{page} is missing in {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    let run = std::fs::read_to_string(place.project().join("deep/man1/rawko-run.1")).unwrap();
    assert!(run.contains(".TH") && run.contains("require\\-verified"), "{run}");
    // Not among the commands that everybody sees.
    assert!(!place.rawko(&["--help"]).ends(0).out.contains("manual pages"));
    place.write("file", "");
    place.rawko(&["man", "file"]).ends(2).complains(&["cannot write manual pages", "hint:"]);
}
