# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Newcomer: a process that joins a training, finds the members and gets their state."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.member import state_client
from tf_malleable.elastic.member.coordinator_client import Message
from tf_malleable.elastic.member.process import LOOK_SECONDS, MeshProcess
from tf_malleable.elastic.member.state_client import ReceivedState, StateDownload


@dataclass(frozen=True)
class JoinOutlook:
    """The coordinator's answer to a newcomer.

    Attributes:
        is_first: True if the newcomer is the first process of the training.
        generation: Generation whose members have the state; None if there is none.
    """

    is_first: bool
    generation: Generation | None


class Newcomer:
    """The part of a member that is needed until it has the state."""

    def __init__(self, process: MeshProcess) -> None:
        """Create the newcomer.

        Args:
            process: This process.
        """
        self._process = process
        self._secret = process.settings.secret
        self._outlook: JoinOutlook | None = None
        # Generation whose state could not be had; 0 if there is none.
        self._failed = 0
        self._download: StateDownload | None = None

    def look(self) -> JoinOutlook | None:
        """Ask the coordinator; None if it does not answer soon. The caller holds `changed`."""
        self._outlook = None
        self._process.send("look")
        self._process.changed.wait_for(
            lambda: self._outlook is not None or self._process.ending.is_near, LOOK_SECONDS
        )
        return self._outlook

    def heard(self, message: Message) -> None:
        """Note the coordinator's answer. The caller holds `changed`, and notifies of the change."""
        generation = message["generation"]
        known = None if generation is None else Generation.from_json(generation)
        self._outlook = JoinOutlook(bool(message["first"]), known)

    def describe(self, generation: Generation | None) -> bytes | None:
        """Return a member's description of its state; None if no member answers soon."""
        for member in () if generation is None else generation.members:
            said = state_client.fetch_description(member, self._secret)
            if said is not None:
                return said
        return None

    def next_download(self) -> StateDownload | None:
        """Return the download that is due; None if there is none. The caller holds `changed`."""
        number = self._process.proposed
        generation = self._process.rendezvous.generation(number)
        if generation is None or number == self._failed:
            return None
        source = dict(generation.sources).get(self._process.id)
        if source is None or not self._process.rendezvous.is_prepared(number):
            return None
        member = generation.member(source)
        assert member is not None
        self._download = StateDownload(generation, member)
        return self._download

    def receive(self, download: StateDownload) -> ReceivedState | None:
        """Return the state; if it cannot be had, report that, and return None."""
        received = download.receive(self._secret)
        if received is None:
            with self._process.changed:
                if not download.is_cancelled:
                    number = self._failed = download.generation.number
                    self._process.send("broken", number=number, lost=(download.source.id,))
        return received

    def cancel(self) -> None:
        """Give up a download, and forget earlier failures. The caller holds `changed`."""
        self._failed = 0
        if self._download is not None:
            self._download.cancel()
