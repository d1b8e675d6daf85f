#!/bin/sh
# Runs Bazel with the flags that its version needs for our targets; root installs it if it is
# missing. Usage: run_bazel.sh [STARTUP OPTION…] COMMAND [ARGUMENT…]
set -eu

# Debian's `bazel` 4 does not know its own version, and refuses to run with our .bazelversion.
# Its `bazel-4` does run.
find_bazel() {
  version=$(bazel --version 2>/dev/null) && [ "$version" != "bazel no_version" ] &&
    bazel=bazel && return
  version="bazel 4.2" && bazel=$(command -v bazel-4)
}

if ! find_bazel; then
  if [ "$(id -u)" != 0 ]; then
    echo "Bazel is missing. Please run:" \
      "sudo apt-get install --no-install-recommends bazel-bootstrap" >&2
    exit 2
  fi
  tools=$(dirname "$0")
  "$tools/step.sh" apt-update "Updating apt's package lists" "$tools/apt_get.sh" update -q
  "$tools/step.sh" apt-bazel "Installing Bazel with apt-get" \
    "$tools/apt_get.sh" install -q -y --no-install-recommends bazel-bootstrap
  find_bazel
fi

# Bazel 7 would write a MODULE.bazel, and ask a registry for modules.
case $version in
  "bazel 4.2"*) flag= ;;
  "bazel 7."*) flag=--noenable_bzlmod ;;
  *)
    echo "$version cannot build this: install 4.2 (Debian's bazel-bootstrap) or 7" >&2
    exit 2
    ;;
esac

command=
for argument; do
  shift
  set -- "$@" "$argument"
  if [ -z "$command" ] && [ "${argument#--}" = "$argument" ]; then
    command=$argument
    set -- "$@" ${flag:+"$flag"}
  fi
done
exec "$bazel" "$@"
