# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Start of an elastic worker in this process, as TF_MALLEABLE_ELASTIC requests."""

from __future__ import annotations

import signal

from tf_malleable.elastic.install import install
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.mesh import Mesh, StateHolder
from tf_malleable.elastic.settings import MeshSettings


def start() -> None:
    """Make each fit() of this process part of the training, if there is one.

    Raises:
        SystemExit: The environment variable is malformed. A worker that went on without the
            others would train on its own.
    """
    try:
        settings = MeshSettings.from_environment()
    except MeshError as error:
        raise SystemExit(f"tf_malleable: elastic training: {error}") from None
    if settings is None:
        return

    def join(holder: StateHolder) -> Mesh:
        from tf_malleable.elastic.member.training_member import TrainingMember

        mesh = TrainingMember(settings, holder)
        signal.signal(signal.SIGTERM, lambda *_: mesh.leave())
        return mesh

    install(settings.training(), None if settings.coordinator is None else join)
