#!/bin/sh
# Builds our own targets with Bazel, or tests them, too; root installs Bazel if it is missing.
# Usage: bazel.sh build|test PYTHON, a Python with TensorFlow, pybind11 and pytest.
set -eu
command=$1
PYTHON_BIN_PATH=$(realpath -s "$2")
export PYTHON_BIN_PATH

# Debian's `bazel` refuses to run with our .bazelversion. Its `bazel-4` does run, but does
# not know its own version.
find_bazel() {
  version=$(bazel --version 2>/dev/null) && bazel=bazel && return
  version="bazel 4.2" && bazel=$(command -v bazel-4)
}

if ! find_bazel; then
  if [ "$(id -u)" != 0 ]; then
    echo "Bazel is missing. Please run:" \
      "sudo apt-get install --no-install-recommends bazel-bootstrap" >&2
    exit 2
  fi
  export DEBIAN_FRONTEND=noninteractive
  tools/step.sh apt-update "Updating apt's package lists" apt-get update -q
  tools/step.sh apt-bazel "Installing Bazel with apt-get" \
    apt-get install -q -y --no-install-recommends bazel-bootstrap
  find_bazel
fi

case $version in
  "bazel 4.2"*) flags= ;;
  "bazel 7."*) flags=--noenable_bzlmod ;;
  *)
    echo "$version cannot build this: install 4.2 (Debian's bazel-bootstrap) or 7" >&2
    exit 2
    ;;
esac

# --batch leaves no server running. Without optimisation this takes two thirds of the CPU time, and
# tests take no longer: those of CMake's build are for optimised code, and those that must be
# alone are left to them.
# shellcheck disable=SC2086 # If there is no flag, there must be no argument.
exec "$bazel" --batch "$command" $flags --compilation_mode=fastbuild \
  --test_tag_filters=-serial //cc/... //python/... //tests/...
