#!/bin/sh
# Builds our own targets with Bazel, or tests them, too; root installs Bazel if it is missing.
# Usage: bazel.sh build|test PYTHON, a Python with TensorFlow, pybind11 and pytest.
set -eu
command=$1
PYTHON_BIN_PATH=$(realpath -s "$2")
export PYTHON_BIN_PATH

# --batch leaves no server running. Without optimisation this takes two thirds of the CPU time, and
# tests take no longer: those of CMake's build are for optimised code, and those that must be
# alone are left to them.
exec "$(dirname "$0")/run_bazel.sh" --batch "$command" --compilation_mode=fastbuild \
  --test_tag_filters=-serial //cc/... //python/... //tests/...
