# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One container from its creation to its exit code, as the command that runs it sees it."""

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

from tf_malleable.api.admission import Notices, Submitted, admit
from tf_malleable.api.client import Client, NoAnswerError
from tf_malleable.api.connection import Connection
from tf_malleable.api.messages import JobStatus
from tf_malleable.containers.creating import Recipe, create, fetch
from tf_malleable.containers.engine import (
    Engine,
    EngineGoneError,
    EngineRefusedError,
    NoSuchContainerError,
)
from tf_malleable.model import OperationError

# As docker run has it: not the program has failed, but to run it.
_ENGINE_FAILED = 125
_NO_PROGRAM = (126, 127)
# The year in which what was never started was started.
_NEVER = "0001-"
_NOTICE_SECONDS = 1.0
_POLL_SECONDS = 0.05
# An engine that is restarted is back by then.
_ENGINE_SECONDS = 60.0
_REMOVAL_SECONDS = 5.0


class CannotRunError(OperationError):
    """The container could not be run."""

    exit_code = _ENGINE_FAILED


class Cancelled(Exception):  # noqa: N818 - nothing has gone wrong
    """A signal came before the container was started."""


class ContainerJob:
    """A container that is run as a job. For the main thread."""

    def __init__(
        self, recipe: Recipe, *, removed: bool, notices: Notices, say: Callable[[str], None]
    ) -> None:
        """Prepare to run it.

        Args:
            recipe: What to make.
            removed: The engine removes it when it has ended.
            notices: Hears how long it waits.
            say: Tells the user what the container's output does not show.
        """
        self._notices = notices
        self._say = say
        self._recipe = recipe
        self._removed = removed
        self._client = Client(Path(recipe.labels.socket))
        self._engine = Engine()
        self._id = ""
        self._exit_code: int | None = None
        self._job: JobStatus | None = None
        self._started = False
        # What the engine says if it could not start it.
        self._problem = ""

    def run(self, *, detach: bool) -> int:
        """Run it; return its exit code, or 0 at once if it is left to itself.

        Raises:
            OperationError, ValueError: It cannot be run; there is no container then.
        """
        try:
            fetch(self._engine, self._recipe.image, self._say)
            self._id = create(self._engine, self._recipe)
        except (EngineGoneError, EngineRefusedError) as error:
            raise CannotRunError(str(error)) from None
        try:
            # Before it starts: nothing that it prints may be missed.
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
            self._wait_for_removal()
            return code

    def _submit(self) -> None:
        try:
            self._job = self._client.ask(
                "POST", "/v1/containers", JobStatus, {"container": self._id}
            )
        except NoAnswerError:
            self._say(f"no controller at {self._client.socket}, running alone")
            self._engine.start(self._id)
            self._started = True
        except OperationError:
            # A controller that has just come back may have found it by its labels.
            state = self._state()
            if state is None or state["Status"] == "created":
                raise

    def _wait_for_start(self) -> None:
        """Return when it was started, or never will be."""
        if self._job is not None:
            job = Submitted(self._job.id, self._job.pid, self._job.min)
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
        """Look whether it was started by now, or never will be."""
        if self._started or self._problem:
            return True
        state = self._state()
        if state is None:
            return True
        self._started = not state["StartedAt"].startswith(_NEVER)
        if not self._started:
            self._problem = state["Error"]
        return self._started or bool(self._problem) or state["Status"] != "created"

    def _state(self) -> dict[str, Any] | None:
        """Return what the engine says of it now, None if it is gone."""
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

    def _ended(self, waiter: threading.Thread) -> int:
        """Return the exit code of a container whose output has ended."""
        while True:
            waiter.join(_POLL_SECONDS)
            if self._exit_code is not None:
                return self._explained(self._exit_code)
            state = self._state()
            if state is None:
                return self._gone(waiter)
            if state["Status"] == "created" and state["Error"]:
                self._remove()
                self._problem = state["Error"]
                return self._explained(int(state["ExitCode"]) or _ENGINE_FAILED)
            if state["Running"] and not waiter.is_alive():
                # Its engine was restarted and has left it alone; or is going again.
                with suppress(EngineGoneError, EngineRefusedError):
                    waiter = self._wait_in_thread()
                    _copy(self._engine.attach(self._id))
            elif state["Status"] in ("exited", "dead"):
                return int(state["ExitCode"])

    def _gone(self, waiter: threading.Thread) -> int:
        """Return the exit code of a container that is no longer there."""
        waiter.join(_NOTICE_SECONDS)
        if self._exit_code is not None:
            return self._explained(self._exit_code)
        if self._job is not None and not self._started:
            raise OperationError(f"job {self._job.id} was cancelled")
        raise CannotRunError(f"the container {self._id[:12]} was removed")

    def _wait_for_removal(self) -> None:
        """Return when the engine has removed it, if it is to; it does so after the end."""
        if self._removed:
            with suppress(EngineGoneError, EngineRefusedError):
                self._engine.await_removal(self._id, _REMOVAL_SECONDS)

    def _explained(self, code: int) -> int:
        """Return an exit code, and say what it means if that is known to nobody else."""
        if self._problem:
            self._say(" ".join(self._problem.split()))
        elif code in _NO_PROGRAM and not self._started and self._removed:
            # The engine's reason went with the container.
            program = self._recipe.options.get("entrypoint") or [*self._recipe.command, "it"][0]
            self._say(f"image {self._recipe.image} has no program {program!r} that can be run")
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
    """Hands the signals that would end tfm on to the container, for a while."""

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
    """Print what the container prints, each to its own stream, until that ends."""
    with suppress(OSError):  # Its engine was restarted, or nobody reads ours any more.
        for stdout, stderr in output:
            for text, stream in ((stdout, sys.stdout.buffer), (stderr, sys.stderr.buffer)):
                if text:
                    stream.write(text)
                    stream.flush()
