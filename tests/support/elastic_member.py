# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs a script as one member of a fake mesh: python -m tests.support.elastic_member JSON."""

import gc
import json
import runpy
import sys

import tf_malleable  # noqa: F401 - before tensorflow.
from tests.support.fake_mesh import FakeMesh
from tf_malleable.elastic.install import install
from tf_malleable.elastic.settings import TrainingSettings


def training():
    """Return the training of this process, for scripts that go on after a refusal."""
    from tf_malleable.elastic.training.training import Training

    (found,) = [each for each in gc.get_objects() if type(each) is Training]
    return found


if __name__ == "__main__":
    sys.modules["tests.support.elastic_member"] = sys.modules["__main__"]
    said = json.loads(sys.argv[1])
    address = said["address"]
    settings = TrainingSettings(**said["settings"])

    def make_mesh(holder):
        return FakeMesh(address, said["name"], holder, settings.shards)

    install(settings, make_mesh if address else None)
    sys.argv = [said["script"], *said["arguments"]]
    runpy.run_path(said["script"], run_name="__main__")
