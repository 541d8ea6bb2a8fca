#!/usr/bin/env bash
# Runs the tests in the tables of docs/attacks.md, which really attempt the attacks, and counts them. A test that cannot
# attempt its attack on this machine (without namespaces, not as root) fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# The second column of each table names the tests.
names=$(awk -F ' [|] ' '/^[|] /{print $2}' docs/attacks.md | grep -oE '`[a-z0-9_]+`' | tr -d '`' | sort -u | paste -sd'|')
log=$(mktemp)
trap 'rm -f "$log"' EXIT
code=0
RAWKO_NO_SKIP=1 cargo nextest run --locked --no-fail-fast --status-level fail --final-status-level fail \
  -E "test(/(^|::)($names)\$/)" 2>&1 | tee "$log" || code=$?
summary=$(grep -oE '[0-9]+ tests? run: [0-9]+ passed' "$log" | tail -1)
[ -n "$summary" ] || exit 1
echo "tests of attacks: ${summary%% *}, held: $(grep -oE '[0-9]+ passed' <<<"$summary" | cut -d' ' -f1)"
exit "$code"
