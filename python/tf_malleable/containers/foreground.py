# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A container job in the foreground, from its creation to its exit code."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tf_malleable.api.schema import requirement
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.admission import Notices, Submitted, admit
from tf_malleable.api.transport.client import Client
from tf_malleable.api.transport.connection import Connection
from tf_malleable.containers.container_creation import Recipe, create, fetch
from tf_malleable.containers.engine import (
    Engine,
    EngineGoneError,
    EngineRefusedError,
    NoSuchContainerError,
    was_never_started,
)
from tf_malleable.controller.ports import CANNOT_RUN
from tf_malleable.model import OperationError

# Exit codes as in docker run: the container's program could not be run.
_NO_PROGRAM = (126, 127)
# Start of StartedAt if the container was never started.
_NEVER = "0001-"
_NOTICE_SECONDS = 1.0
_POLL_SECONDS = 0.05
# Time for an engine to restart.
_ENGINE_SECONDS = 60.0
_REMOVAL_SECONDS = 5.0


class CannotRunError(OperationError):
    """The engine could not run the container."""

    exit_code = CANNOT_RUN


class Cancelled(Exception):  # noqa: N818 - not an error
    """A signal arrived before the container was started."""


class ContainerJob:
    """A container that runs as a job. For use in the main thread."""

    def __init__(
        self, recipe: Recipe, *, removed: bool, notices: Notices, say: Callable[[str], None]
    ) -> None:
        """Create the job; run() runs it.

        Args:
            recipe: The container to create.
            removed: True if the engine removes the container when it has ended.
            notices: Called while the container waits in the queue.
            say: Prints a sentence for the user.
        """
        self._notices = notices
        self._say = say
        self._recipe = recipe
        self._removed = removed
        self._client = Client(Path(recipe.labels.socket))
        self._engine = Engine()
        self._id = ""
        self._exit_code: int | None = None
        self._copier: threading.Thread | None = None
        self._job: JobStatus | None = None
        self._started = False
        # The engine's reason if it could not start the container.
        self._problem = ""

    def run(self, *, detach: bool) -> int:
        """Run the container; return its exit code, or 0 at once if `detach` is set.

        Raises:
            OperationError, ValueError: It cannot be run, and was removed.
        """
        try:
            fetch(self._engine, self._recipe.image, self._say)
            self._id = create(self._engine, self._recipe)
        except (EngineGoneError, EngineRefusedError) as error:
            raise CannotRunError(str(error)) from None
        try:
            # Attach before the start, so as not to miss any output.
            output = None if detach else self._engine.attach(self._id)
            waiter = None if detach else self._wait_in_thread()
            self._submit()
        except BaseException as error:
            self._remove()
            if isinstance(error, EngineGoneError | EngineRefusedError):
                raise CannotRunError(str(error)) from None
            raise
        if output is None or waiter is None:
            print(self._id)
            return 0
        with _Signals(self._forward):
            self._wait_for_start()
            _copy(output)
            code = self._ended(waiter)
            if self._copier is not None:
                self._copier.join(_NOTICE_SECONDS)
            self._wait_for_removal()
            return code

    def _submit(self) -> None:
        try:
            self._job = self._client.ask(
                "POST", "/v1/containers", JobStatus, {"container": self._id}
            )
        except NoAnswerError as error:
            if requirement.is_controller_required():
                raise OperationError(requirement.reason(error.problem)) from None
            self._say(f"{error.problem}, running alone")
            self._engine.start(self._id)
            self._started = True
        except OperationError:
            # A controller that has just restarted may have found the container by its labels.
            state = self._state()
            if state is None or was_never_started(state):
                raise

    def _wait_for_start(self) -> None:
        """Return when the container has been started, or never will be."""
        if self._job is not None:
            job = Submitted(self._job.id, self._job.min)
            admitted = admit(
                lambda: Connection(self._client.socket),
                lambda connection: job,
                is_enough=lambda grant: grant.state != "waiting",
                is_moot=self._has_left_the_queue,
                notices=self._notices,
            )
            if admitted is not None:
                admitted.connection.close()
        while not self._has_left_the_queue():
            time.sleep(_POLL_SECONDS)

    def _has_left_the_queue(self) -> bool:
        """Return whether the container has been started, or never will be."""
        if self._started or self._problem:
            return True
        state = self._state()
        if state is None:
            return True
        self._started = not state["StartedAt"].startswith(_NEVER)
        if not self._started:
            self._problem = state["Error"]
        return self._started or bool(self._problem) or not was_never_started(state)

    def _state(self) -> dict[str, Any] | None:
        """Return the container's state according to the engine; None if it no longer exists."""
        deadline = time.monotonic() + _ENGINE_SECONDS
        while True:
            try:
                return dict(self._engine.inspect(self._id)["State"])
            except NoSuchContainerError:
                return None
            except (EngineGoneError, EngineRefusedError) as error:
                if time.monotonic() > deadline:
                    raise CannotRunError(str(error)) from None
                time.sleep(_POLL_SECONDS)

    def _wait_in_thread(self) -> threading.Thread:
        exit_code = self._engine.await_end(self._id)

        def wait() -> None:
            self._exit_code = exit_code()

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        return waiter

    def _copy_in_thread(self) -> None:
        """Copy the output in a thread: that of an ended container lasts until its next start."""
        output = self._engine.attach(self._id)
        self._copier = threading.Thread(target=_copy, args=(output,), daemon=True)
        self._copier.start()

    def _ended(self, waiter: threading.Thread) -> int:
        """Return the exit code of a container whose output has ended."""
        while True:
            # A container that a restarted engine left running may run for long: poll slowly.
            waiter.join(_POLL_SECONDS if self._copier is None else _NOTICE_SECONDS)
            if self._exit_code is not None:
                return self._explain(self._exit_code)
            state = self._state()
            if state is None:
                return self._gone(waiter)
            if was_never_started(state) and state["Error"]:
                self._remove()
                self._problem = state["Error"]
                return self._explain(int(state["ExitCode"]) or CANNOT_RUN)
            if state["Running"] and not waiter.is_alive():
                # The engine was restarted and left it running, or is about to stop again.
                with suppress(EngineGoneError, EngineRefusedError):
                    waiter = self._wait_in_thread()
                    self._copy_in_thread()
            elif state["Status"] in ("exited", "dead"):
                return int(state["ExitCode"])

    def _gone(self, waiter: threading.Thread) -> int:
        """Return the exit code of a container that no longer exists."""
        waiter.join(_NOTICE_SECONDS)
        if self._exit_code is not None:
            return self._explain(self._exit_code)
        if self._job is not None and not self._started:
            raise OperationError(f"job {self._job.id} was cancelled")
        raise CannotRunError(f"the container {self._id[:12]} was removed")

    def _wait_for_removal(self) -> None:
        """If the engine removes the container after its end, wait until that is done."""
        if self._removed:
            with suppress(EngineGoneError, EngineRefusedError):
                self._engine.await_removal(self._id, _REMOVAL_SECONDS)

    def _explain(self, code: int) -> int:
        """Return an exit code; report its reason if nothing else does."""
        if self._problem:
            self._say(" ".join(self._problem.split()))
        elif code in _NO_PROGRAM and not self._started and self._removed:
            # The engine's reason was removed with the container.
            program = self._recipe.options.get("entrypoint") or next(iter(self._recipe.command), "")
            named = f" {program!r}" if program else ""
            self._say(f"image {self._recipe.image} has no executable program{named}")
        return code

    def _forward(self, number: int) -> None:
        if not self._started:
            self._cancel()
            raise Cancelled
        with suppress(EngineGoneError, EngineRefusedError):
            Engine().kill(self._id, signal.Signals(number).name)

    def _cancel(self) -> None:
        if self._job is not None:
            with suppress(OperationError):
                self._client.ask("POST", f"/v1/jobs/{self._job.id}/cancel", JobStatus)
        self._remove()

    def _remove(self) -> None:
        with suppress(EngineGoneError, EngineRefusedError):
            self._engine.remove(self._id)


class _Signals:
    """A context in which signals that would end tfm are forwarded to the container."""

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, forward: Callable[[int], None]) -> None:
        self._forward = forward
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        def handle(number: int, frame: FrameType | None) -> None:
            self._forward(number)

        for number in self._NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, handle)

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _copy(output: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    """Copy the container's output to this process's stdout and stderr until it ends."""
    with suppress(OSError):  # The engine was restarted, or this process's output was closed.
        for stdout, stderr in output:
            for text, stream in ((stdout, sys.stdout.buffer), (stderr, sys.stderr.buffer)):
                if text:
                    stream.write(text)
                    stream.flush()
