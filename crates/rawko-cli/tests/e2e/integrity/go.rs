//! Go.

use super::Project;

const GO: Project = Project {
    files: &[
        ("go.mod", "module example.com/a\n\ngo 1.18\n"),
        ("add.go", "package a\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n"),
        (
            "add_test.go",
            "package a\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n",
        ),
    ],
    verify: &["go test -vet=off ./..."],
};

/// Go is not on every machine.
fn is_there() -> bool {
    let build = ["build", "testing", "testing/internal/testdeps", "os"];
    let found = std::process::Command::new("go").args(build).env("GOCACHE", super::GO_CACHE).output().is_ok();
    if !found {
        testkit::skip("there is no `go` here");
    }
    found
}

#[test]
fn weakened_tests_are_no_proof() {
    if !is_there() {
        return;
    }
    for (command, path) in [
        ("rm add_test.go", "add_test.go"),
        ("sed -i 's/!= 3/!= -1/' add_test.go", "add_test.go"),
        ("sed -i '1i //go:build never\\n' add_test.go", "add_test.go"),
    ] {
        GO.claimed(&[command], path);
    }
}

#[test]
fn code_that_ends_its_own_tests_is_no_proof() {
    if !is_there() {
        return;
    }
    // The original checks run without this one.
    let main = "printf 'package a\\n\\nimport (\\n\\t\"os\"\\n\\t\"testing\"\\n)\\n\\nfunc TestMain(m *testing.M) { os.Exit(0) }\\n' > main_test.go";
    GO.claimed(&[main], "main_test.go");
    GO.claimed(
        &["printf 'package a\\n\\nimport \"os\"\\n\\nfunc init() { os.Exit(0) }\\n' > exit.go"],
        "exit.go",
    );
}

#[test]
fn a_fault_that_is_mended_with_a_new_test_is_verified() {
    if !is_there() {
        return;
    }
    let test = "printf 'package a\\n\\nimport \"testing\"\\n\\nfunc TestMore(t *testing.T) {\\n\\tif Add(2, 2) != 4 {\\n\\t\\tt.Fatal()\\n\\t}\\n}\\n' > more_test.go";
    GO.verified(&["sed -i 's/a - b/a + b/' add.go", test], "intact");
}
