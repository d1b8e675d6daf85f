#!/bin/sh
# Makes the packages to publish in OUT, for PYTHON. Root compiles with the g++ and the libraries of
# Debian 11, so that the wheel runs on systems as old as TensorFlow's wheels do: it is installed in
# build/bullseye, which takes 2 minutes, 300 MB and the network, but only once. Usage: dist.sh PYTHON
# OUT
set -eu
tools=$(dirname "$0")
python=$1
out=$2
folder=build/bullseye

make_dist() {
  exec "$tools/step.sh" dist "Building the sdist and the wheel" "$@" \
    "$python" tools/make_dist.py --out "$out"
}
skip() {
  echo "The wheel will need a C library as new as this system's, as $1."
  make_dist
}
. "$tools/debian_root.sh"
install_debian bullseye $folder "Installing Debian 11 with its compiler" g++
# The compiler sees no other temporary files than those below this folder.
export TMPDIR="$PWD/build"
CXX="$(realpath "$tools/in_chroot.sh") $PWD/$folder/root g++"
export CXX
make_dist unshare --mount --pid --fork --kill-child "$tools/mount_root.sh" $folder/root build \
  "$python"
