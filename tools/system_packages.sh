#!/bin/sh
# Installs the missing Debian or Ubuntu packages that make needs, if run as root; otherwise
# prints the command that does. Usage: system_packages.sh [PYTHON] [cc-tests] [browser] [fuse] [fuzz]
# [openmp] [debian], for a virtual environment of that Python, for the tests (C++'s and those with a
# broker or strace), for those of the page, for the slow source of benchmarks, for libFuzzer, for
# OpenMP of others than GCC and what is loaded beside it, for another Debian in a folder.
set -eu
missing=
need() { missing="$missing $1"; }

command -v g++ >/dev/null || need g++
command -v patch >/dev/null || need patch
command -v setarch >/dev/null || need util-linux
for purpose; do
  if [ "$purpose" = cc-tests ]; then
    # The broker that tests of budgets for many hosts start on a port of its own.
    [ -x /usr/sbin/mosquitto ] || command -v mosquitto >/dev/null || need mosquitto
    # Tells which calls the daemons of the threat model make.
    command -v strace >/dev/null || need strace
    echo "#include <gtest/gtest.h>" | g++ -E -x c++ - >/dev/null 2>&1 || need libgtest-dev
    continue
  fi
  if [ "$purpose" = fuse ]; then
    command -v pkg-config >/dev/null || need pkg-config
    command -v fusermount3 >/dev/null || need fuse3
    pkg-config --exists fuse3 2>/dev/null || need libfuse3-dev
    continue
  fi
  if [ "$purpose" = fuzz ]; then
    # Debian has libFuzzer in a package of its own.
    echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' \
      | clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null || {
      need clang
      [ -z "$(apt-cache search '^libclang-rt-dev$')" ] || need libclang-rt-dev
    }
    continue
  fi
  if [ "$purpose" = openmp ]; then
    command -v clang >/dev/null || need clang
    ls /usr/lib/llvm-*/lib/libomp.so >/dev/null 2>&1 || need libomp-dev
    command -v musl-gcc >/dev/null || need musl-tools
    for threads in pthread openmp; do
      ls /usr/lib/*/blis-$threads/libblis.so.4 >/dev/null 2>&1 || need libblis4-$threads
    done
    for name in libjemalloc.so.2:libjemalloc2 libtcmalloc_minimal.so.4:libtcmalloc-minimal4; do
      [ -e "$(g++ -print-file-name="${name%:*}" 2>/dev/null)" ] || need "${name#*:}"
    done
    continue
  fi
  if [ "$purpose" = debian ]; then
    command -v mmdebstrap >/dev/null || need "mmdebstrap debian-archive-keyring"
    continue
  fi
  if [ "$purpose" = browser ]; then
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || need chromium
    continue
  fi
  python=$purpose
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  "$python" -c 'import ensurepip, venv' 2>/dev/null || need "python$version-venv"
  header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
  [ -e "$header" ] || need "python$version-dev"
done

[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then
  tools="$(dirname "$0")"
  "$tools/step.sh" apt-update "Updating apt's package lists" "$tools/apt_get.sh" update -q
  # shellcheck disable=SC2086 # One argument per package.
  "$tools/step.sh" apt-install "Installing with apt-get:$missing" \
    "$tools/apt_get.sh" install -q -y --no-install-recommends $missing
else
  echo "Missing packages. Please run: sudo apt-get install$missing" >&2
  exit 1
fi
