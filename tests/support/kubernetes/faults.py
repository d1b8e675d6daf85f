# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What goes wrong on demand between a client and the API server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.kubernetes.authorization import Call
from tests.support.kubernetes.refusals import RefusedError

_REASONS = {
    401: "Unauthorized",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Fault:
    """One thing that goes wrong.

    Attributes:
        effect: A status to answer instead of doing what is asked; "hang" not to
            answer; "drop" to cut the connection; "lose" to do it and then cut it.
        concerns: Says which calls it is about.
        skip: How many of them go well before.
        times: How many go wrong then; None for all.
        met: How many went wrong.
    """

    effect: int | str
    concerns: Callable[[Call], bool]
    skip: int = 0
    times: int | None = 1
    met: int = field(default=0, init=False)

    def strikes(self, call: Call) -> bool:
        """Say whether a call goes wrong, and count it."""
        if not self.concerns(call) or self.met == self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.met += 1
        return True

    def refusal(self) -> RefusedError:
        """Return what is answered, if this fault is a status."""
        code = int(self.effect)
        reason = _REASONS.get(code, "InternalError")
        return RefusedError(code, reason, f"an injected {reason}", retry=1 if code == 429 else 0)


class Faults:
    """The faults of a server; none at first. Clients inside of the cluster are spared."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def inject(
        self,
        effect: int | str,
        *,
        verb: str | None = None,
        resource: str | None = None,
        user: str | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> Fault:
        """Have calls go wrong from now on, as Fault says.

        Args:
            effect: What happens.
            verb: Only calls with this verb.
            resource: Only of this resource, with its subresource after a slash.
            user: Only of this user.
            skip: How many of them go well before.
            times: How many go wrong; None for all until `clear`.
        """

        def concerns(call: Call) -> bool:
            wanted = ((verb, call.verb), (resource, call.resource), (user, call.user))
            return all(one in (None, found) for one, found in wanted)

        fault = Fault(effect, concerns, skip, times)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Have nothing go wrong any more."""
        with self._lock:
            self._faults.clear()

    def strike(self, call: Call) -> Fault | None:
        """Return the fault that a call meets, if any."""
        with self._lock:
            return next((fault for fault in self._faults if fault.strikes(call)), None)
