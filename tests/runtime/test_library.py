# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which library provides the limits, and what is said when none can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tf_malleable as tfm
from tf_malleable.runtime import _build, library, tensorflow_install


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_overlay_is_what_is_here():
    assert tfm.backend() == "overlay"


def test_the_installed_tensorflow_is_the_one_built_against():
    found = tensorflow_install.find_tensorflow()
    assert found is not None
    assert found.version == _build.TENSORFLOW_VERSION
    assert (found.directory / "include" / "Eigen").is_dir()


def test_another_tensorflow_is_refused_with_the_remedy():
    other = tensorflow_install.TensorFlow("2.99.0", Path("/"))
    with pytest.raises(ImportError, match=r"against TensorFlow 2\.\d+\.\d+ but 2\.99\.0") as caught:
        library._check_version(other)
    assert library.REBUILD in str(caught.value)


def test_no_tensorflow_is_no_mismatch():
    library._check_version(None)


def test_importing_too_late_says_so_at_the_first_call_that_needs_it():
    script = """
import tensorflow
import tf_malleable as tfm
print(tfm.backend())
for call in (tfm.get_threads, tfm.pools, tfm.wait_settled, lambda: tfm.set_threads(1),
             lambda: tfm.threads(1), lambda: tfm.set_cpuset({0})):
    try:
        call()
    except tfm.NotMalleableError as error:
        print(error)
"""
    result = python("-c", script)
    assert result.returncode == 0, result.stderr
    first, *messages = result.stdout.splitlines()
    assert first == "None"
    assert len(messages) == 6
    assert set(messages) == {
        "tf_malleable was imported after tensorflow, too late to take over its threads: import"
        " tf_malleable first, or start the program with 'tfm run -- python …'"
    }


def test_the_module_prints_pools_as_json():
    result = python("-m", "tf_malleable")
    assert (result.returncode, json.loads(result.stdout)) == (0, [])


def test_the_module_imports_what_it_is_asked_to(tmp_path):
    result = python("-m", "tf_malleable", "-i", "no_such_module_anywhere")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(
        "tf_malleable: cannot import no_such_module_anywhere"
    )
