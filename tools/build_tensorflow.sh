#!/bin/sh
# Fetches TensorFlow's sources into DIR, applies our patches, and builds a wheel there. This
# takes hours; for what it needs see docs/how-to/tensorflow-from-source.md.
# Usage: build_tensorflow.sh DIR
set -eu
cd "$(dirname "$0")/.."
tree=$1

bazel=$(command -v bazelisk || command -v bazel || true)
# Debian's `bazel` prints no version if that is not the one in .bazelversion.
version=$("${bazel:-false}" --version 2>/dev/null) || version=${bazel:-none}
case $version in
  "bazel 7."*) ;;
  *)
    echo "TensorFlow needs Bazel 7, not $version: install bazelisk, as \`bazel\`" >&2
    exit 2
    ;;
esac

if [ ! -e "$tree" ]; then
  "$bazel" sync --noenable_bzlmod --only=tensorflow_source
  # Copied, as Bazel cannot build inside its own folders.
  mkdir -p "$(dirname "$tree")"
  rm -rf "$tree.part"
  cp -r "$("$bazel" info --noenable_bzlmod output_base)/external/tensorflow_source" "$tree.part"
  mv "$tree.part" "$tree"
fi
python3 tools/apply_patches.py "$tree"

cd "$tree"
"$bazel" build //tensorflow/tools/pip_package:wheel --config=opt \
  --repo_env=USE_PYWRAP_RULES=1 --repo_env=WHEEL_NAME=tensorflow_cpu
echo "The wheel: $(find "$PWD/bazel-bin/tensorflow/tools/pip_package/" -name '*.whl')"
