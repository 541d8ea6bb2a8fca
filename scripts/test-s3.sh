#!/usr/bin/env bash
# What the workers of a fleet share, in a bucket of a server that others wrote: moto, which answers as S3 does. The package
# comes from PyPI into an environment under target/; where it cannot be had, it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

MOTO='moto[s3,server]==5.2.5'

place="$PWD/target/moto"
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

if ! { [ -x "$place/bin/python" ] || python3 -m venv "$place"; } >"$work/pip.log" 2>&1 ||
  ! timeout 20m "$place/bin/pip" install --quiet --disable-pip-version-check "$MOTO" >"$work/pip.log" 2>&1; then
  echo "SKIPPED, nothing was checked: $MOTO cannot be had: $(tail -1 "$work/pip.log")"
  exit 0
fi

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$place/bin/moto_server" --host 127.0.0.1 --port "$port" >"$work/moto.log" 2>&1 &
server=$!
bucket() {
  python3 -c "import urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:$port/fleet', method='PUT'), timeout=1)" 2>/dev/null
}
for _ in $(seq 100); do bucket && break; sleep 0.1; done

export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
export AWS_ENDPOINT="http://127.0.0.1:$port" AWS_ALLOW_HTTP=true NO_PROXY=127.0.0.1
# What is selected is what `test-fleet.sh` selects, so that all of it is compiled once for both.
RAWKO_TEST_S3=s3://fleet/shared cargo nextest run --locked -p rawko-copilot -p rawko-temporal -p rawko-cli \
  --features rawko-cli/fleet,rawko-cli/copilot --lib -E 'package(rawko-temporal) and test(/^store::/)' "$@"
