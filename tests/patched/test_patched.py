# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""With a TensorFlow that has the hooks no overlay is loaded, and nothing else differs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tf_malleable.runtime.library import FRAMEWORK

SOURCES = Path(__file__).parents[2] / "python" / "tf_malleable"
CONFORMANCE = Path(__file__).parents[1] / "conformance"


def python(script: str, path: Path | None, **environment: str) -> str:
    """Run a script and return what it prints."""
    added = {"PYTHONPATH": str(path)} if path else {}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **added, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(script: str) -> str:
    """Return a script that then prints which libraries of ours or TensorFlow's it has."""
    return (
        script
        + """
import re
with open("/proc/self/maps") as maps:
    print(sorted(set(re.findall(r"libtf_malleable_overlay|tensorflow_framework.*", maps.read()))))
"""
    )


@pytest.mark.slow
def test_the_compiled_in_hook_is_found_and_no_overlay_loaded(patched_tensorflow):
    script = "import tf_malleable as tfm\nprint(tfm.backend())"
    assert python(loaded(script), patched_tensorflow).splitlines() == [
        "patched",
        "['tensorflow_framework.so.2']",
    ]


@pytest.mark.slow
def test_it_may_come_after_tensorflow(patched_tensorflow):
    script = """
import tensorflow as tf
tf.linalg.matmul(tf.ones((64, 64)), tf.ones((64, 64)))
import tf_malleable as tfm
tfm.set_threads(1)
print(tfm.backend(), tfm.get_threads(), {pool.limit for pool in tfm.pools()})
"""
    said = python(loaded(script), patched_tensorflow).splitlines()
    assert said[0] == "patched Threads(intra=1, inter=1) {1}"
    assert "overlay" not in said[1]


SAME = """
import tf_malleable as tfm
import tensorflow as tf
print(tfm.get_threads())
values = tf.random.stateless_normal((256, 256), seed=(1, 2))
step = tf.function(lambda values: tf.reduce_sum(tf.nn.softmax(tf.matmul(values, values))))
compiled = tf.function(step, jit_compile=True)
for limit in (1, 2, 5, 2):
    with tfm.threads(limit):
        tfm.wait_settled(5)
        print(float(step(values)), float(compiled(values)))
        print([(pool.name, pool.kind, pool.capacity, pool.limit) for pool in tfm.pools()])
tfm.set_threads(intra=3, inter=1)
tfm.set_cpuset({min(tfm.set_cpuset.__globals__["os"].sched_getaffinity(0))})
print(tfm.get_threads())
for odd in (65, 0, -1, 2.5, "2"):
    try:
        print(tfm.set_threads(odd))
    except (ValueError, TypeError) as error:
        print(error)
"""


@pytest.mark.slow
def test_same_api_same_results(patched_tensorflow):
    environment = {"TF_MALLEABLE_MAX_THREADS": "64", "TF_NUM_INTRAOP_THREADS": "2"}
    with_patches = python(SAME, patched_tensorflow, **environment)
    with_overlay = python(SAME, None, **environment)
    assert len(with_patches.splitlines()) == 15
    assert with_patches == with_overlay


def test_pythons_own_openssl_stays(patched_tensorflow):
    script = """
import hashlib, ssl
print(hashlib.new("sha256", b"x").hexdigest()[:8], ssl.create_default_context().cert_store_stats())
"""
    assert python(script, patched_tensorflow).startswith("2d711642")


@pytest.mark.slow
def test_an_unchanged_script_is_malleable(patched_tensorflow):
    script = """
import subprocess, sys
print(subprocess.run(["tfm", "run", "--threads", "1", "--", sys.executable, "-c",
    "import tensorflow as tf, sys; tf.ones(1).numpy(); tfm = sys.modules['tf_malleable'];"
    "print(tfm.backend(), tfm.get_threads())"], capture_output=True, text=True).stdout)
"""
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = python(script, patched_tensorflow, PATH=search)
    assert said.strip() == "patched Threads(intra=1, inter=1)"


def test_another_version_of_the_abi_is_refused_in_one_sentence(tmp_path):
    package = tmp_path / "tensorflow"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "tensorflow-2.21.0.dist-info").mkdir()
    source = tmp_path / "abi.c"
    source.write_text("int tfm_abi_version(void) { return 99; }\n")
    compiler = shutil.which("gcc") or shutil.which("g++")
    assert compiler is not None
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(package / FRAMEWORK), str(source)], check=True
    )
    script = "try:\n import tf_malleable\nexcept ImportError as error:\n print(error)"
    said = python(script, tmp_path)
    assert "has ABI version 99, not 1" in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
def test_it_installs_without_an_overlay(patched_tensorflow, installed):
    names = sorted(path.name.split(".")[0] for path in (installed / "runtime").iterdir())
    assert names == ["_native", "libtf_malleable_openmp", "libtf_malleable_tier", "tfm-init"]
    shutil.copytree(
        SOURCES, installed, ignore=shutil.ignore_patterns("*.bazel"), dirs_exist_ok=True
    )
    path = Path(f"{patched_tensorflow}:{installed.parent}")
    script = """
import tf_malleable as tfm
import tensorflow as tf
tf.ones(1).numpy()
tfm.set_threads(1)
print(tfm.__file__, tfm.backend(), {pool.limit for pool in tfm.pools()})
"""
    assert python(script, path) == f"{installed}/__init__.py patched {{1}}\n"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_it_passes_the_conformance_suite(patched_tensorflow):
    library = patched_tensorflow / "tensorflow" / FRAMEWORK
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", CONFORMANCE, "--lib", library],
        env={**os.environ, "PYTHONPATH": str(patched_tensorflow)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
