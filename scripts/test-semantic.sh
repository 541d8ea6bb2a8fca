#!/usr/bin/env bash
# The tests that need the tensor library and the model's weights: builds the one and fetches the other.
# `.ci/run` calls this where RAWKO_CI_SEMANTIC=1.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/fetch-model.sh
cargo clippy -p rawko-semantic --all-targets --features model --locked -- -D warnings
cargo nextest run -p rawko-semantic --features model --locked --run-ignored all "$@"
# The way from the configuration to the model, and a build that has it.
cargo nextest run -p rawko -p rawko-cli --features rawko-cli/semantic --locked --run-ignored all -E 'test(meaning) or test(without_the_model)'
