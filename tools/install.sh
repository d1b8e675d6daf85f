#!/bin/sh
# Installs packages with uv, which takes a quarter of pip's time for TensorFlow.
# Usage: install.sh PYTHON ARGUMENT…, where the arguments are those of `pip install`.
set -eu
python=$1
shift
# From where pip takes them, which may be a mirror.
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(.venv/bin/pip config get global.index-url 2>/dev/null || true)}}
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
# And with the certificates that the system trusts.
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
exec .venv/bin/uv pip install -q --python "$python" "$@"
