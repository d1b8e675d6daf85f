#!/bin/sh
# Builds and tests our own targets with Debian sid's Bazel 7, and runs tests/bazel with it. Sid is
# installed in build/bazel7, as its packages do not fit a stable Debian; that takes 2 minutes, 1.3 GB
# and the network, but only once. What follows takes 4 minutes, then 3, and has no network. Only root
# can do it: it is skipped otherwise. Usage: bazel7.sh [install], which then ends.
set -eu
case ${1-}$# in
  0 | install1) ;;
  *) echo "bazel7.sh: only the word install may follow, not: $*" >&2 && exit 2 ;;
esac
tools=$(dirname "$0")
folder=build/bazel7
# The libraries are those of the Python of .venv, which sid does not have.
packages="bazel-bootstrap g++ iproute2 libgtest-dev patch \
libbz2-1.0 libexpat1 libffi8 liblzma5 libsqlite3-0 libssl3t64 zlib1g"

skip() {
  echo "Nothing is tried with Bazel 7, as $1."
  exit 0
}
. "$tools/debian_root.sh"
install_debian sid $folder "Installing Debian sid with its Bazel 7" "$packages"
# Sid changes every day.
# shellcheck disable=SC2016 # The $ is for dpkg-query.
found=$(dpkg-query --admindir=$folder/root/var/lib/dpkg --show --showformat='${Version}' \
  bazel-bootstrap)
case $found in
  7.*) ;;
  *)
    rm $folder/made
    skip "Debian sid has Bazel $found today"
    ;;
esac

[ "${1-}" != install ] || exit 0
exec unshare --mount --net --pid --fork --kill-child "$tools/mount_root.sh" $folder/root \
  $folder/build .venv/bin/python "$tools/in_chroot.sh" $folder/root \
  env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" \
  sh -c "ip link set lo up && tools/bazel.sh test .venv/bin/python &&
    .venv/bin/python -m pytest tests/bazel"
