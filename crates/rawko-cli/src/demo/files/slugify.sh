#!/usr/bin/env bash
# Prints its arguments as a slug: lower case, words joined by single dashes.
set -euo pipefail

printf '%s\n' "$*" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9]/-/g'
