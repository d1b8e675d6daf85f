# Installs another Debian in a folder, from where tools/mount_root.sh and tools/in_chroot.sh run
# programs in it. To be sourced, by a script that has defined `skip REASON`, which does not return.

install_mmdebstrap() {
  "$tools/step.sh" apt-update "Updating apt's package lists" "$tools/apt_get.sh" update -q
  "$tools/step.sh" apt-mmdebstrap "Installing mmdebstrap with apt-get" \
    "$tools/apt_get.sh" install -q -y --no-install-recommends mmdebstrap debian-archive-keyring
}
# Debian's mirror that apt knows here, or else mmdebstrap's own.
find_mirror() {
  # shellcheck disable=SC2016 # The $ is for apt.
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

# Installs packages of a suite in FOLDER/root, unless it is there. Usage: install_debian SUITE FOLDER
# TEXT PACKAGES.
install_debian() {
  [ "$(id -u)" = 0 ] || skip "only root can install Debian $1 in a folder"
  unshare --mount --net --pid --fork true 2>/dev/null || skip "this system allows no namespaces"
  command -v mmdebstrap >/dev/null || { command -v apt-get >/dev/null && install_mmdebstrap; } ||
    skip "mmdebstrap cannot be installed"

  # The stamp is written last, so what an interruption left has none and is made anew. The namespaces
  # end with this script, however it ends: nothing goes on, or stays mounted where `make clean`
  # deletes.
  [ "$(cat "$2/made" 2>/dev/null)" != "$4" ] || return 0
  rm -rf "$2"
  mkdir -p "$2/build"
  mirror=$(find_mirror)
  # A frozen mirror has old lists. Nobody reads manuals there; but Java wants folders for them.
  "$tools/step.sh" "${2##*/}" "$3 in $2" \
    unshare --mount --mount-proc --pid --fork --kill-child \
    mmdebstrap --mode=root --variant=essential \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*/*' \
    --include="$4" "$1" "$2/root" ${mirror:+"$mirror"} ||
    skip "Debian $1 cannot be installed today"
  echo "$4" >"$2/made"
}
