#!/bin/sh
# Builds a TensorFlow wheel with our patches: from an empty folder to `pip install`. This takes
# hours. docs/how-to/tensorflow-from-source.md says what it needs.
set -eu
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
Usage: build_tensorflow.sh VERSION [OPTION]... [-- BAZEL-OPTION...]

  --dir DIR        where to build                          [default: build/tensorflow-VERSION]
  --archive FILE   TensorFlow's sources, instead of fetching them
  --python X.Y     the Python that the wheel is for        [default: that of python3]
  --no-checks      start without the memory or disk that it is known to need
  --dry-run        print the commands, change nothing

An interrupted build goes on where it was when it is started again.
END
}

refuse() {
  echo "build_tensorflow: $1" >&2
  exit 2
}

version='' dir='' archive='' python='' checks=yes dry=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --dir | --archive | --python)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case $1 in --dir) dir=$2 ;; --archive) archive=$2 ;; --python) python=$2 ;; esac
      shift
      ;;
    --no-checks) checks='' ;;
    --dry-run) dry=yes ;;
    --) shift && break ;;
    -*) refuse "there is no option $1; --help lists them" ;;
    *) [ -z "$version" ] || refuse "one VERSION, not $version and $1"; version=$1 ;;
  esac
  shift
done
[ -n "$version" ] || refuse "which version? For example: build_tensorflow.sh 2.21.0"

command -v python3 >/dev/null || refuse "python3 is missing: apt-get install python3-venv"
facts=$(python3 tools/source_facts.py --release "$version" 2>&1) ||
  refuse "${facts#source_facts: }"
# shellcheck disable=SC2086 # Three words: Bazel's major version, address, SHA-256.
IFS=' ' read -r bazel_major url sha256 <<END
$facts
END
[ -n "$archive$url" ] ||
  refuse "TensorFlow $version is not released yet: give its sources, --archive FILE"
[ -z "$archive" ] || [ -f "$archive" ] || refuse "there is no $archive"
python=${python:-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')}
case $python in
  3.1[0-9]) ;;
  *) refuse "--python $python: TensorFlow needs 3.10 or later, as X.Y" ;;
esac
dir=$(realpath -m "${dir:-build/tensorflow-$version}")
tree=$dir/tensorflow-$version

# All that is missing, before hours have passed.
bazel=$(command -v bazelisk || command -v bazel || true)
if [ -z "$dry" ]; then
  for program in "python$python" patch ${url:+curl} sha256sum; do
    command -v "$program" >/dev/null || refuse "$program is missing: apt-get install it first"
  done
  # Away from our .bazelversion; bazelisk is told which one TensorFlow will ask it for.
  found=$(cd / && USE_BAZEL_VERSION="$bazel_major.x" "${bazel:-false}" --version 2>/dev/null) ||
    found=${bazel:-none}
  case $found in
    "bazel $bazel_major."*) ;;
    *) refuse "TensorFlow $version needs Bazel $bazel_major, not $found: install bazelisk, as \`bazel\`" ;;
  esac
fi
if [ -n "$checks" ] && [ -z "$dry" ]; then
  mkdir -p "$dir"
  free=$(df -Pk "$dir" | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$free" -ge 50 ] || refuse "$dir has $free GiB free and a build may need 50: --dir, or --no-checks"
  memory=$(awk '/^MemTotal/ { print int($2 / 1048576) }' /proc/meminfo)
  [ "$memory" -ge 15 ] ||
    refuse "this machine has $memory GiB of memory and a build may need 16: --no-checks, and -- --local_ram_resources=8192"
fi

number=0
step() {
  number=$((number + 1))
  echo "[$number/6] $1"
}
run() {
  [ -z "$dry" ] || { echo "  $ $*"; return 0; }
  "$@"
}

step "Fetching the sources of TensorFlow $version"
if [ -z "$archive" ]; then
  archive=$dir/${url##*/}
  if [ ! -f "$archive" ]; then
    run mkdir -p "$dir"
    run curl --fail --location --progress-bar --output "$archive.part" "$url"
    run mv "$archive.part" "$archive"
  fi
  [ -n "$dry" ] || echo "$sha256  $archive" | sha256sum --check --status ||
    refuse "$archive is not what TensorFlow released: remove it, and start again"
fi

step "Unpacking them"
if [ ! -d "$tree" ]; then
  run mkdir -p "$dir/unpacked"
  run tar --extract --file "$archive" --directory "$dir/unpacked" --strip-components=1
  run mv "$dir/unpacked" "$tree"
fi

step "Comparing them with what was recorded, and applying the patches"
[ -e "$tree/third_party/xla/third_party/tf_malleable/SERIES" ] ||
  run python3 tools/apply_patches.py --check "$tree"
run python3 tools/apply_patches.py "$tree"

step "Building the wheel, which takes hours"
# As TensorFlow's own releases are built, without ./configure.
build() {
  [ -n "$dry" ] || cd "$tree"
  run "${bazel:-bazel}" build //tensorflow/tools/pip_package:wheel --config=release_cpu_linux \
    --repo_env=HERMETIC_PYTHON_VERSION="$python" --repo_env=USE_PYWRAP_RULES=True \
    --repo_env=WHEEL_NAME=tensorflow_cpu --repo_env=ML_WHEEL_TYPE=release "$@"
}
(build "$@")

step "Installing the wheel, and tf_malleable after it, in $dir/venv"
wheels=$tree/bazel-bin/tensorflow/tools/pip_package/wheel_house
tag=cp$(echo "$python" | tr -d .)
run "python$python" -m venv "$dir/venv"
if [ -n "$dry" ]; then
  wheel=$wheels/tensorflow_cpu-$version-$tag-$tag-linux_x86_64.whl
else
  wheel=$(find "$wheels" -name "tensorflow_cpu-$version-$tag-*.whl" | head -n 1)
  [ -n "$wheel" ] || refuse "Bazel has ended, but there is no wheel of TensorFlow $version in $wheels"
fi
run "$dir/venv/bin/pip" install --quiet "$wheel"
run "$dir/venv/bin/pip" install --quiet . pytest

step "Asking it"
run "$dir/venv/bin/python" -c \
  'import tf_malleable as tfm; assert tfm.backend() == "patched", tfm.backend()'
echo "The wheel: $wheel"
echo "Its conformance: make conformance TF_PYTHON=$dir/venv/bin/python" \
  "LIB=$dir/venv/lib/python$python/site-packages/tensorflow/libtensorflow_framework.so.2"
