#!/usr/bin/env bash
# Runs a command on a machine of its own: the system read-only, empty folders for /root, /tmp, /var/tmp and /workspace, no
# network but loopback. Benchmarks plant secrets there and let models write there.
#
#   apart.sh FOLDER... -- COMMAND...      the folders are shown as they are, read-only
set -euo pipefail

shown=()
while [ "$1" != -- ]; do
  shown+=("$1")
  shift
done
shift

arguments=(--die-with-parent --unshare-net --unshare-pid --unshare-ipc --new-session)
for path in /*; do
  case "$path" in
    /proc | /dev | /tmp | /root | /home | /workspace | /run | /sys) ;;
    *)
      if [ -L "$path" ]; then
        arguments+=(--symlink "$(readlink "$path")" "$path")
      else
        arguments+=(--ro-bind "$path" "$path")
      fi
      ;;
  esac
done
arguments+=(--proc /proc --dev /dev --tmpfs /tmp --tmpfs /root --tmpfs /workspace --tmpfs /var/tmp --tmpfs /run)
for path in "${shown[@]}"; do arguments+=(--ro-bind "$path" "$path"); done
exec bwrap "${arguments[@]}" --setenv HOME /root --setenv TMPDIR /tmp "$@"
