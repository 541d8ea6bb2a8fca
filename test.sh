#!/usr/bin/env bash
# All tests of the default members. The second command of the README; `just test` and `.ci/run` call it too.
# Arguments go to `cargo nextest run`, or to `cargo test` where cargo-nextest is not installed.
set -euo pipefail
cd "$(dirname "$0")"
if cargo nextest --version >/dev/null 2>&1; then
  # Many tests wait for the disk or for a process: more of them at once than there are cores.
  export NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}"
  cargo nextest run --locked "$@"
  cargo test --doc --locked --quiet
else
  echo "cargo-nextest is not installed: the tests run with cargo test"
  cargo test --locked "$@"
fi
