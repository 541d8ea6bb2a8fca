#!/usr/bin/env bash
# Every case: what goes in, and the slug that must come out.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0

check() {
  local got
  got=$(bash slugify.sh "$1")
  if [ "$got" = "$2" ]; then
    echo "ok    '$1' -> '$got'"
  else
    echo "FAIL  '$1' -> '$got', expected '$2'"
    failed=$((failed + 1))
  fi
}

check "Hello World" "hello-world"
check "Rock & Roll!" "rock-roll"
check "  around  " "around"

echo "$failed failed"
[ "$failed" -eq 0 ]
