#!/bin/sh
# Runs one step of a set-up: prints TEXT, and the command's output only if it fails.
# Usage: step.sh NAME TEXT COMMAND…; the output is kept in build/log/NAME.log, but for what the
# command writes to descriptor 3, which is printed.
set -eu
log=build/log/$1.log
echo "$2 …"
shift 2
mkdir -p "${log%/*}"
"$@" 3>&1 >"$log" 2>&1 || {
  status=$?
  cat "$log" >&2
  exit "$status"
}
