#!/bin/sh
# Makes the wheel for each other Python that this system has, and tries it as `make compat` does.
# Each gets an environment and its dist folder in build/pythons.
set -eu
tools=$(dirname "$0")
# Its names for versions work only for those chosen.
! command -v pyenv >/dev/null || PYENV_VERSION=$(pyenv versions --bare | paste -sd:)
export PYENV_VERSION="${PYENV_VERSION-}"

own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.10 3.11 3.12 3.13; do
  [ "$version" != "$own" ] || continue
  "python$version" -c "" 2>/dev/null || { echo "There is no Python $version here."; continue; }
  folder=build/pythons/$version
  python=$folder/venv/bin/python
  "$tools/step.sh" "python$version" "Creating an environment for Python $version" sh -c \
    "python$version -m venv $folder/venv &&
     $tools/install.sh $python --group dist --group pytest"
  "$tools/dist.sh" "$python" "$folder/dist"
  # The others hold the overlays to headers, which is the same for each Python.
  TFM_TEST_DIST=$PWD/$folder/dist "$python" -m pytest tests/compat -n "$(nproc)" \
    -k "not overlays and not headers"
done
