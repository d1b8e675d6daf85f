#!/bin/sh
# Runs tests/runtime with the package that Bazel built. Usage: runtime_test.sh PYTHON
set -eu
python=$PWD/$1
export PYTHONPATH="$PWD/python"
found=$("$python" -c 'import tf_malleable; print(tf_malleable.__file__)')
case $found in
  "$PWD"/python/*) ;;
  *) echo "tests another tf_malleable: $found" >&2; exit 1 ;;
esac
exec "$python" -m pytest -q -p no:cacheprovider tests/runtime
