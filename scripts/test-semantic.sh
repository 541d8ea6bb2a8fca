#!/usr/bin/env bash
# The tests that need the tensor library and the model's weights: builds the one, fetches the other where it is missing.
# `.ci/run` calls this, unless RAWKO_CI_SEMANTIC=0.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/fetch-model.sh
# Without the model these tests fail instead of saying that they were skipped.
export RAWKO_REQUIRE_MODEL=1
cargo clippy -p rawko-semantic --all-targets --features model --locked -- -D warnings
cargo nextest run -p rawko-semantic --features model --locked "$@"
# The way from the configuration to the model, and a build that has it.
cargo nextest run -p rawko -p rawko-cli --features rawko-cli/semantic --locked -E 'test(meaning) or test(without_the_model)'
