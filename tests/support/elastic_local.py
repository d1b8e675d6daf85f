# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings of tfm elastic local in tests: real Keras processes, led step by step."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import ROOT, zygote
from tests.support.deadline import DEADLINE
from tf_malleable.cli.elastic.training_registry import Whereabouts, ask
from tf_malleable.elastic.generation import Address
from tf_malleable.model import OperationError

SCRIPT = ROOT / "tests" / "elastic" / "paced.py"
EPOCHS, STEPS = 10, 10
# The machine may be slow; what takes longer hangs.
_SECONDS = 250.0
_TFM = [sys.executable, "-m", "tf_malleable_cli", "elastic"]


class Pace:
    """Tells when the next batch may be trained: ever later, so that few do on a slow machine."""

    def __init__(self) -> None:
        self._pause = 0.4
        self._next = 0.0

    def is_time(self) -> bool:
        """Return whether it may be now. If so, the next pause is twice as long."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._pause
        self._pause *= 2
        return True


class LocalTraining:
    """A tfm elastic local, killed in the end with all that it started."""

    def __init__(self, folder: Path, *options: str, seed: int = 1) -> None:
        """Start it; it trains as soon as allow() says so.

        Args:
            folder: An empty one.
            options: Of tfm elastic local.
            seed: Seed of the training.
        """
        self._folder = folder
        (folder / "files").mkdir(parents=True)
        self.allow(0)
        self.errors = folder / "errors.txt"
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._run = folder / "run"
        self._env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "XDG_RUNTIME_DIR": str(self._run),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        words = [*_TFM, "local", "--name", "t", "--seed", str(seed), "--threads", "1", *options]
        words += ["--", sys.executable, str(SCRIPT), str(folder), str(EPOCHS)]
        with self.errors.open("w") as errors:
            # With it all ends that it has started.
            self.process = zygote.popen("keras")(words, env=self._env, stdout=errors, stderr=errors)

    def __enter__(self) -> LocalTraining:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        print(self.said()[-4000:])  # Shown if the test fails.

    def said(self) -> str:
        """Return what all its processes have said."""
        return self.errors.read_text()

    def allow(self, batches: int) -> None:
        """Allow it to train so many batches in all."""
        self._quota = batches
        fresh = self._folder / "fresh"
        fresh.write_text(str(batches))
        fresh.rename(self._folder / "quota")

    def status(self) -> dict[str, Any]:
        """Return what its coordinator says; nothing if there is none."""
        try:
            (file,) = self._run.rglob("t.json")
            said = json.loads(file.read_text())
            secret = bytes.fromhex(said.pop("secret"))
            return ask(Whereabouts(Address(**said), secret), {"kind": "status"})
        except (ValueError, FileNotFoundError, OperationError):
            return {}

    def pids(self) -> list[int]:
        """Return the process ids of its present workers, the lead's first."""
        status = self.status()
        if status.get("phase") != "steady":
            return []
        return [
            int(each["place"].rpartition(":")[2])
            for each in status["processes"]
            if each["role"] == "worker" and each["state"] == "in the training"
        ]

    def lead_to(self, workers: int, *, without: int = 0) -> list[int]:
        """Have it train on, batch by batch, until it has so many workers; return their ids.

        Args:
            workers: How many.
            without: One that was killed, of which the coordinator may not know yet.
        """
        end = time.monotonic() + _SECONDS
        pace = Pace()
        while len(found := self.pids()) != workers or without in found:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.status()
            if self._is_waited_for() and pace.is_time():
                assert self._quota < EPOCHS * STEPS - 1, "it is over too soon"
                self.allow(self._quota + 1)
            time.sleep(0.4)
        return found

    def train_to(self, batches: int) -> list[int]:
        """Have it train so many batches; return the ids of its workers."""
        self.allow(batches)
        end = time.monotonic() + _SECONDS

        def step() -> int:
            # The end of an epoch is a step, too.
            return int(self.status().get("step", 0))

        while step() < batches + batches // STEPS:
            assert time.monotonic() < end, self.status()
            time.sleep(0.1)
        return self.pids()

    def let_it_go(self) -> int:
        """Have it train on, batch by batch, until it has ended; return its exit code.

        Workers that are to go do so between two batches, so there must be a next one.
        """
        end = time.monotonic() + _SECONDS
        pace = Pace()
        while (code := self.process.poll()) is None:
            assert time.monotonic() < end, self.status()
            if pace.is_time():
                assert self._quota < EPOCHS * STEPS - 1, "it is over too soon"
                self.allow(self._quota + 1)
            time.sleep(0.1)
        return int(code)

    def _is_waited_for(self) -> bool:
        """Return whether a batch is wanted: changes take effect between two batches."""
        status = self.status()
        if not status or status["phase"] == "awaitholders":
            return self._quota < 1
        workers = [each for each in status["processes"] if each["role"] == "worker"]
        is_coming = any(each["state"] != "in the training" for each in workers)
        return status["phase"] != "steady" or is_coming or any(e["leaving"] for e in workers)

    def set(self, workers: int) -> None:
        """Change how many workers there are."""
        words = [*_TFM, "set", "--name", "t", str(workers)]
        assert zygote.popen("keras")(words, env=self._env).wait(DEADLINE) == 0

    def finish(self) -> dict[int, dict[str, Any]]:
        """Let it end; return what its processes that came to the end have, by their ids."""
        self.rescales: list[dict[str, Any]] = self.status().get("rescales", [])
        self.allow(EPOCHS * STEPS)
        assert self.process.wait(_SECONDS) == 0, self.said()
        assert "Traceback" not in self.said()
        return {int(path.stem): dict(np.load(path)) for path in self._folder.glob("*.npz")}
