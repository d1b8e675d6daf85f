# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keeps TensorFlow's limits at the CPUs that the cgroup gives this process.

Whoever changes them, `docker update`, Kubernetes, systemd or a bare write, writes to the
cgroup's files, which the kernel tells whoever watches them. What it does not tell, a
process that is moved, a parent that cannot be seen, is looked for twice a second.

Like the agent, the thread that looks is a guest: it takes no signal, lets no error
out, prints nothing but one line about a file that makes no sense, and does not
outlive the interpreter.

Nobody has to be told who decides now. Limits that a controller has set stay, until
the CPUs that there are change or turn out to be fewer; then these count, until the
controller's next grant. A grant and the change of the cgroup that belongs to it end
in the same limit, in whatever order they come.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from tf_malleable.agent.guest import start_without_signals
from tf_malleable.api.naming import readable
from tf_malleable.linux.cgroup import threads_for
from tf_malleable.linux.effective_cpus import EffectiveCpus, Warnings
from tf_malleable.linux.inotify import Writes
from tf_malleable.runtime import library, limits

# To wake up five times a second takes a tenth of a percent of a core.
_INTERVAL: Final = 0.5
_INTERVAL_UNWATCHED: Final = 0.2
# One change may be several writes; and whoever writes without end is not followed so.
_REST_SECONDS: Final = 0.01
# What TensorFlow starts with.
_START_VARIABLES: Final = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
# At exit we wait so long for the thread, which has nothing to do but to notice.
_EXIT_SECONDS: Final = 1.0


def _say(text: str) -> None:
    with suppress(Exception):  # A program may have closed stderr.
        print(readable(f"tf_malleable: {text}"), file=sys.stderr)


_warnings = Warnings(_say)


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
        """Set the limits if they are not for the CPUs that there are; return these."""
        grants = limits.times_set_by_grants()
        threads = threads_for(self._cpus.read())
        changed = threads != self._threads or not limits.are_within(threads)
        self._is_set = not changed or limits.set_unless_by_hand(threads, self._times)
        if self._is_set:
            self._threads, self._grants = threads, grants
        return threads

    def is_wanted(self) -> bool:
        """Return whether nobody has ended it."""
        return self._is_on and limits.times_set_by_hand() == self._times

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: No thread can be started.
        """
        start_without_signals(self._thread)

    def end(self) -> None:
        """Let the thread end."""
        self._is_on = False
        self._writes.wake()

    def wait(self) -> None:
        """Wait a moment until it has."""
        self._thread.join(_EXIT_SECONDS)

    def forget(self) -> None:
        """Let go of what a forked child has inherited."""
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
        """Be told of writes to the files that count now; return whether that can be."""
        with suppress(Exception):
            return self._writes.watch(self._cpus.written_to())
        return False

    def _may_have_to_look(self) -> bool:
        granted = limits.times_set_by_grants() != self._grants
        return not self._is_set or granted or self._cpus.may_have_changed()


class _Place:
    """Where the follower of this process is, if it has one."""

    def __init__(self) -> None:
        self.follower: _Follower | None = None
        self.lock = threading.RLock()
        self.watched = False

    def begin(self) -> int:
        """Have a new follower in place of the one there may be; return the CPUs."""
        with self.lock:
            self._watch()
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

    def _watch(self) -> None:
        """Be told when the process forks or ends."""
        if not self.watched:
            self.watched = True
            os.register_at_fork(after_in_child=self._begin_in_child)
            atexit.register(self._stop)

    def _begin_in_child(self) -> None:
        """Follow in a forked child, too, which has none of its parent's threads."""
        inherited, self.follower = self.follower, None
        self.lock = threading.RLock()
        if inherited is not None:
            with suppress(Exception):
                inherited.forget()
                if inherited.is_wanted():
                    self.begin()

    def _stop(self) -> None:
        """End the thread before the interpreter ends, which could not do it well."""
        if self.follower is not None:
            self.follower.end()
            self.follower.wait()


_place = _Place()


def follow_cgroup() -> int:
    """Keep the limits at the CPUs that this process's cgroups give it, from now on.

    That is the least of the CPU affinity, the cpuset and the CPU quota, of its own
    cgroup and of every parent that can be seen, rounded up: a container, a Kubernetes
    pod or a systemd unit that is made larger or smaller is followed at once, whoever did
    it, and a process that is moved to another within half a second. Limits set by hand,
    by :func:`set_threads` or :func:`set_cpuset`, end it, until this is called again;
    :func:`threads` pauses it. A forked child follows as well, if its parent does.

    What the program asks of TensorFlow itself, tf.config.threading say, is no bound.

    Returns:
        The CPUs that there are now, rounded up: the limit to begin with, as far as the
        capacity goes.

    Raises:
        NotMalleableError: TensorFlow was imported before tf_malleable.
        RuntimeError: No thread can be started; limits are set, but not followed.
    """
    library.require()
    return _place.begin()


def follow_from_the_start() -> None:
    """Follow the cgroup in a process that has not loaded TensorFlow yet.

    TensorFlow, then, also starts with no more threads than there are CPUs. It would
    start with the host's number, cut large operations into as many pieces, and lose
    time on them under a lower limit: a quarter of a matmul's, with 64 threads for two
    CPUs. What it starts with is no bound to what it can grow to.
    """
    if "tensorflow" not in sys.modules:
        threads = threads_for(_cpus_now())
        for variable in _START_VARIABLES:
            asked_for = os.environ.get(variable, "")
            if not (asked_for.isdigit() and 1 <= int(asked_for) <= threads):
                os.environ[variable] = str(threads)
    with suppress(RuntimeError):  # Without a thread the first limit is right.
        _place.begin()


def _cpus_now() -> float:
    cpus = EffectiveCpus(_warnings)
    try:
        return cpus.read()
    finally:
        cpus.close()
