# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A machine of several users in mount namespaces: its own /tmp, /run, /srv and /var/cache.

So tests may plant files on the paths at which programs look by default. Needs root. Programs are
started in it by nsenter(1); the tier's daemon under what its systemd unit restricts, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.controllers import ask, wait_for
from tests.support.deadline import DEADLINE
from tests.support.long_reader import LongReader
from tests.support.tiers import SECRET, read_until, settle
from tests.support.unit_sandbox import sandboxed
from tf_malleable.api.schema.tier import STATUS
from tf_malleable.api.transport.tier_address import counts_folder
from tf_malleable.tier.protocol import VALID_OFFSET

# One who owns data, two who read, and one who attacks them.
OWNER, READER, OTHER, HOSTILE = 4101, 4102, 4103, 4104
USERS = (OWNER, READER, OTHER, HOSTILE)
DATA = "/srv/data"
STORE = "/var/cache/tf_malleable-tier"
SOCKET = "/run/tf_malleable-tier/tier.sock"
TFM = (sys.executable, "-m", "tf_malleable_cli")

# Without a path: other users may not enter the folders of root's Python, say.
_SET_UP = """
for needed in $NEEDED; do
  way=$needed
  while [ "$way" != / ]; do
    case $(stat -c %A "$way") in *x|*t) ;; *) closed="${closed:-} $way" ;; esac
    way=$(dirname "$way")
  done
done
mkdir -p "$DISK/keep" "$DISK/srv" "$DISK/cache"
mount -t tmpfs tmpfs "$DISK/keep"
number=0
for needed in $NEEDED; do
  number=$((number + 1))
  mkdir "$DISK/keep/$number"
  mount --rbind "$needed" "$DISK/keep/$number"
done
# The outer folders come first.
for each in $(printf '%s\\n' ${closed:-} | sort -u); do
  [ -e "$each" ] && mount -t tmpfs -o mode=755 tmpfs "$each"
done
mount --bind "$DISK/srv" /srv
mount --bind "$DISK/cache" /var/cache
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
# What is needed may be below one of them.
number=0
for needed in $NEEDED; do
  number=$((number + 1))
  mkdir -p "$needed"
  mount --rbind "$DISK/keep/$number" "$needed"
done
echo ready
exec sleep infinity
"""


class Machine:
    """A machine of several users.

    Attributes:
        disk: Folder on a disk for its /srv and /var/cache.
    """

    def __init__(self, disk: Path) -> None:
        """Start it.

        Args:
            disk: Empty folder that all users may enter.
        """
        self.disk = disk
        needed = dict.fromkeys([sys.base_prefix, sys.prefix, str(ROOT)])
        environment = {**os.environ, "DISK": str(disk), "NEEDED": " ".join(needed)}
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", _SET_UP],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        for uid in USERS:
            self.folder(self.home(uid), uid, 0o700)
        self.folder(DATA)
        self.folder(f"{DATA}/scratch", 0, 0o1777)

    def path(self, inside: str) -> Path:
        """Return by which path this process reaches one of the machine."""
        return Path(f"/proc/{self._holder.pid}/root{inside}")

    def home(self, uid: int) -> str:
        """Return the home of a user."""
        return f"/srv/home/{uid}"

    def folder(self, inside: str, uid: int = 0, mode: int = 0o755) -> str:
        """Make a folder, whose parents everybody may enter; return it."""
        path = self.path(inside)
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, uid, uid)
        path.chmod(mode)
        return inside

    def file(self, inside: str, data: bytes, uid: int = 0, mode: int = 0o644) -> str:
        """Make a file that was modified long ago; return it."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.chown(path, uid, uid)
        path.chmod(mode)
        settle(path)
        return inside

    def stored(self, store: str, size: int) -> list[str]:
        """Return the files of a store that may be copies of a file of this size."""
        root, found = self.path(store), []
        for where, _, names in os.walk(root):
            for name in names:
                path = os.path.join(where, name)
                if os.lstat(path).st_size == size:
                    found.append(f"{store}/{os.path.relpath(path, root)}")
        return found

    def command(self, uid: int, *words: str, within: str = "") -> list[str]:
        """Return the command that runs another one as a user.

        Args:
            uid: The user.
            words: The other command.
            within: Shell commands that root runs before, in a mount namespace of its own.
        """
        enter = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]
        if within:
            script = f'{within}\nexec "$@"'
            enter += ["unshare", "--mount", "--propagation", "private", "--"]
            enter += ["sh", "-euc", script, "sh"]
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
        return [*enter, *(become if uid else ()), *words]

    def environment(self, uid: int, **more: str) -> dict[str, str]:
        """Return the environment of a user's programs: without XDG_RUNTIME_DIR, as after su."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": self.home(uid),
            "PYTHONPATH": str(ROOT),
            "TF_MALLEABLE_SOCKET": "/run/no-controller",
            **more,
        }

    def run(
        self,
        uid: int,
        *words: str,
        within: str = "",
        environment: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command as a user to its end."""
        return subprocess.run(
            self.command(uid, *words, within=within),
            env=self.environment(uid, **(environment or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def read(self, uid: int, path: str, **more: Any) -> bytes | None:
        """Return what a user's cat(1) reads through the tier; None if he may not."""
        done = self.run(uid, *TFM, "run", "--tier", "--", "cat", path, **more)
        return None if done.returncode else done.stdout

    @contextmanager
    def reader(self, uid: int, through: bool = True, within: str = "") -> Iterator[LongReader]:
        """Have a user's program that reads what it is told to, through the tier or not."""
        words = (*TFM, "run", "--tier", "--") if through else ()
        command = self.command(uid, *words, within=within)
        with LongReader(command, self.environment(uid)) as found:
            yield found

    def close(self) -> None:
        """End it."""
        self._holder.kill()
        self._holder.communicate(timeout=DEADLINE)


class Daemon:
    """The daemon of a tier in a machine.

    Attributes:
        process: The daemon.
        log: File with what it says.
    """

    def __init__(self, machine: Machine, *options: str, **more: Any) -> None:
        """Start it, and wait until it is ready.

        Args:
            machine: Machine in which it runs.
            options: More options of tfm tier serve.
            more: `uid` of its user; `store` and `socket`; `is_unit` for the shipped unit's
                restrictions; `within` as in Machine.command(); `control`, the control socket as
                this process finds it.
        """
        self.machine, self.options = machine, options
        self.uid: int = more.pop("uid", 0)
        self.store: str = more.pop("store", STORE)
        self.socket: str = more.pop("socket", SOCKET)
        self.is_unit: bool = more.pop("is_unit", False)
        self.within: str = more.pop("within", "")
        self.control: str = more.pop("control", f"{self.socket}.control")
        assert not more
        self.log = machine.disk / f"log{self.uid}"
        if self.control == f"{self.socket}.control":
            machine.folder(self.store, self.uid)
            machine.folder(os.path.dirname(self.socket), self.uid)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        begin = self.log.stat().st_size if self.log.exists() else 0
        words = [*TFM, "tier", "serve", "--source", DATA, "--store", self.store]
        words += ["--socket", self.socket, "-v", *self.options]
        if self.is_unit:
            if ROOT.is_relative_to("/tmp") or ROOT.is_relative_to("/var/tmp"):
                pytest.skip("the unit has a /tmp of its own, which hides this checkout")
            words = sandboxed(words, writable=[self.store, os.path.dirname(self.socket)])
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.machine.command(self.uid, *words, within=self.within),
                env=self.machine.environment(self.uid, TF_MALLEABLE_TIER_SECRET=SECRET),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def is_ready() -> bool:
            said = self.log.read_bytes()[begin:].decode()
            assert process.poll() is None, said
            return "copies of" in said

        wait_for(is_ready)
        return process

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.process = self._start()

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(DEADLINE)

    def status(self) -> dict[str, Any]:
        """Return what `tfm tier status` shows."""
        code, found = ask(self.machine.path(self.control), "GET", STATUS)
        assert code == 200, found
        return dict(found)

    def counted(self, name: str) -> float:
        """Return one of its counters."""
        return float(self.status()["counters"][name])

    def is_alive(self) -> bool:
        """Return whether its sign of life, by which readers know it, is valid."""
        with open(self.machine.path(f"{self.socket}.state"), "rb") as state:
            state.seek(VALID_OFFSET)
            until = int.from_bytes(state.read(8), "little")
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) < until

    def hits(self, uid: int) -> int:
        """Return how many copies a user's jobs have opened, as they themselves have counted."""
        folder = counts_folder(self.machine.path(self.control.removesuffix(".control")))
        found: Counter[int] = Counter()
        for each in folder.iterdir():
            # The first number of Counts in protocol.h.
            found[each.stat().st_uid] += int.from_bytes(each.read_bytes()[:8], "little")
        return found[uid]

    def read_from_copy(self, uid: int, path: str, data: bytes, **more: Any) -> None:
        """Have a user read a file again and again until a copy is opened for it."""
        before = self.hits(uid)

        def read() -> None:
            assert self.machine.read(uid, path, **more) == data

        read_until(lambda: self.hits(uid) > before, read, 0.2)

    def has_open(self, path: str) -> bool:
        """Return whether the daemon holds a file of the source, which a reader has handed over."""
        wanted = self.machine.path(path)
        for each in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                if each.samefile(wanted):
                    return True
            except OSError:  # It was closed meanwhile, or is no file.
                continue
        return False


@contextmanager
def daemon(machine: Machine, *options: str, **more: Any) -> Iterator[Daemon]:
    """Have a daemon for the length of a with statement."""
    found = Daemon(machine, *options, **more)
    try:
        yield found
    finally:
        found.kill()
