#!/bin/sh
# Shows the working tree and PYTHON in the system in ROOT, and BUILD as the folder build, and runs
# COMMAND. Only for new namespaces of mounts and processes. Usage: mount_root.sh ROOT BUILD PYTHON
# COMMAND…
set -eu
root=$(realpath "$1")
build=$(realpath "$2")
python=$3
shift 3

mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"

bind() {
  if [ -d "$1" ]; then
    mkdir -p "$root$1"
  else
    mkdir -p "$root$(dirname "$1")"
    rm -f "$root$1"
    touch "$root$1"
  fi
  mount --bind "${2:-$1}" "$root$1"
}

# Where the Python is that the environment was made from, and the links that lead to it.
"$python" - <<'END' | while read -r what path; do
import os, sys, sysconfig

path, links = sys.executable, []
while os.path.islink(path):
    path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    links.append(path)
if sys.base_prefix == "/usr":
    multiarch = sysconfig.get_config_var("MULTIARCH")
    include = sysconfig.get_path("include")
    paths = [path, sysconfig.get_path("stdlib"), include]
    paths.append(include.replace("/include/", f"/include/{multiarch}/"))
else:
    paths = [sys.base_prefix]
print(*(f"link {link}" for link in links[:-1]), *(f"bind {each}" for each in paths), sep="\n")
END
  case $what in
    link)
      mkdir -p "$root$(dirname "$path")"
      rm -f "$root$path"
      cp -P "$path" "$root$path"
      ;;
    bind) [ ! -e "$path" ] || bind "$path" ;;
  esac
done
bind "$PWD"
bind "$PWD/build" "$build"

exec "$@"
