#!/bin/sh
# Measures what needs a machine of many cores, in twelve minutes; JSON to stdout, progress to stderr.
# The machine needs no network and no TensorFlow, but Python with PyTorch, scikit-learn and numba;
# for data tiers also root, /dev/fuse and libfuse3-dev. What else is needed is in WHEELS, which a
# machine with a network fills (7 MB):
#   make dist && pip download --only-binary=:all: -d WHEELS psutil dist/tf_malleable-*.whl
set -eu
cd "$(dirname "$0")/.."

refuse() {
  echo "many_cores: $1" >&2
  exit 2
}

wheels='' python=python3 cores=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      cat <<'END'
Usage: many_cores.sh WHEELS [OPTION]... [-- OPTION...]

  --python PYTHON  a Python with PyTorch, scikit-learn and numba  [default: python3]
  --cores N        use the first N CPUs only                      [default: all]

What follows -- is for python -m benchmarks.many_cores; --rounds 1 --seconds 1 is the shortest.
END
      exit
      ;;
    --python | --cores)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case $1 in --python) python=$2 ;; --cores) cores=$2 ;; esac
      shift
      ;;
    --) shift && break ;;
    -*) refuse "there is no option $1; --help lists them" ;;
    *) [ -z "$wheels" ] || refuse "one folder of wheels, not $wheels and $1"; wheels=$1 ;;
  esac
  shift
done
[ -n "$wheels" ] || refuse "name the folder of wheels; --help says how it is filled"
[ -d "$wheels" ] || refuse "there is no folder $wheels"

venv=build/many_cores
rm -rf "$venv"
"$python" -m venv --without-pip "$venv"
packages=$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$python" -m pip --python "$venv/bin/python" install -q --no-index --find-links "$wheels" \
  tf_malleable psutil >&2
# All packages of that Python, too, which may be that of a virtual environment itself.
"$python" -c 'import site; print(*site.getsitepackages(), sep="\n")' >"$packages/machine.pth"
few=$("$venv/bin/python" -c 'import os, sys
cpus = sorted(os.sched_getaffinity(0))
print(*cpus[: int(sys.argv[1] or len(cpus))], sep=",")' "$cores")
exec taskset -c "$few" "$venv/bin/python" -m benchmarks.many_cores "$@"
