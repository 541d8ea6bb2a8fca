#!/usr/bin/env bash
# Records a real `rawko demo` as docs/demo.svg. RAWKO_BINARY names the program; else the debug build is taken.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${RAWKO_BINARY:-target/debug/rawko}
binary=$(realpath "$binary")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
env -i PATH="$PATH" HOME="$home" TMPDIR="$home" python3 scripts/terminal-svg.py docs/demo.svg 'rawko demo' "$binary" demo --color always
echo "docs/demo.svg was recorded with $("$binary" --version)"
