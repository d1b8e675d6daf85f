#!/bin/sh
# Runs apt-get, once others have ended that use apt: a new machine updates itself for minutes. Gives
# up after ten. Usage: apt_get.sh ARGUMENT… as for apt-get.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
waiting="Waiting for another program that uses apt …"

seconds=600
while :; do
  status=0
  said=$(apt-get -o DPkg::Lock::Timeout=$seconds "$@" 2>&1) || status=$?
  case $said in
    # For this one, apt itself does not wait.
    *"Could not get lock "*/lists/lock*) ;;
    *) break ;;
  esac
  [ $seconds -gt 0 ] || break
  # To the person, as far as tools/step.sh lets it.
  [ $seconds -lt 600 ] || { echo "$waiting" >&3; } 2>/dev/null || echo "$waiting" >&2
  sleep 1
  seconds=$((seconds - 1))
done
[ -z "$said" ] || echo "$said"
exit "$status"
