#!/bin/sh
# Runs COMMAND in the system in ROOT, in the same folder, which tools/mount_root.sh has mounted there.
# Usage: in_chroot.sh ROOT COMMAND…
root=$1
shift
exec chroot "$root" env -C "$PWD" "$@"
