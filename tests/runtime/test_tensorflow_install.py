# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which distribution a folder's TensorFlow comes from, and so its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_malleable.runtime.tensorflow_install import TensorFlow, find_tensorflow


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a package that is called tensorflow."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    return tmp_path


def with_metadata(folder: Path, *distributions: str) -> TensorFlow | None:
    for distribution in distributions:
        (folder / f"{distribution}.dist-info").mkdir()
    return find_tensorflow([str(folder)])


@pytest.mark.parametrize(
    ("distribution", "version"),
    [
        ("tensorflow-2.21.0", "2.21.0"),
        ("tensorflow-2.20.0+nv26.1", "2.20.0+nv26.1"),
        ("tensorflow_cpu-2.21.0", "2.21.0"),
        ("tensorflow_cpu_aws-2.15.1", "2.15.1"),
        ("tensorflow_aarch64-2.16.1", "2.16.1"),
        ("tensorflow_gpu-2.11.0", "2.11.0"),
        ("tensorflow_intel-2.18.0", "2.18.0"),
        ("tensorflow_rocm-2.14.0.600", "2.14.0.600"),
        ("tensorflow_tpu-2.20.0", "2.20.0"),
        ("intel_tensorflow-2.14.0", "2.14.0"),
        ("intel_tensorflow_avx512-2.14.0", "2.14.0"),
        ("tf_nightly-2.22.0.dev20261101", "2.22.0.dev20261101"),
        ("tf_nightly_cpu-2.22.0.dev20261101", "2.22.0.dev20261101"),
        ("tf_nightly_cuda13-2.23.0.dev20261101", "2.23.0.dev20261101"),
    ],
)
def test_the_version_is_that_of_whichever_distribution_it_is(folder, distribution, version):
    found = with_metadata(folder, "numpy-2.4.6", distribution, "zipp-3.23.0")
    assert found == TensorFlow(version, folder / "tensorflow")


@pytest.mark.parametrize(
    "distribution",
    [
        "intel_extension_for_tensorflow-2.15.0.2",
        "keras-3.15.1",
        "tensorflow_datasets-4.9.10",
        "tensorflow_estimator-2.15.0",
        "tensorflow_hub-0.16.1",
        "tensorflow_io-0.37.1",
        "tensorflow_io_gcs_filesystem-0.37.1",
        "tensorflow_metadata-1.21.0",
        "tensorflow_text-2.21.1",
        "tf_keras-2.21.0",
    ],
)
def test_what_only_uses_tensorflow_does_not_tell_its_version(folder, distribution):
    with pytest.raises(ImportError, match=r"^cannot tell which TensorFlow .*; install it with pip"):
        with_metadata(folder, distribution)
    assert with_metadata(folder, "tensorflow-2.21.0") == TensorFlow("2.21.0", folder / "tensorflow")


def test_metadata_without_the_package_are_of_no_tensorflow(tmp_path):
    assert with_metadata(tmp_path, "tensorflow-2.21.0") is None
    # As pip leaves behind if somebody else put files there.
    (tmp_path / "tensorflow").mkdir()
    assert find_tensorflow([str(tmp_path)]) is None
