# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One call of fit() as a member of an elastic training.

Keras's own loop runs in each member. What others did before this member joined is passed over:
its batches are drawn but not trained on, and its epochs' logs are those that the others have
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tf_malleable.elastic.allreduce.reduction_tree import combine
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.mesh import Rescaled, Turn
from tf_malleable.elastic.training import state
from tf_malleable.elastic.training.checks import RefusedError, check_model
from tf_malleable.elastic.training.data import epoch_logs, input_pipeline
from tf_malleable.elastic.training.data.example_order import ExampleOrder, shuffled
from tf_malleable.elastic.training.position import Logs, Place, key
from tf_malleable.elastic.training.step import Step, fingerprint
from tf_malleable.elastic.training.training import Training, different_data

Validation = Callable[[], Logs]

_STEP: Final = "_tf_malleable_step"


class Fit:
    """One call of fit(), whose methods are called by the hooks in Keras."""

    def __init__(self, training: Training, model: Any) -> None:
        """Create the member's side of one call of fit().

        Args:
            training: Training of this process.
            model: A compiled Keras model.

        Raises:
            RefusedError: The model cannot be trained elastically.
        """
        check_model(model)
        self.number = training.fits
        self.model = model
        self.callbacks: Sequence[Any] = ()
        self.first_epoch: int | None = None
        self.epochs: Any = None
        self.validation: Validation | None = None
        self.unagreed: dict[str, Logs] = {}
        self._training = training
        self._epoch, self._batch, self._is_over = 0, 0, False
        self._step: Step | None = None
        self._passes = self._pass = 0
        self._has_set_epoch = False
        training.look_ahead()
        self.order = ExampleOrder(training.order_seed or 0)

    @property
    def position(self) -> Place:
        """Current position in the training."""
        return Place(self.number, self._epoch, self._is_over, self._batch)

    @property
    def is_passing_over(self) -> bool:
        """True while this member passes over what others have already done."""
        return self._training.is_behind(self.position)

    def variables(self) -> list[Any]:
        """Return all Keras variables whose values make up the state."""
        return state.variables(self.model, self._traced.changes.counts)

    def begin_training(self, callbacks: Sequence[Any]) -> None:
        """Note the callbacks; begin with the epoch with which the others began."""
        self.callbacks = callbacks
        target = self._training.target
        if target is not None:
            known = [
                int(at.split("/")[1]) for at in target.logs if at.startswith(f"{self.number}/")
            ]
            is_this = target.position.fit == self.number
            first = target.first_epoch if is_this else min(known, default=0)
            self.model._initial_epoch = first or None
            self._has_set_epoch = True

    def counts(self) -> tuple[int, int] | None:
        """Return the number of batches done, and in all; None if unknown."""
        params = self.callbacks[0].params if self.callbacks else None
        steps, epochs = ((params or {}).get(name) for name in ("steps", "epochs"))
        if not steps or not epochs:
            return None
        return self._epoch * steps + (steps if self._is_over else self._batch), epochs * steps

    def end_training(self) -> None:
        """Remove from the model what other members do not have."""
        if self._has_set_epoch:
            self.model._initial_epoch = None

    def begin_epoch(self, epoch: int) -> None:
        """Note the beginning of an epoch."""
        if self.first_epoch is None:
            self.first_epoch = epoch
        self._epoch, self._batch, self._is_over = epoch, 0, False

    def begin_pass(self, is_epoch: bool) -> None:
        """Set the order of examples for a new iterator.

        Args:
            is_epoch: True if the iterator is for one epoch; otherwise it continues until its data
                end.
        """
        self._passes += 1
        self._pass = self._epoch if is_epoch else self._passes
        self.order.begin(self._training.order_seed or 0, self._pass)

    def shuffled(self, indices: list[int]) -> list[int]:
        """Return the order of a PyDataset's batches in this pass."""
        return shuffled(self._training.order_seed or 0, self._pass, indices)

    def batches(self, epochs: Any, inner: Iterator[Any]) -> Iterator[Any]:
        """Yield what Keras's iterator yields, except what others have already trained on.

        Args:
            epochs: Keras's TFEpochIterator of this fit().
            inner: Original iterator of Keras.
        """
        if self._step is None:
            self._prepare(epochs)
        if self._can_jump(epochs):
            epochs.data_adapter.on_epoch_begin()
            epochs.data_adapter.on_epoch_end()
            return
        stride = self.model.steps_per_execution
        for begin, end, iterator in inner:
            after = self.position._replace(batch=self._batch + stride - 1)
            if self._training.is_behind(after):
                self._pass_over(iterator, stride)
            else:
                yield begin, end, iterator

    def train(self, iterator: Any) -> Any:
        """Take the steps of one execution with the next batches; return the last one's logs."""
        logs: Any = {}
        for number in range(self.model.steps_per_execution):
            try:
                logs = self._train(iterator)
            except tf.errors.OutOfRangeError:
                if not number:
                    raise
                break
        return logs

    def end_epoch(self, logs: Logs) -> None:
        """Replace an epoch's logs by those that all members see, including those of validation."""
        self._is_over, self._batch = True, 0
        validation, self.validation = self.validation, None
        training, here = self._training, key(self.number, self._epoch)
        self.unagreed = {here: epoch_logs.plain(logs)}
        if not self.is_passing_over:
            turn = self._begin()
        if self.is_passing_over:
            logs.clear()
            logs.update(training.logs.get(here, {}))
            assert training.target is not None
            is_earlier = training.target.position.fit > self.number
            if is_earlier and key(self.number, self._epoch + 1) not in training.logs:
                self.model.stop_training = True
            return
        self._arrive()
        # If the state came at this very position, the member that had it has seen the batches.
        said = self._agree(turn, training.logs.get(here, logs), validation)
        self.unagreed = {}
        logs.clear()
        logs.update(said)
        training.logs[here] = dict(said)
        self._end()

    @property
    def _traced(self) -> Step:
        assert self._step is not None
        return self._step

    def _prepare(self, epochs: Any) -> None:
        spec = epochs._distributed_dataset.element_spec
        self._step = _step_of(self.model, self._training.shards, spec)
        if self._training.target is not None:
            before = [array.copy() for array in state.arrays(self.variables())]
            batch = input_pipeline.zeros(spec, epochs.data_adapter.batch_size)
            if batch is not None:
                self._step.warm_up(batch)
            state.assign(self.variables(), before)
            self._training.look_ahead()

    def _can_jump(self, epochs: Any) -> bool:
        """Return whether this epoch's batches need not even be drawn."""
        from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

        is_random_access = isinstance(epochs.data_adapter, ArrayDataAdapter)
        end = self.position._replace(is_over=True)
        return (
            is_random_access
            and epochs.steps_per_epoch is None
            and (self._training.is_behind(end) or self._is_exactly_at(end))
        )

    def _is_exactly_at(self, position: Place) -> bool:
        target = self._training.target
        return target is not None and target.position == position

    def _pass_over(self, iterator: Any, batches: int = 1) -> None:
        for number in range(batches):
            try:
                data = iterator.get_next()
            except tf.errors.OutOfRangeError:
                if not number:
                    raise
                return
            if self._batch == 0:
                self._training.check_mark(self._epoch, fingerprint(data))
            self._batch += 1

    def _train(self, iterator: Any) -> Any:
        if self.is_passing_over:
            self._pass_over(iterator)
            return {}
        turn = self._begin()
        if self.is_passing_over:  # The state that came is that of a later step.
            self._pass_over(iterator)
            return {}
        training, step = self._training, self._traced
        self._arrive()
        if self._batch == 0:
            step.set_seeds(self.number, self._epoch)
        is_first = self._batch == 0 and not training.is_alone
        if turn.is_only and not is_first:
            logs = step.whole(iterator)
        else:
            data = iterator.get_next()
            mark = fingerprint(data) if is_first else 0
            if is_first:
                training.check_mark(self._epoch, mark)
            logs = step.apply(self._sum(turn, data, mark))
        self._batch += 1
        self._end()
        return logs

    def _sum(self, turn: Turn, data: Any, mark: int) -> Any:
        step = self._traced

        def parts(turn: Turn) -> Any:
            nonlocal mark
            # Also if the step was begun in the generation before.
            if turn.is_first:
                mark = mark or fingerprint(data)
            return step.parts(data, turn.start, turn.stop, mark)

        total = self._reduce(turn, parts)
        if mark and not step.agrees(total, mark):
            raise RefusedError(different_data(self._epoch))
        return total

    def _agree(self, turn: Turn, logs: Logs, validation: Validation | None) -> Logs:
        """Return the logs of the member that has shard 0."""
        own: list[Logs] = []

        def parts(turn: Turn) -> Any:
            if turn.start == 0 < turn.stop and not own:
                found = validation() if validation is not None else {}
                validated = {f"val_{name}": value for name, value in found.items()}
                own.append(epoch_logs.plain({**logs, **validated}))
            said = (
                epoch_logs.as_words(own[0])
                if turn.start == 0 < turn.stop
                else epoch_logs.as_words(None)
            )
            return epoch_logs.as_parts(self._training.shards, turn, said)

        return epoch_logs.from_words(self._reduce(turn, parts))

    def _reduce(self, turn: Turn, parts: Callable[[Turn], Any]) -> Any:
        """Return the sum of all members' parts, even if the members change meanwhile."""
        while True:
            found = parts(turn)
            if turn.is_only:
                return combine(self._training.shards, found, np.add)
            try:
                return self._training.mesh.reduce(self._training.step, found)
            except Rescaled as rescaled:
                turn = self._follow(rescaled.turn)
            except MeshError as error:
                raise RefusedError(str(error)) from None

    def _begin(self) -> Turn:
        """Begin a step, unless one was begun that found no data."""
        training = self._training
        if training.turn is None:
            training.turn = self._follow(training.mesh.begin(training.step))
        return training.turn

    def _follow(self, turn: Turn) -> Turn:
        if turn.must_end:
            self._training.leave(turn)
        self._training.is_lead = turn.is_lead
        return turn

    def _arrive(self) -> None:
        self._training.arrive(self)

    def _end(self) -> None:
        training = self._training
        training.turn = None
        ended = training.step
        training.step += 1
        training.mesh.end(ended)


def _step_of(model: Any, shards: int, spec: Any) -> Step:
    """Return the model's step, traced once for each compile() and kind of data."""
    known = vars(model).get(_STEP)
    made_for = (model._compile_config, shards, spec)
    if known is not None and known[0][0] is made_for[0] and known[0][1:] == made_for[1:]:
        step: Step = known[1]
        return step
    step = Step(model, shards, spec)
    # Not by setattr, which Keras watches.
    vars(model)[_STEP] = (made_for, step)
    return step
