#!/usr/bin/env bash
# All tests. The second command of the README; `just test` and `.ci/run` call it too.
set -euo pipefail
cd "$(dirname "$0")"
cargo nextest run --workspace --locked "$@"
cargo test --doc --workspace --locked --quiet
