# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What an operator is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tf_malleable.elastic.membership.worker_count import Patience
from tf_malleable.policies import registry


@dataclass(frozen=True)
class Timings:
    """How long the operator waits for what, in seconds.

    Attributes:
        call: For an answer of the API server.
        poll: Between two questions to a job's coordinator.
        report: Between two writes of a status in which only progress has changed.
        backoff: Before a worker is started again after the second crash in a row; doubled
            each time.
        longest_backoff: No longer than this.
        deferred: For so long a resize may be deferred before it is given up.
        unscheduled: For so long a pod may find no node before it is given up.
        avoided: For so long nothing more is tried where something was given up.
        stuck: If no worker has started for so long, for its image, say, the job has failed.
        ending: Once a worker has come to the training's end, the others may take so long.
        closing: For so long the finalizer holds a job whose workers do not go.
        refused: When to try again what a quota has refused.
        look: When to look again if nothing has happened.
        patience: How long another number of workers must be wanted.
    """

    call: float = 10.0
    poll: float = 1.0
    report: float = 5.0
    backoff: float = 10.0
    longest_backoff: float = 300.0
    deferred: float = 15.0
    unscheduled: float = 20.0
    avoided: float = 120.0
    stuck: float = 600.0
    ending: float = 60.0
    closing: float = 60.0
    refused: float = 5.0
    look: float = 30.0
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class OperatorSettings:
    """What an operator is told.

    Attributes:
        kubeconfig: Where the API server is; None for KUBECONFIG, the home folder's, or the pod's.
        context: Of the kubeconfig; None for its current one.
        policy: Decides about CPUs, as tfm controller has it.
        namespace: Of its lease and its key; None for the one that it runs in.
        name: Of its lease; its key's has ``-key`` at the end.
        identity: Names it among operators; None for the host's name and a random number.
        host: Where it serves /metrics, /healthz and /readyz.
        port: There; 0 for any.
        lease_seconds: After how long without a word from the leader another one takes over.
        timings: How long it waits for what.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    policy: str = registry.DEFAULT
    namespace: str | None = None
    name: str = "tf-malleable-operator"
    identity: str | None = None
    host: str = "0.0.0.0"
    port: int = 8080
    lease_seconds: float = 15.0
    timings: Timings = field(default_factory=Timings)
