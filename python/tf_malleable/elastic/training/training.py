# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Training of this process: its mesh, its state, and its position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from tf_malleable.elastic.links.errors import COME_AGAIN, MeshError
from tf_malleable.elastic.mesh import (
    Alone,
    Mesh,
    Rescaled,
    RestoresState,
    StateHolder,
    Turn,
)
from tf_malleable.elastic.settings import TrainingSettings
from tf_malleable.elastic.training import last_resort_checkpoint, state
from tf_malleable.elastic.training.checks import RefusedError, say
from tf_malleable.elastic.training.data import example_order
from tf_malleable.elastic.training.position import Description, Logs, Place, key


class CurrentFit(Protocol):
    """What a training has to know of the call of fit() that it is in.

    Attributes:
        number: Number of the call, from 0.
        callbacks: Callbacks of the call, in Keras's order.
        first_epoch: Number of its first epoch; None before that.
        unagreed: Logs of an epoch at its end, before all members agree on them.
    """

    number: int
    callbacks: Sequence[Any]
    first_epoch: int | None
    unagreed: dict[str, Logs]

    @property
    def position(self) -> Place:
        """Current position in the training."""

    def variables(self) -> list[Any]:
        """Return all Keras variables whose values make up the state."""

    def counts(self) -> tuple[int, int] | None:
        """Return the number of batches done, and in all; None if unknown."""

    def end_training(self) -> None:
        """Remove from the model what other members do not have."""


class Training:
    """A StateHolder over all calls of fit() of this process. Not thread-safe."""

    def __init__(
        self, settings: TrainingSettings, make_mesh: Callable[[StateHolder], Mesh] | None = None
    ) -> None:
        """Create the training; the mesh is created on its first use.

        Args:
            settings: Settings of the training, the same for all members.
            make_mesh: Returns the mesh for this state, when the first fit() begins; None for
                a training without others.
        """
        self.settings = settings
        self._make_mesh = make_mesh
        self._mesh: Mesh | None = None
        self.is_alone = make_mesh is None
        self.is_lead = True
        self.step = 0
        self.fits = 0
        self.order_seed: int | None = None
        self.logs: dict[str, Logs] = {}
        self.marks: dict[str, int] = {}
        self.fit: CurrentFit | None = None
        # Turn of the step that has begun; None between steps.
        self.turn: Turn | None = None
        # Position of the others: what comes before it is not computed here. None without others.
        self.target: Description | None = None
        self._is_member = False
        self._has_left = False
        self._batches_before = 0
        self._values: list[Any] = []

    @property
    def mesh(self) -> Mesh:
        """Mesh of the training, created on its first use."""
        if self._mesh is None:
            shards = self.settings.shards
            try:
                self._mesh = self._make_mesh(self) if self._make_mesh else Alone(shards)
            except MeshError as error:
                raise RefusedError(str(error)) from None
        return self._mesh

    @property
    def shards(self) -> int:
        """Number of shards of each batch."""
        return self.mesh.shards

    @property
    def threads(self) -> int | None:
        """Number of threads inside an op; None for as many as the process may use."""
        return self.settings.threads

    def look_ahead(self) -> None:
        """Ask for the position of the others, unless this process is a member."""
        if self._is_member:
            return
        try:
            said = self.mesh.ahead()
        except Rescaled as rescaled:
            self.leave(rescaled.turn)
        except MeshError as error:
            raise RefusedError(str(error)) from None
        if said is not None:
            self._follow(Description.from_bytes(said))
        if self.order_seed is None:
            self.order_seed = example_order.new_seed()
        self.is_lead = self.target is None

    def is_behind(self, position: Place) -> bool:
        """Return whether others have already done what comes at this position."""
        return self.target is not None and position < self.target.position

    def arrive(self, fit: CurrentFit) -> None:
        """Take part from here on, with the values that have come.

        Raises:
            RefusedError: The values do not fit.
            SystemExit: No values have come although there were others.
        """
        self._is_member = True
        if self.target is None:
            return
        if not self._values:
            say("all other members are gone: what goes on, goes on from the last checkpoint")
            raise SystemExit(COME_AGAIN)
        if fit.position != self.target.position:
            if self._restored_from:
                raise RefusedError(
                    f"{self._restored_from} is the state at {self.target.position}, and this"
                    f" script is at {fit.position}; is it the same script, with the same data?"
                )
            raise RefusedError(
                f"this member is at {fit.position} where others were at {self.target.position};"
                " does its data end earlier or later than theirs?"
            )
        variables = fit.variables()
        self._check_shapes(variables, self.target)
        state.assign(variables, self._values[: len(variables)])
        kept = self._values[len(variables) :]
        state.give_back(fit.callbacks, kept, self._kept_counts())
        self._values, self.target = [], None

    def check_mark(self, epoch: int, mark: int) -> None:
        """Compare the first batch of an epoch with that of the others.

        Raises:
            RefusedError: The batches differ.
        """
        assert self.fit is not None
        known = self.marks.setdefault(key(self.fit.number, epoch), mark)
        if known != mark:
            raise RefusedError(different_data(epoch))

    def describe(self) -> bytes:
        """Return what a newcomer needs to know before it gets the values."""
        fit = self.fit
        assert fit is not None
        return Description(
            step=self.step,
            position=fit.position,
            first_epoch=fit.first_epoch or 0,
            order=self.order_seed or 0,
            logs={**fit.unagreed, **self.logs},
            marks=dict(self.marks),
            shapes=tuple(state.shape_of(variable) for variable in fit.variables()),
            kept=tuple(
                f"{number} {state.shape_of(array)}"
                for number, callback in enumerate(fit.callbacks)
                for array in state.kept_by([callback])
            ),
        ).as_bytes()

    def buffers(self) -> Sequence[memoryview]:
        """Return the bytes of all variables, then of the arrays that callbacks keep."""
        fit = self.fit
        assert fit is not None
        arrays = state.arrays(fit.variables()) + state.kept_by(fit.callbacks)
        return [state.as_bytes(array) for array in arrays]

    def batches(self) -> tuple[int | None, int | None]:
        """Return the numbers of batches done, and at the end of this fit(); None if unknown."""
        if self.fit is None:
            return self._batches_before or None, None
        here = self.fit.counts()
        if here is None:
            return None, None
        return self._batches_before + here[0], self._batches_before + here[1]

    def still_buffers(self) -> Sequence[memoryview]:
        """Return the same as buffers(): steps give variables other memory while this is held."""
        return self.buffers()

    def is_at_epoch_end(self) -> bool:
        """Return whether all batches of an epoch are done."""
        return self.fit is not None and self.fit.position.is_over

    def release(self) -> None:
        """Do nothing: a holder of the buffers keeps their memory."""

    def load(self, description: bytes, buffers: Sequence[Any]) -> None:
        """Take over the state of another member; arrive() applies it.

        Raises:
            RefusedError: The state is that of another model.
        """
        said = Description.from_bytes(description)
        assert self.fit is not None
        if said.position.fit == self.fit.number:
            self._check_shapes(self.fit.variables(), said)
        kept = [text.partition(" ")[2] for text in said.kept]
        self._values = state.from_bytes(buffers, [*said.shapes, *kept])
        self._follow(said)
        self.step = said.step

    def end_fit(self) -> None:
        """Note the end of a call of fit()."""
        if self.fit is not None:
            self._batches_before += (self.fit.counts() or (0, 0))[0]
            self.fit.end_training()
        self.fit = None
        self.fits += 1

    def leave(self, turn: Turn) -> NoReturn:
        """End this process, whose part in the training is over.

        Raises:
            SystemExit: Always, with the turn's exit code.
        """
        self._has_left = True
        if turn.last:
            fit = self.fit if self._is_member else None
            kept = turn.kept if fit else ""
            say(
                last_resort_checkpoint.save(fit.callbacks, fit.position, kept)
                if fit
                else last_resort_checkpoint.save((), None)
            )
        raise SystemExit(turn.exit_code)

    def finish(self) -> None:
        """Wait for the other members at the end of the script, unless it ended within fit()."""
        if self._mesh is None:
            return
        if self.fit is None and not self._has_left and self.fits:
            self._mesh.finish()
        if self.fit is None or self._has_left:
            self._mesh.close()

    def _check_shapes(self, variables: Sequence[Any], said: Description) -> None:
        own = tuple(state.shape_of(variable) for variable in variables)
        if own != said.shapes and self._restored_from:
            raise RefusedError(
                f"{self._restored_from} is of another model: {_difference(own, said.shapes)}; give"
                " this training a folder of its own"
            )
        if own != said.shapes:
            raise RefusedError(
                f"this member's model, of {len(own)} variables, is not that of the others, of"
                f" {len(said.shapes)}; is it the same script?"
            )

    def _follow(self, said: Description) -> None:
        self.target = said
        self.order_seed = said.order
        self.logs = dict(said.logs)
        self.marks = {**self.marks, **said.marks}

    @property
    def _restored_from(self) -> str:
        mesh = self._mesh
        return mesh.restored_from if isinstance(mesh, RestoresState) else ""

    def _kept_counts(self) -> list[int]:
        assert self.fit is not None
        assert self.target is not None
        owners = [int(text.partition(" ")[0]) for text in self.target.kept]
        return [owners.count(number) for number in range(len(self.fit.callbacks))]


def _difference(own: Sequence[str], theirs: Sequence[str]) -> str:
    if len(own) != len(theirs):
        return f"it has {len(theirs)} variables where this one has {len(own)}"
    number, one, other = next(
        (number, *pair)
        for number, pair in enumerate(zip(own, theirs, strict=True))
        if len(set(pair)) > 1
    )
    return f"its variable {number} is {other} where this one's is {one}"


def different_data(epoch: int) -> str:
    """Return the message about data that differ between members."""
    return (
        f"the first batch of epoch {epoch + 1} is not the same in all members; data must not"
        " depend on the process or on unseeded generators"
    )
