# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is concluded from the files that a process has mapped, with the names of real wheels."""

from __future__ import annotations

import os

import pytest

from tf_malleable.controller.processes.thread_libraries import (
    InspectedProcess,
    fixed_framework,
    thread_libraries,
)
from tf_malleable.linux.processes.memory_map import environment, memory_map

SITE = "/home/ada/my env/lib/python3.11/site-packages"
PYTHON = "/usr/local/bin/python3.11"
LOADER = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
HOOK = f"{SITE}/tf_malleable/runtime/libtf_malleable_openmp.so"
OVERLAY = f"{SITE}/tf_malleable/runtime/libtf_malleable_overlay-2.21.so"
TENSORFLOW = f"{SITE}/tensorflow/libtensorflow_framework.so.2"
TORCH = f"{SITE}/torch/lib/libtorch_cpu.so"
TORCHS_GOMP = f"{SITE}/torch/lib/libgomp.so.1"
BLAS = f"{SITE}/numpy.libs/libscipy_openblas64_-32a4b2a6.so"
JAX = f"{SITE}/jaxlib/libjax_common.so"
KMEANS = f"{SITE}/sklearn/cluster/_k_means_lloyd.cpython-311-x86_64-linux-gnu.so"
HELPERS = f"{SITE}/sklearn/utils/_openmp_helpers.cpython-311-x86_64-linux-gnu.so"
SKLEARNS_GOMP = f"{SITE}/scikit_learn.libs/libgomp-e985bcbb.so.1.0.0"
UFUNC = f"{SITE}/numba/np/ufunc"
HOST_CPUS = 8


def maps(*paths: str) -> bytes:
    """Return lines as the kernel writes them, two for each file, and the stack."""
    lines = [
        f"7f0a{i:04x}0000-7f0a{i:04x}1000 {rights} 00000000 08:01 {i + 1}    {path}\n"
        for i, path in enumerate(paths)
        for rights in ("r--p", "r-xp")
    ]
    return "".join([*lines, "7ffd0000-7ffd1000 rw-p 00000000 00:00 0   [stack]\n"]).encode()


def found(*paths: str, loader: str = LOADER, has_agent: bool = False, threads: int = 9, **said):
    """Return class, capacity and upper bound of each library of a process, by its name."""
    text = "".join(f"{name}={value}\0" for name, value in said.items()).encode()
    seen = InspectedProcess(maps(loader, *paths), text, threads, has_agent)
    libraries = thread_libraries(seen, HOST_CPUS)
    return {each.name: (each.follows, each.capacity, each.bound) for each in libraries}


CONFINED = ("confined only", None, None)
AT_OPS = ("at op boundaries", HOST_CPUS, None)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], {}),
        ([TENSORFLOW, OVERLAY], {"TensorFlow": ("free", HOST_CPUS, None)}),
        ([TORCH, TORCHS_GOMP], {"PyTorch": AT_OPS}),
        ([f"{SITE}/lightgbm/lib/lib_lightgbm.so"], {"LightGBM": ("free", HOST_CPUS, None)}),
        ([f"{SITE}/xgboost/lib/libxgboost.so"], {"XGBoost": AT_OPS}),
        (["/opt/llama/libggml-cpu-haswell.so"], {"llama.cpp": ("free", HOST_CPUS, None)}),
        (
            [KMEANS, HELPERS, SKLEARNS_GOMP],
            {
                "scikit-learn's boosting and k-means": ("shrink only", HOST_CPUS, None),
                "scikit-learn": AT_OPS,
            },
        ),
        (
            [f"{UFUNC}/omppool.cpython-311-x86_64-linux-gnu.so"],
            {"numba": ("shrink only", HOST_CPUS, None)},
        ),
        (
            [f"{UFUNC}/workqueue.cpython-311-x86_64-linux-gnu.so"],
            {"numba without OpenMP": CONFINED},
        ),
        ([PYTHON, BLAS], {"OpenBLAS": AT_OPS}),
        ([PYTHON, "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3"], {"OpenBLAS": AT_OPS}),
        (["/usr/bin/simulate", BLAS], {"OpenBLAS": CONFINED}),
        (["/usr/bin/simulate", "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"], {"libgomp": AT_OPS}),
        (["/usr/bin/simulate", "/usr/lib/llvm-14/lib/libomp.so.5"], {"LLVM's OpenMP": AT_OPS}),
        ([JAX], {"JAX": CONFINED}),
        (
            [
                f"{SITE}/onnxruntime/capi/libonnxruntime.so.1.32.0",
                f"{SITE}/onnxruntime/capi/onnxruntime_pybind11_state.cpython-311-x86_64.so",
            ],
            {"onnxruntime": CONFINED},
        ),
        (
            [
                f"{SITE}/_polars_runtime_32/_polars_runtime.abi3.so",
                f"{SITE}/tokenizers/tokenizers.abi3.so",
            ],
            {"Polars (Rust)": CONFINED, "tokenizers (Rust)": CONFINED},
        ),
    ],
)
def test_classes_are_those_of_the_page_what_works_with_what(paths, expected):
    assert found(HOOK, *paths) == expected


def test_blis_follows_up_to_the_number_that_is_set():
    blis = "/usr/lib/x86_64-linux-gnu/blis-pthread/libblis.so.4"
    assert found(HOOK, PYTHON, blis) == {"BLIS": CONFINED}
    said = {"OMP_NUM_THREADS": "4", "BLIS_NUM_THREADS": "3"}
    assert found(HOOK, PYTHON, blis, **said) == {"BLIS": ("at op boundaries", HOST_CPUS, 3)}
    assert found(HOOK, "/usr/bin/simulate", blis, **said) == {"BLIS": CONFINED}


@pytest.mark.parametrize("path", [TORCH, TORCHS_GOMP, BLAS, KMEANS, TENSORFLOW])
def test_without_the_hook_and_the_overlay_nothing_follows(path):
    assert {*found(PYTHON, path).values()} == {CONFINED}


def test_a_tensorflow_with_an_agent_is_malleable_however_it_was_built():
    assert found(TENSORFLOW, has_agent=True) == {"TensorFlow": ("free", HOST_CPUS, None)}


@pytest.mark.parametrize(
    "said",
    [
        {"OMP_PROC_BIND": "true"},
        {"OMP_PLACES": "cores"},
        {"GOMP_CPU_AFFINITY": "0 1"},
    ],
)
def test_teams_that_the_user_places_are_confined_only(said):
    assert found(HOOK, TORCH, TORCHS_GOMP, **said) == {"PyTorch": CONFINED}


def test_those_of_llvm_if_its_variable_says_so():
    said = {"KMP_AFFINITY": "granularity=fine,compact"}
    assert found(HOOK, "/usr/lib/llvm-14/lib/libomp.so.5", **said) == {"LLVM's OpenMP": CONFINED}
    assert found(HOOK, TORCH, TORCHS_GOMP, **said) == {"PyTorch": AT_OPS}
    said = {"KMP_AFFINITY": "none", "OMP_PROC_BIND": "false", "OMP_PLACES": ""}
    assert found(HOOK, "/opt/intel/libiomp5.so", **said) == {"LLVM's OpenMP": AT_OPS}


def test_the_users_numbers_are_the_capacity_and_upper_bounds():
    said = {"TF_MALLEABLE_MAX_THREADS": 16, "OMP_NUM_THREADS": "4,2", "OPENBLAS_NUM_THREADS": "3"}
    assert found(HOOK, PYTHON, TORCH, BLAS, **said) == {
        "PyTorch": ("at op boundaries", 16, 4),
        "OpenBLAS": ("at op boundaries", 16, 3),
    }
    for text in ("0", "-2", "many", ""):
        assert found(HOOK, TORCH, OMP_NUM_THREADS=text) == {"PyTorch": AT_OPS}
    # cc/openmp/limit.cc goes no further.
    huge = "9" * 5000
    assert found(HOOK, TORCH, TF_MALLEABLE_MAX_THREADS=huge) == {
        "PyTorch": ("at op boundaries", 1024, None)
    }


def test_of_two_variables_with_a_name_the_first_counts():
    seen = InspectedProcess(
        maps(LOADER, HOOK, TORCH), b"OMP_NUM_THREADS=2\0OMP_NUM_THREADS=3\0OMP_PLACES\0"
    )
    assert [each.bound for each in thread_libraries(seen, HOST_CPUS)] == [2]


def test_a_statically_linked_program_with_threads_is_confined_only():
    assert found("/usr/local/bin/server", loader="") == {"a statically linked program": CONFINED}
    assert found("/usr/local/bin/server", loader="", threads=1) == {}
    assert thread_libraries(InspectedProcess(b"", threads=2), HOST_CPUS) == ()


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ([TENSORFLOW], "TensorFlow"),
        ([TENSORFLOW, OVERLAY, JAX], None),
        ([TORCH], "PyTorch"),
        ([TORCH, JAX, HOOK], None),
        ([JAX, HOOK], "JAX"),
        ([BLAS, f"{SITE}/tokenizers/tokenizers.abi3.so"], None),
    ],
)
def test_the_first_framework_says_whether_a_process_is_malleable(paths, said):
    libraries = thread_libraries(InspectedProcess(maps(LOADER, *paths)), HOST_CPUS)
    assert fixed_framework(libraries) == said


def test_a_process_is_read_as_the_kernel_tells_it():
    own = memory_map(os.getpid())
    assert own is not None
    assert b"/ld-" in own
    assert b"\0PATH=" in b"\0" + (environment(os.getpid()) or b"")
    # Above any pid of Linux.
    assert memory_map(1 << 23) is environment(1 << 23) is None
