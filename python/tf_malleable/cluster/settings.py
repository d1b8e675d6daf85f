# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Settings of the operator, fixed at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tf_malleable.elastic.membership.worker_count import Patience
from tf_malleable.policies import registry


@dataclass(frozen=True)
class Timings:
    """Timeouts and intervals of the operator, in seconds.

    Attributes:
        call: Timeout of a call of the API server.
        poll: Interval between two status requests to a job's coordinator.
        report: Interval between two writes of a status in which only progress has changed.
        backoff: Delay before a worker is started again after the second crash in a row; doubled
            after each further crash.
        longest_backoff: Upper limit of that delay.
        deferred: Time for which a resize may be deferred before it is given up.
        unscheduled: Time for which a pod may stay unscheduled before it is given up, from when the
            grace periods of all pods that leave its node are over.
        avoided: Time for which a node or a resize that was given up is not tried again.
        stuck: Time without any started worker, because of its image or as its pods or what they
            need are refused, after which the job has failed.
        ending: Time that the other workers have once one has reached the training's end.
        closing: Time for which the finalizer holds a deleted job whose workers do not go.
        refused: Delay before the operator tries again to create what was refused, for example by a
            quota; doubled after each further refusal.
        longest_refused: Upper limit of that delay.
        look: Interval of decisions while nothing happens.
        patience: Times for which another number of workers must be wanted.
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
    longest_refused: float = 180.0
    look: float = 30.0
    # A worker's pod takes a second to start: with it, room is used within three.
    patience: Patience = field(default_factory=lambda: Patience(more=2.0))


@dataclass(frozen=True)
class OperatorSettings:
    """Settings of an operator.

    Attributes:
        kubeconfig: Path of the kubeconfig; None for that of KUBECONFIG or of the home folder, or,
            in a pod, for the pod's service account.
        context: Context of the kubeconfig; None for its current one.
        policy: Policy that shares out the CPUs, specified as for tfm controller.
        only_in: Only namespace whose jobs are carried out; None for all namespaces.
        namespace: Namespace of the operator's lease and key; None for the one that it runs in.
        name: Name of the lease; the key's Secret has this name with ``-key`` appended.
        identity: Name of this operator among operators; None for the host's name and a random
            number.
        host: Address that serves /metrics, /healthz and /readyz.
        port: Port that serves them; 0 for any free one.
        lease_seconds: Time without a renewal by the leader after which another operator takes
            over, in seconds.
        timings: Timeouts and intervals.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    policy: str = registry.DEFAULT
    only_in: str | None = None
    namespace: str | None = None
    name: str = "tf-malleable-operator"
    identity: str | None = None
    host: str = "0.0.0.0"
    port: int = 8080
    lease_seconds: float = 8.0
    timings: Timings = field(default_factory=Timings)
