#!/usr/bin/env bash
# The tests that need the tensor library and the model's weights: builds the one, fetches the other where it is missing.
# `.ci/run` calls this where RAWKO_CI_SEMANTIC=1.
set -euo pipefail
cd "$(dirname "$0")/.."
export RAWKO_MODEL_DIR="${RAWKO_MODEL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/rawko/models/all-minilm-l6-v2}"
scripts/fetch-model.sh --to "$RAWKO_MODEL_DIR"
# Without the model these tests fail instead of saying that they were skipped.
export RAWKO_REQUIRE_MODEL=1
cargo clippy -p rawko-semantic --all-targets --features model --locked -- -D warnings
cargo nextest run -p rawko-semantic --features model --locked "$@"
