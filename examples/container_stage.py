# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers that train, and what is seen of them: printed, and kept for a picture."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from container_image import Image, container_image
from container_picture import Cores, Sample, Scene, Track
from demo import BIN, DemoError

from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.containers.engine import Engine, EngineGoneError, EngineRefusedError
from tf_malleable.model import format_cpuset

# Is set, and says why, where tools/docker_engine.py found no engine for us.
NO_ENGINE = "TF_MALLEABLE_NO_ENGINE"
NARRATED = Path(__file__).with_name("narrated.py").absolute()
TRAINING = NARRATED.parent / "trainings" / "cnn.py"
# More steps than anybody waits for: what ends a training is the demo, not the speed of a machine.
COMMAND = ["python", str(NARRATED), str(TRAINING), "--size", "128", "--steps", "1000000"]
ENVIRONMENT = "TF_CPP_MIN_LOG_LEVEL=3"
PERIOD = 100_000  # Microseconds, of a quota.
PATIENCE = 180.0  # Seconds; a machine may be busy.
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Phase:
    """A time in which nobody changed anything, in seconds of its scene."""

    name: str
    begin: float
    end: float


class Training(Track):
    """A container that trains, and what it prints meanwhile."""

    def __init__(self, name: str, log: Path, now: Callable[[], float]) -> None:
        """Begin to read what it prints.

        Args:
            name: Name of the container.
            log: File for all it prints.
            now: Function that returns the time of the scene, in seconds.
        """
        super().__init__(name)
        self.log = log
        self._now = now
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def has_ended(self) -> bool:
        """Whether it will print no more."""
        return not self._reader.is_alive()

    def seen_in(self, phase: Phase) -> list[Sample]:
        """Return what it printed in a phase."""
        return [each for each in self.samples if phase.begin <= each.time <= phase.end]

    def last_in(self, phase: Phase) -> Sample:
        """Return what it printed last in a phase.

        Raises:
            DemoError: It printed nothing.
        """
        seen = self.seen_in(phase)
        if not seen:
            seconds = phase.end - phase.begin
            raise DemoError(f"{self.name} printed nothing for {seconds:.0f} s, see {self.log}")
        return seen[-1]

    def speed(self, phase: Phase) -> float | None:
        """Return its steps a second in a phase, None if it printed too little."""
        seen = self.seen_in(phase)
        if len(seen) < 2:
            return None
        return (seen[-1].steps - seen[0].steps) / (seen[-1].time - seen[0].time)

    def _read(self) -> None:
        line = b""
        with (
            suppress(EngineGoneError, EngineRefusedError),
            self.log.open("wb") as log,
            Engine(timeout=None).calling() as client,
        ):
            # Until a container runs, following what it prints ends at once.
            while client.api.inspect_container(self.name)["State"]["Status"] == "created":
                time.sleep(LOOK_SECONDS)
            for chunk in client.api.logs(self.name, stream=True, follow=True):
                log.write(chunk)
                log.flush()
                *lines, line = (line + chunk).split(b"\n")
                self.samples += filter(None, map(self._sample, lines))

    def _sample(self, line: bytes) -> Sample | None:
        with suppress(ValueError):
            _, threads, steps, _ = line.split()
            return Sample(self._now(), int(threads), float(steps))
        return None


class Show:
    """A scene: what happens is printed, and kept for the picture."""

    def __init__(self, logs: Path, client: Client | None = None) -> None:
        """Begin.

        Args:
            logs: Folder for what trainings print.
            client: Client of the controller, if there is one.
        """
        self._begin = time.monotonic()
        self._logs = logs
        self._client = client
        self._said: dict[str, str] = {}
        self._running: list[Training] = []
        self.trainings: list[Training] = []
        self.phases: list[Phase] = []

    def now(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self._begin

    def say(self, sentence: str) -> None:
        """Print what happens."""
        print(f"{self.now():6.1f} s  {sentence}", flush=True)

    def enter(self, name: str) -> Training:
        """Wait until a container that was started trains."""
        training = Training(name, self._logs / f"{name}.log", self.now)
        self.trainings.append(training)
        self._running.append(training)
        self.wait(lambda: bool(training.samples), f"{name} has not begun to train")
        self.say(f"{name} trains")
        return training

    def phase(self, name: str, seconds: float) -> Phase:
        """Let all go on for a while."""
        begin = self.now()
        self.wait(lambda: self.now() >= begin + seconds)
        self.phases.append(Phase(name, begin, self.now()))
        return self.phases[-1]

    def stop(self, training: Training) -> None:
        """Stop a training that is a job, and wait for its end."""
        self._running.remove(training)
        self.say(f"tfm container stop {training.name}")
        self.command("container", "stop", training.name)
        self.wait(lambda: training.has_ended, f"{training.name} has not ended")
        training.cores.append(Cores(self.now(), 0, 0))
        self.say(f"{training.name} has ended")

    def wait(self, condition: Callable[[], bool], otherwise: str = "") -> None:
        """Wait until something is so.

        Args:
            condition: What is waited for.
            otherwise: What to say if that never comes.

        Raises:
            DemoError: It never comes, or a training ends before.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(f"{otherwise} after {PATIENCE:.0f} s")
            for training in self._running:
                if training.has_ended:
                    raise DemoError(f"{training.name} has ended too early, see {training.log}")
            self._look()
            time.sleep(LOOK_SECONDS)

    def command(self, *words: str) -> str:
        """Call tfm about the controller; return what it prints.

        Raises:
            DemoError: It fails, and this is what it says.
        """
        assert self._client is not None
        done = subprocess.run(
            [BIN / "tfm", *words[:2], "--socket", self._client.socket, *words[2:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DemoError(f"tfm {' '.join(words[:2])}: {done.stderr.strip()}")
        return done.stdout

    def table(self) -> None:
        """Print what tfm container list says."""
        print()
        print(self.command("container", "list"))

    def scene(self, title: str) -> Scene:
        """Return what there is to draw."""
        end = self.now()
        for training in self.trainings:
            training.cores.append(replace(training.cores[-1], time=end))
        return Scene(title, self.trainings, end)

    def _look(self) -> None:
        """Print and keep what has changed."""
        jobs = [] if self._client is None else self._client.jobs()
        for training in self._running:
            for job in jobs:
                if job.container is not None and job.container.name == training.name:
                    self._keep(training, job)
            if self._client is None and training.samples:
                threads = training.samples[-1].threads
                self._say_once(training, f"{training.name} now has threads: {threads}")

    def _keep(self, training: Training, job: JobStatus) -> None:
        last = training.cores[-1] if training.cores else None
        cores = Cores(self.now(), len(job.granted), len(job.actual), job.state)
        if last is None or replace(cores, time=last.time) != last:
            training.cores.append(cores)
        if job.state != "running":
            self._say_once(training, f"{training.name} is {job.state}")
        elif job.actual == job.granted:
            cpus = format_cpuset(job.actual)
            self._say_once(training, f"{training.name} is granted CPUs {cpus}, and has them")

    def _say_once(self, training: Training, sentence: str) -> None:
        if self._said.get(training.name) != sentence:
            self._said[training.name] = sentence
            self.say(sentence)


@dataclass(frozen=True)
class Containers:
    """Makes the demo's containers, and knows them by a label.

    Attributes:
        engine: Where they are.
        image: What they are made from.
        logs: Where what they print is kept.
    """

    engine: Engine
    image: Image
    logs: Path

    @property
    def label(self) -> str:
        """What only containers of this demo have."""
        return f"tf_malleable-demo={self.image.tag}"

    def start(self, name: str, cpus: Sequence[int]) -> None:
        """Run a training as `docker run -d --init --cpus 1 --cpuset-cpus …` does."""
        with self.engine.calling() as client:
            client.containers.run(
                self.image.tag,
                COMMAND,
                name=name,
                detach=True,
                init=True,
                labels=dict([self.label.split("=")]),
                environment=[ENVIRONMENT],
                network_mode="none",
                volumes=list(self.image.volumes),
                cpuset_cpus=format_cpuset(cpus),
                cpu_period=PERIOD,
                cpu_quota=PERIOD,
            )

    def submit(self, show: Show, name: str) -> None:
        """Run a training as a job."""
        show.say(f"tfm container run -d --name {name} …")
        options = ["-d", "--name", name, "--image", self.image.tag, "--label", self.label]
        options += ["--network", "none", "-e", ENVIRONMENT]
        options += [word for volume in self.image.volumes for word in ("-v", volume)]
        show.command("container", "run", *options, "--", *COMMAND)

    def remove(self) -> None:
        """Remove those there are."""
        with self.engine.calling() as client:
            for each in client.api.containers(all=True, filters={"label": self.label}):
                client.api.remove_container(each["Id"], force=True, v=True)


@contextmanager
def containers(logs: Path) -> Iterator[Containers]:
    """Have an image, and remove it afterwards with all containers that were made from it.

    Raises:
        DemoError, EngineGoneError, ImageError: There is no engine or no image.
    """
    if NO_ENGINE in os.environ:
        raise DemoError(f"there is no container engine: {os.environ[NO_ENGINE]}")
    engine = Engine()
    tag = f"tf_malleable-demo:{os.getpid()}"
    with container_image(engine.client, tag, (NARRATED, TRAINING)) as image:
        ours = Containers(engine, image, logs)
        try:
            yield ours
        finally:
            ours.remove()
