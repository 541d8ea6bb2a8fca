# The few commands a contributor needs. `just` without arguments lists them.

_default:
    @just --list

# Format, lints, types: quick, before every commit
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --features rawko-cli/fleet,rawko-cli/copilot --locked -- -D warnings

# All tests
test *args:
    ./test.sh {{args}}

# The whole thing on a small broken project, with scripted answers
demo:
    cargo run --quiet -- demo

# What rawko itself costs
bench *args:
    cargo bench -p rawko-cli --bench harness -- {{args}}

# The Bash filter against the real bash: 100,000 new lines of each kind, 10 to 30 minutes
fuzz-filter lines="100000" seed=`date +%s`:
    RAWKO_FILTER_LINES={{lines}} RAWKO_FILTER_SEED={{seed}} cargo test --locked -p rawko-tools --test filter_and_bash -- --nocapture

# The public items of the crate `rawko` against an earlier commit, by the rules of semantic versioning. Needs cargo-semver-checks
semver baseline="HEAD^":
    cargo semver-checks --package rawko --baseline-rev {{baseline}}

# Writes the generated pages: references, the machine, the phases, the list of decisions
update-docs:
    RAWKO_UPDATE_DOCS=1 cargo test --quiet -p rawko-cli --bin rawko documentation
    RAWKO_UPDATE_DOCS=1 cargo test --quiet -p rawko-core --test machine_export --test phases

# What runs before a change lands
ci:
    bash .ci/run
