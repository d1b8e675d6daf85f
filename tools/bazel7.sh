#!/bin/sh
# Builds and tests our own targets with Debian sid's Bazel 7, and runs tests/bazel with it. Sid is
# installed in build/bazel7, as its packages do not fit a stable Debian; that takes 2 minutes, 1.3 GB
# and the network, but only once. What follows takes 4 minutes, then 3, and has no network. Only root
# can do it: it is skipped otherwise.
set -eu
tools=$(dirname "$0")
folder=build/bazel7
# The libraries are those of the Python of .venv, which sid does not have.
packages="bazel-bootstrap g++ iproute2 libgtest-dev patch \
libbz2-1.0 libexpat1 libffi8 liblzma5 libsqlite3-0 libssl3t64 zlib1g"

skip() {
  echo "Nothing is tried with Bazel 7, as $1."
  exit 0
}
install_mmdebstrap() {
  export DEBIAN_FRONTEND=noninteractive
  "$tools/step.sh" apt-update "Updating apt's package lists" apt-get update -q
  "$tools/step.sh" apt-mmdebstrap "Installing mmdebstrap with apt-get" apt-get install -q -y \
    --no-install-recommends mmdebstrap debian-archive-keyring
}
# Debian's mirror that apt knows here, or else mmdebstrap's own.
find_mirror() {
  # shellcheck disable=SC2016 # The $ is for apt.
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

[ "$(id -u)" = 0 ] || skip "only root can install Debian sid in a folder"
unshare --mount --net --pid --fork true 2>/dev/null || skip "this system allows no namespaces"
command -v mmdebstrap >/dev/null || { command -v apt-get >/dev/null && install_mmdebstrap; } ||
  skip "mmdebstrap cannot be installed"

# The stamp is written last, so what an interruption left has none and is made anew. Both namespaces
# end with this script, however it ends: nothing goes on, or stays mounted where `make clean` deletes.
if [ "$(cat $folder/made 2>/dev/null)" != "$packages" ]; then
  rm -rf $folder
  mkdir -p $folder/build
  mirror=$(find_mirror)
  # A frozen mirror has old lists. Nobody reads manuals there; but Java wants folders for them.
  "$tools/step.sh" bazel7 "Installing Debian sid with its Bazel 7 in $folder" \
    unshare --mount --mount-proc --pid --fork --kill-child \
    mmdebstrap --mode=root --variant=essential \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*/*' \
    --include="$packages" sid $folder/root ${mirror:+"$mirror"} ||
    skip "Debian sid cannot be installed today"
  # Sid changes every day.
  # shellcheck disable=SC2016 # The $ is for dpkg-query.
  found=$(dpkg-query --admindir=$folder/root/var/lib/dpkg --show --showformat='${Version}' \
    bazel-bootstrap)
  case $found in
    7.*) ;;
    *) skip "Debian sid has Bazel $found today" ;;
  esac
  echo "$packages" >$folder/made
fi

exec unshare --mount --net --pid --fork --kill-child "$tools/in_chroot.sh" $folder/root \
  $folder/build .venv/bin/python \
  "tools/bazel.sh test .venv/bin/python && .venv/bin/python -m pytest tests/bazel"
