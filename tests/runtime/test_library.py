# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which library provides the limits, and what is said when none can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tf_malleable as tfm
from tf_malleable.runtime import _native, library, tensorflow_install
from tf_malleable.runtime.elf import exported
from tf_malleable.runtime.tensorflow_install import TensorFlow, find_tensorflow, main


def python(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python, with one more folder where it looks first for modules."""
    folders = os.pathsep.join(filter(None, (path and str(path), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_overlay_is_what_is_here():
    assert tfm.backend() == "overlay"


def test_the_overlay_is_that_of_the_installed_tensorflow():
    found = find_tensorflow()
    assert found is not None
    assert (found.directory / "include" / "Eigen").is_dir()
    assert list(library.overlays()) == [found.minor]
    assert _native.tensorflow_version() == found.version


CARRIED = {minor: Path(f"/{minor}.so") for minor in ("2.9", "2.19", "2.20", "2.21")}


@pytest.mark.parametrize("version", ["2.20.0", "2.20.7", "2.20.0rc1", "2.20.1+cpu"])
def test_patch_releases_share_the_overlay_of_their_minor(version):
    assert library.overlay_for(TensorFlow(version, Path("/")), CARRIED) == Path("/2.20.so")


@pytest.mark.parametrize("version", ["2.2.0", "2.22.0", "3.20.0", "2.210.0", "2"])
def test_a_minor_that_is_not_carried_is_refused_with_the_remedy(version):
    with pytest.raises(ImportError) as caught:
        library.overlay_for(TensorFlow(version, Path("/")), CARRIED)
    assert str(caught.value) == (
        f"TensorFlow {version} is installed, but this tf_malleable supports 2.9, 2.19, 2.20 and"
        " 2.21; pip install 'tensorflow==2.21.*', or, for a newer one, build the newest version, in"
        " a clone of the repository: pip install --force-reinstall --no-deps ."
    )


def test_one_overlay_is_named_alone():
    with pytest.raises(ImportError, match=r"this tf_malleable supports 2\.21; pip"):
        library.overlay_for(TensorFlow("2.20.0", Path("/")), {"2.21": Path("/2.21.so")})


@pytest.mark.parametrize("found", [None, TensorFlow("2.21.0", Path("/"))])
def test_a_build_for_patched_tensorflow_has_no_overlay_for_another(found):
    with pytest.raises(ImportError, match=r"supports no version without the patches; build"):
        library.overlay_for(found, {})


def test_before_tensorflow_is_installed_the_newest_overlay_does():
    assert library.overlay_for(None, CARRIED) == Path("/2.21.so")


def test_overlays_are_listed_from_old_to_new(tmp_path, monkeypatch):
    for minor in ("2.21", "2.9", "2.19"):
        (tmp_path / f"libtf_malleable_overlay-{minor}.so").touch()
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert list(library.overlays()) == ["2.9", "2.19", "2.21"]


def stand_in(folder: Path, version: str) -> Path:
    """Write a package that looks like TensorFlow, with no libraries; return the folder."""
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "tensorflow" / "__init__.py").touch()
    (folder / f"tensorflow_cpu-{version}.dist-info").mkdir()
    return folder


def imported(folder: Path) -> str:
    """Return what importing tf_malleable beside that TensorFlow says."""
    script = "try:\n import tf_malleable\nexcept ImportError as error:\n print(error)"
    result = python("-c", script, path=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_beside_another_minor_is_refused(tmp_path):
    said = imported(stand_in(tmp_path, "2.99.0"))
    assert said.startswith("TensorFlow 2.99.0 is installed, but this tf_malleable supports 2.")
    assert said.endswith(f"{library.REBUILD}\n")
    assert len(said.splitlines()) == 1


def test_a_patch_release_without_a_replaced_function_is_refused(tmp_path):
    found = find_tensorflow()
    assert found is not None
    said = imported(stand_in(tmp_path, f"{found.minor}.99"))
    assert said.startswith(f"TensorFlow {found.minor}.99 is installed, but exports no function _ZN")
    assert f"which libtf_malleable_overlay-{found.minor}.so replaces; install TensorF" in said
    assert said.endswith(f"or, if it is newer, {library.REBUILD}\n")
    assert len(said.splitlines()) == 1


def linked(folder: Path, *options: str) -> Path:
    """Write a package like TensorFlow whose library calls all that the overlay replaces."""
    found = find_tensorflow()
    assert found is not None
    stand_in(folder, found.version)
    overlay = library.overlays()[found.minor]
    functions = [name for name in sorted(exported(overlay)) if not name.startswith("tfm_")]
    source = folder / "library.c"
    source.write_text(
        "".join(f"int {name}(void) {{ return {n}; }}\n" for n, name in enumerate(functions))
        + '__attribute__((visibility("default"))) int call_all(void) {\n  return '
        + " + ".join(f"{name}()" for name in functions)
        + ";\n}\n"
    )
    compiler = shutil.which("gcc") or shutil.which("g++")
    assert compiler is not None
    target = folder / "tensorflow" / library.FRAMEWORK
    command = [compiler, "-x", "c", "-O2", "-shared", "-fPIC", "-o", target, *options, source]
    subprocess.run(command, check=True, timeout=60)
    return folder


def test_a_library_whose_calls_can_be_replaced_is_accepted(tmp_path):
    assert imported(linked(tmp_path)) == ""


@pytest.mark.parametrize(
    "options",
    [
        ("-Wl,-Bsymbolic-functions",),
        ("-Wl,-Bsymbolic",),
        ("-flto", "-fno-semantic-interposition"),
        ("-fno-semantic-interposition",),
    ],
)
def test_a_library_that_calls_its_own_functions_directly_is_refused(tmp_path, options):
    said = imported(linked(tmp_path, *options))
    assert "is installed, but limits would do nothing: " in said
    assert "-Bsymbolic-functions" in said
    assert "install TensorFlow's own wheel (pip install tensorflow-cpu), or build" in said
    assert len(said.splitlines()) == 1


def test_one_that_was_not_there_at_the_import_is_noticed_at_the_first_call(tmp_path):
    """As in a folder that the program adds to its path later."""
    folder = linked(tmp_path, "-Wl,-Bsymbolic-functions")
    # Without a slot there is no pointer to look at, and so no need for an address.
    assert library._calls_itself(0, folder / "tensorflow" / library.FRAMEWORK)


def test_a_library_that_hides_its_functions_is_refused(tmp_path):
    said = imported(linked(tmp_path, "-fvisibility=hidden"))
    assert "is installed, but exports no function _ZN" in said
    assert "install TensorFlow's own wheel (pip install tensorflow-cpu), or build" in said


def test_one_function_that_is_called_directly_is_enough(tmp_path):
    """As where link-time optimization has inlined it, and left the others."""
    found = find_tensorflow()
    assert found is not None
    folder = linked(tmp_path)
    symbol = "_ZNK3tsl6thread10ThreadPool17AsEigenThreadPoolEv"
    source = folder / "library.c"
    text = source.read_text()
    source.write_text(text.replace(f"+ {symbol}()", ""))
    target = folder / "tensorflow" / library.FRAMEWORK
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", target, source], check=True, timeout=60)
    assert f"its calls of {symbol} cannot be replaced" in imported(folder)


def test_a_tensorflow_that_does_not_tell_its_version_is_refused(tmp_path, capsys):
    folder = stand_in(tmp_path, "2.21.0")
    (folder / "tensorflow_cpu-2.21.0.dist-info").rmdir()
    said = imported(folder)
    assert said == (
        f"cannot tell which TensorFlow {folder}/tensorflow is: beside it there are no metadata"
        " (tensorflow….dist-info); install it with pip\n"
    )
    assert main([str(folder)]) == 1
    assert capsys.readouterr() == ("", said)


def test_a_nightly_build_is_known_by_its_metadata(tmp_path):
    folder = stand_in(tmp_path, "2.99.0.dev20261101")
    (folder / "tensorflow_cpu-2.99.0.dev20261101.dist-info").rename(
        folder / "tf_nightly-2.99.0.dev20261101.dist-info"
    )
    assert imported(folder).startswith("TensorFlow 2.99.0.dev20261101 is installed, but")


def test_another_build_of_a_supported_version_is_refused(tmp_path):
    """Its functions have the same names, but its pools may have another layout."""
    found = find_tensorflow()
    assert found is not None
    if "TEST_SRCDIR" in os.environ:
        pytest.skip("built by Bazel, and so for the one TensorFlow that is there")
    folder = tmp_path / "tensorflow"
    folder.mkdir()
    for entry in found.directory.iterdir():
        if entry.name != "include":
            (folder / entry.name).symlink_to(entry)
    name = "Eigen/src/ThreadPool/NonBlockingThreadPool.h"
    header = folder / "include" / name
    header.parent.mkdir(parents=True)
    header.write_bytes((found.directory / "include" / name).read_bytes())
    (tmp_path / f"tensorflow_cpu-{found.version}.dist-info").mkdir()
    assert imported(tmp_path) == ""
    header.write_text("// Another pool.\n")
    said = imported(tmp_path)
    assert said == (
        f"TensorFlow {found.version} is installed, but not the build that"
        f" libtf_malleable_overlay-{found.minor}.so is for: {header} differs; {library.REBUILD}\n"
    )


@pytest.mark.slow
def test_a_tensorflow_that_calls_its_own_functions_first_is_noticed():
    script = """
import os
import sys
import tf_malleable as tfm
tfm.set_threads(1)
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
import tensorflow
try:
    tfm.set_threads(1)
except tfm.NotMalleableError as error:
    print(error)
"""
    result = python("-c", script)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("TensorFlow does not use tf_malleable's thread pools: ")
    assert len(result.stdout.splitlines()) == 1


def test_another_mapping_of_tensorflows_library_is_not_taken_for_it():
    """As there is while another thread looks into the file; limits were set by two at once."""
    script = """
import ctypes
import mmap
import sys
import tf_malleable as tfm
ctypes.CDLL(sys.argv[1])
map_at = ctypes.CDLL(None).mmap
map_at.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
map_at.restype = ctypes.c_void_p
PROT_NONE, MAP_FIXED = 0, 0x10
nothing = map_at(None, 1 << 30, PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
with open(sys.argv[1], "rb") as file:
    map_at(nothing, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE | MAP_FIXED, file.fileno(), 0)
print(tfm.get_threads())
"""
    found = find_tensorflow()
    assert found is not None
    result = python("-c", script, str(found.directory / library.FRAMEWORK))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Threads(")


def test_the_build_is_told_each_tensorflow_it_asks_for(tmp_path, capsys):
    folders = [str(stand_in(tmp_path / version, version)) for version in ("2.19.1", "2.20.0")]
    assert main(folders) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"2.19.1;{folders[0]}/tensorflow",
        f"2.20.0;{folders[1]}/tensorflow",
    ]
    assert main([folders[0], "/nowhere"]) == 1
    assert capsys.readouterr() == ("", "/nowhere has no TensorFlow\n")


@pytest.mark.slow
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


def test_without_tensorflow_the_build_says_what_to_install_and_how(monkeypatch, capsys):
    monkeypatch.setattr(tensorflow_install, "find_tensorflow", lambda where: None)
    assert main([]) == 1
    said = capsys.readouterr().err
    assert f"{sys.executable} has none: pip install tensorflow (or tensorflow-cpu) first" in said
    assert said.endswith(", then tf_malleable: pip install . in a clone of its repository\n")
