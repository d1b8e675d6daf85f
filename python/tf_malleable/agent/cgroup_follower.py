# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cgroup follower: keeps TensorFlow's limits equal to the CPUs that the cgroup allows.

`docker update`, Kubernetes, systemd and people all change the CPUs by writing to the
cgroup's files, and inotify reports these writes. It does not report that a process was
moved to another cgroup or that an invisible parent has changed, so the thread also
polls twice a second.

Like the agent's thread, it handles no signals, raises nothing, ends before the
interpreter does, and prints nothing except one line about each unreadable file.

Follower and controller need no arbitration. A limit set by the controller holds until
the allowed CPUs change or are fewer than the limit; then the cgroup sets the limit,
until the controller's next grant. A grant and its change of the cgroup lead to the same
limit, in whichever order they arrive.
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from tf_malleable.agent.thread_start import start_without_signals
from tf_malleable.api.schema.job_names import readable
from tf_malleable.linux.cgroups.effective_cpus import EffectiveCpus, Warnings
from tf_malleable.linux.inotify import Writes
from tf_malleable.runtime import library, limits

# Polling intervals in seconds. Five wake-ups a second cost a tenth of a percent of a core.
_INTERVAL: Final = 0.5
_INTERVAL_UNWATCHED: Final = 0.2
# One change may take several writes. This also bounds the work if writes never stop.
_REST_SECONDS: Final = 0.01
# The sizes of the pools that TensorFlow starts with.
_START_VARIABLES: Final = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
# Longest time that the program's exit waits for the thread, which normally ends far sooner.
_EXIT_SECONDS: Final = 1.0


def _say(text: str) -> None:
    with suppress(Exception):  # The program may have closed stderr.
        print(readable(f"tf_malleable: {text}"), file=sys.stderr)


_warnings = Warnings(_say)


def threads_for(cpus: float) -> int:
    """Return the number of threads for this many CPUs: rounded up, at least 1."""
    return max(1, math.ceil(cpus))


class _Follower:
    """Follows the cgroup, in a thread of its own, until limits are set by hand."""

    def __init__(self) -> None:
        self._times = limits.times_set_by_hand()
        self._cpus = EffectiveCpus(_warnings)
        self._threads = 0
        self._is_set = False
        self._grants = 0
        self._writes = Writes()
        self._is_on = True
        self._thread = threading.Thread(target=self._run, name="tf_malleable_cgroup", daemon=True)

    def look(self) -> int:
        """Set the limits to the allowed CPUs if they differ; return the number of CPUs."""
        grants = limits.times_set_by_grants()
        threads = threads_for(self._cpus.read())
        changed = threads != self._threads or not limits.are_within(threads)
        self._is_set = not changed or limits.set_unless_by_hand(threads, self._times)
        if self._is_set:
            self._threads, self._grants = threads, grants
        return threads

    def is_wanted(self) -> bool:
        """Return whether to continue: not ended, and no limits set by hand since the start."""
        return self._is_on and limits.times_set_by_hand() == self._times

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: The thread cannot be started.
        """
        start_without_signals(self._thread)

    def end(self) -> None:
        """Ask the thread to end."""
        self._is_on = False
        self._writes.wake()

    def wait(self) -> None:
        """Wait briefly for the thread to end."""
        self._thread.join(_EXIT_SECONDS)

    def forget(self) -> None:
        """Close the descriptors that a forked child has inherited."""
        self._cpus.close()
        self._writes.close()

    def _run(self) -> None:
        is_watched = self._watch()
        while self.is_wanted():
            with suppress(Exception):
                if self._may_have_to_look():
                    self.look()
                    is_watched = self._watch()
                if self._writes.wait(_INTERVAL if is_watched else _INTERVAL_UNWATCHED):
                    time.sleep(_REST_SECONDS)
        with suppress(Exception):
            self._cpus.close()
            self._writes.close()

    def _watch(self) -> bool:
        """Watch the cgroup files that currently matter; return whether inotify could be set up."""
        with suppress(Exception):
            return self._writes.watch(self._cpus.written_to())
        return False

    def _may_have_to_look(self) -> bool:
        granted = limits.times_set_by_grants() != self._grants
        return not self._is_set or granted or self._cpus.may_have_changed()


class _ProcessFollower:
    """The follower of this process, if any, and its lock."""

    def __init__(self) -> None:
        self.follower: _Follower | None = None
        self.lock = threading.RLock()
        self.has_hooks = False

    def begin(self) -> int:
        """Start a follower, replacing the current one if any; return the number of CPUs."""
        with self.lock:
            self._register_hooks()
            if self.follower is not None:
                self.follower.end()
            self.follower = _Follower()
            threads = self.follower.look()
            try:
                self.follower.start()
            except RuntimeError:
                self.follower.forget()
                self.follower = None
                raise
            return threads

    def _register_hooks(self) -> None:
        """Register hooks that restart the follower in forked children and stop it at exit."""
        if not self.has_hooks:
            self.has_hooks = True
            os.register_at_fork(after_in_child=self._begin_in_child)
            atexit.register(self._stop)

    def _begin_in_child(self) -> None:
        """Start a follower in a forked child, which has none of its parent's threads."""
        inherited, self.follower = self.follower, None
        self.lock = threading.RLock()
        if inherited is not None:
            with suppress(Exception):
                inherited.forget()
                if inherited.is_wanted():
                    self.begin()

    def _stop(self) -> None:
        """End the thread while the interpreter is still intact."""
        if self.follower is not None:
            self.follower.end()
            self.follower.wait()


_process = _ProcessFollower()


def follow_cgroup() -> int:
    """Keep the limits equal to the CPUs that this process's cgroups allow, from now on.

    The number of CPUs is the minimum of the CPU affinity, the cpuset and the CPU quota,
    over its own cgroup and every visible parent, rounded up. If a container, Kubernetes
    pod or systemd unit is resized, the limits follow at once; if the process is moved to
    another cgroup, within half a second. Limits set by hand, with :func:`set_threads` or
    :func:`set_cpuset`, end this until it is called again; :func:`threads` pauses it. A
    forked child follows if its parent does.

    Thread counts given to TensorFlow itself, for example with tf.config.threading, are
    not an upper bound.

    Returns:
        Number of CPUs allowed now, rounded up. This is the first limit, unless the
        capacity is lower.

    Raises:
        NotMalleableError: TensorFlow was imported before tf_malleable.
        RuntimeError: The thread cannot be started; limits are set, but will not follow.
    """
    library.require()
    return _process.begin()


def follow_from_the_start() -> None:
    """Follow the cgroup in a process that has not loaded TensorFlow yet.

    TensorFlow then also starts with no more threads than CPUs are allowed. By default it
    starts one thread per CPU of the host and splits large operations into as many pieces,
    which costs time under a lower limit: a matmul takes a quarter longer with 64 threads on
    two CPUs. The limits can still grow beyond this number later.
    """
    if "tensorflow" not in sys.modules:
        threads = threads_for(_cpus_now())
        for variable in _START_VARIABLES:
            asked_for = os.environ.get(variable, "")
            if not (asked_for.isdigit() and 1 <= int(asked_for) <= threads):
                os.environ[variable] = str(threads)
    with suppress(RuntimeError):  # Without the thread, at least the first limit is right.
        _process.begin()


def _cpus_now() -> float:
    cpus = EffectiveCpus(_warnings)
    try:
        return cpus.read()
    finally:
        cpus.close()
