# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Supervisor of a training on this machine: starts, stops and replaces its processes."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import Final

from tf_malleable.cli.elastic import training_registry
from tf_malleable.cli.elastic.grant_split import GrantSharing
from tf_malleable.cli.elastic.processes import Child, Processes, Script, started_by
from tf_malleable.cli.elastic.supervisor_messages import Dialogue, Numbers
from tf_malleable.elastic.links.errors import COME_AGAIN
from tf_malleable.elastic.settings import LEFT
from tf_malleable.linux import standard_error
from tf_malleable.model import OperationError

_LOOK_SECONDS: Final = 0.05
# More deaths in a row than this, each so soon after a start, are no accident.
_MOST_DEATHS: Final = 5
_SOON_SECONDS: Final = 10.0
_UNFINISHED: Final = 1


class Supervisor:
    """Runs one training."""

    def __init__(
        self,
        name: str,
        numbers: Numbers,
        shards: int,
        script: Script,
        *,
        replaces: bool,
        sharing: GrantSharing | None = None,
    ) -> None:
        """Create the supervisor; run() starts the processes.

        Args:
            name: Name of the training.
            numbers: Desired and allowed numbers of processes.
            shards: Number of shards of each batch.
            script: Program that each worker runs.
            replaces: True to start another worker in place of one that died.
            sharing: Distributes a controller's grants to the workers; None without a controller.
        """
        self._numbers, self._shards, self._script = numbers, shards, script
        self._replaces, self._sharing = replaces, sharing
        self._processes = Processes(name, shards, script)
        self._dialogue = Dialogue(numbers, self._processes.secret)
        self._is_finished = False
        self._deaths = 0
        self._code = 0
        self._signals: list[int] = []

    def run(self) -> int:
        """Run the training to its end; return its exit code.

        Raises:
            OperationError: The coordinator cannot be started, or workers die at their start.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._signals.append(number))
        try:
            self._coordinate()
            if self._sharing is not None:
                self._sharing.start()
            while not self._is_over():
                time.sleep(_LOOK_SECONDS)
        finally:
            self._dialogue.stop()  # Otherwise the last worker would wait for a replacement.
            known = len(self._signals)
            self._processes.end(lambda: len(self._signals) > known)
            if self._sharing is not None:
                self._sharing.stop()
        return 128 + self._signals[0] if self._signals else self._code

    def _coordinate(self) -> None:
        self._processes.start_coordinator()
        self._dialogue.start(self._processes.address)

    def _is_over(self) -> bool:
        if self._signals:
            return True
        if not self._processes.is_coordinated():
            self._say("the coordinator has died: starting another one")
            self._coordinate()
        self._note_leaving()
        for child in self._processes.ended():
            self._ended(child)
        if self._code:
            return True
        if self._is_finished:
            return not any(each.role == "worker" for each in self._processes.children)
        if self._sharing is not None:
            self._share()
        for role, wanted in (("worker", self._numbers.workers), ("server", self._numbers.servers)):
            self._resize(role, wanted)
        if not self._replaces and not self._processes.of("worker"):
            self._say("no worker is left, and the training has not ended")
            self._code = _UNFINISHED
            return True
        return False

    # Departures.

    def _note_leaving(self) -> None:
        """Note the workers that others have told to go."""
        for said in self._dialogue.status.get("processes", ()):
            if said["leaving"]:
                children = {e.process.pid: e for e in self._processes.children}
                pid = started_by(int(said["place"].rpartition(":")[2]), children)
                if pid is not None and not children[pid].is_leaving:
                    self._leaves(children[pid])

    def _leaves(self, child: Child) -> None:
        """Note a departure that others asked for: decrement the target, not below the minimum."""
        child.is_leaving = True
        numbers = self._numbers
        if child.role == "server":
            numbers.servers = max(0, numbers.servers - 1)
        else:
            fewest = numbers.least if self._replaces else 0
            numbers.workers = max(fewest, numbers.workers - 1)
            self._was_resized()
        self._dialogue.tell()

    def _was_resized(self) -> None:
        """Note that workers have gone, on request or because none are replaced."""
        # Otherwise the next look at the grant would replace them after all.
        self._numbers.by_hand = self._numbers.by_hand or not self._replaces
        if self._sharing is not None:
            self._sharing.was_resized(self._numbers.workers)

    def _ended(self, child: Child) -> None:
        """Handle the end of a worker or server by its exit code."""
        code = child.process.returncode
        if child.role == "server":
            if code == 0 and not child.is_leaving and not self._is_finished:
                self._leaves(child)
        elif code in (LEFT, -signal.SIGTERM):
            if not child.is_leaving:
                self._leaves(child)
        elif code == 0:
            if not self._is_finished and not child.is_leaving and not self._has_begun():
                raise OperationError(
                    f"{self._script.command[0]!r} has ended without a fit() of Keras 3 on"
                    " TensorFlow, which is all that can be elastic"
                )
            self._is_finished = True
        elif not child.is_leaving:
            self._failed(child, code)

    def _failed(self, child: Child, code: int) -> None:
        if 0 < code != COME_AGAIN:
            self._code = code
            return
        why = f"was killed by signal {-code}" if code < 0 else "was cut off from the others"
        self._say(f"worker {child.process.pid} {why}")
        soon = time.monotonic() - child.since < _SOON_SECONDS
        self._deaths = self._deaths + 1 if soon else 0
        if self._deaths > _MOST_DEATHS:
            raise OperationError("workers die as soon as they have started")
        if not self._replaces:
            self._numbers.workers = max(0, self._numbers.workers - 1)
            self._was_resized()
            self._dialogue.tell()

    def _has_begun(self) -> bool:
        """Return whether there has been a generation; True if unknown."""
        found = training_registry.Whereabouts(self._processes.address, self._processes.secret)
        with suppress(OperationError):
            return bool(training_registry.ask(found, {"kind": "status"})["generation"])
        return True

    # Arrivals.

    def _share(self) -> None:
        assert self._sharing is not None
        workers = [e.process.pid for e in self._processes.children if e.role == "worker"]
        wanted = self._sharing.look(self._dialogue.status, self._numbers, workers)
        if wanted != self._numbers.workers:
            self._numbers.workers = wanted
            self._dialogue.tell()

    def _resize(self, role: str, wanted: int) -> None:
        here = self._processes.of(role)
        # A worker that is still leaving counts for the coordinator, which refuses too many.
        room = self._shards - sum(each.role == role for each in self._processes.children)
        for _ in range(min(wanted - len(here), room if role == "worker" else wanted)):
            self._processes.start(role, self._cpus(wanted))
        for child in here[wanted:] if wanted < len(here) else ():
            self._processes.dismiss(child)

    def _cpus(self, workers: int) -> int:
        if self._sharing is not None:
            return max(1, len(self._sharing.cpus) // workers)
        return self._script.threads or 1

    def _say(self, sentence: str) -> None:
        standard_error.say(f"tfm elastic: {sentence}")
