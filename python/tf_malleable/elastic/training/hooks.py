# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Hooks that put a training between Keras's fit() and the model; the script needs no callback."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, TFEpochIterator
from keras.src.callbacks.callback_list import CallbackList
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from tf_malleable.elastic.training import lead_only
from tf_malleable.elastic.training.checks import RefusedError, say
from tf_malleable.elastic.training.data import input_pipeline
from tf_malleable.elastic.training.fit import Fit
from tf_malleable.elastic.training.training import Training
from tf_malleable.runtime import library, limits


class Hooks:
    """Functions that replace those of Keras."""

    def __init__(self, training: Training) -> None:
        """Replace the functions for a training."""
        self._training = training
        for owner, name, hook in (
            (TensorFlowTrainer, "fit", self._fit),
            (TensorFlowTrainer, "make_train_function", self._make_train_function),
            (TensorFlowTrainer, "evaluate", self._evaluate),
            (TFEpochIterator, "__init__", self._make_iterator),
            (TFEpochIterator, "_enumerate_iterator", self._batches),
            (TFEpochIterator, "_get_iterator", self._begin_pass),
            (PyDatasetAdapter, "_finite_generator", self._batches_of_py_dataset),
            (CallbackList, "on_train_begin", self._begin_training),
            (CallbackList, "on_epoch_begin", self._begin_epoch),
            (CallbackList, "on_epoch_end", self._end_epoch),
        ):
            self._replace(owner, name, hook)
        for owner, name, make in lead_only.HOOKS:
            self._replace(owner, name, functools.partial(make, training))

    @property
    def _running_fit(self) -> Fit | None:
        """The call of fit() that the training is in; None between calls."""
        fit = self._training.fit
        assert fit is None or isinstance(fit, Fit)
        return fit

    def _fit(self, original: Callable[..., Any], model: Any, *args: Any, **named: Any) -> Any:
        """Train as a member, unless this is a fit() within another one."""
        training = self._training
        if training.fit is not None:
            return original(model, *args, **named)
        training.fit = Fit(training, model)
        # The train function of an earlier fit() belongs to that fit().
        model.train_function = None
        try:
            with fixed(training.threads):
                history = original(model, *args, **named)
        except Exception:  # Not an exit: the process then stays within fit() to its end.
            training.end_fit()
            raise
        training.end_fit()
        return history

    def _make_train_function(
        self,
        original: Callable[..., Any],
        model: Any,
        force: bool = False,
    ) -> None:
        """Make fit() take the steps of the elastic training."""
        fit = self._running_fit
        if fit is None:
            raise RefusedError("only fit() can be elastic, not train_on_batch()")
        if fit.model is model:
            model.train_function = fit.train
        else:
            original(model, force)

    def _evaluate(self, original: Callable[..., Any], model: Any, *args: Any, **named: Any) -> Any:
        """Defer fit()'s validation until it is known which member runs it."""
        fit = self._running_fit
        is_of_fit = named.get("_use_cached_eval_dataset", False)
        if fit is None or fit.model is not model or not is_of_fit:
            return original(model, *args, **named)
        fit.validation = functools.partial(original, model, *args, **named)
        return {}

    def _make_iterator(
        self, original: Callable[..., Any], epochs: Any, *args: Any, **named: Any
    ) -> None:
        fit = self._running_fit
        if fit is not None and fit.epochs is None:
            fit.epochs = epochs
            with fit.order.instead_of_tensorflow():
                original(epochs, *args, **named)
        else:
            original(epochs, *args, **named)
        if fit is not None:
            # Also the dataset of validation, which one member draws while the others wait.
            epochs._distributed_dataset = input_pipeline.prompt(epochs._distributed_dataset)

    def _batches(self, original: Callable[..., Any], epochs: Any) -> Iterator[Any]:
        fit = self._running_fit
        inner: Iterator[Any] = original(epochs)
        return inner if fit is None or fit.epochs is not epochs else fit.batches(epochs, inner)

    def _begin_pass(self, original: Callable[..., Any], epochs: Any) -> Any:
        fit = self._running_fit
        if fit is not None and fit.epochs is epochs:
            fit.begin_pass(is_epoch=epochs.steps_per_epoch is None)
        return original(epochs)

    def _batches_of_py_dataset(self, original: Callable[..., Any], adapter: Any) -> Iterator[Any]:
        fit = self._running_fit
        if fit is None or fit.epochs is None or fit.epochs.data_adapter is not adapter:
            return iter(original(adapter))
        indices = list(range(adapter.py_dataset.num_batches))
        if adapter.shuffle:
            indices = fit.shuffled(indices)
        return (adapter._standardize_batch(adapter.py_dataset[index]) for index in indices)

    def _begin_training(
        self, original: Callable[..., Any], callbacks: Any, logs: Any = None
    ) -> None:
        """Let callbacks begin, and then set the first epoch."""
        fit = self._running_fit
        original(callbacks, logs)
        if fit is not None and callbacks.model is fit.model:
            fit.begin_training(callbacks.callbacks)

    def _begin_epoch(
        self, original: Callable[..., Any], callbacks: Any, epoch: int, logs: Any = None
    ) -> None:
        """Note the epoch."""
        fit = self._running_fit
        if fit is not None and callbacks.model is fit.model:
            fit.begin_epoch(epoch)
        original(callbacks, epoch, logs)

    def _end_epoch(
        self, original: Callable[..., Any], callbacks: Any, epoch: int, logs: Any = None
    ) -> None:
        """Give callbacks the logs that the callbacks of all members get."""
        fit = self._running_fit
        if fit is not None and callbacks.model is fit.model:
            fit.end_epoch(logs)
        original(callbacks, epoch, logs)

    def _replace(self, owner: type, name: str, hook: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def hooked(self: Any, *args: Any, **named: Any) -> Any:
            return hook(original, self, *args, **named)

        setattr(owner, name, hooked)


@contextmanager
def fixed(threads: int | None) -> Iterator[None]:
    """Fix the number of threads inside each op meanwhile, whatever the process may use.

    The number of ops that run in parallel stays what the process may use. So grants, cgroups and
    set_threads() decide how many shards run in parallel.

    Args:
        threads: Number of threads inside each op; None changes nothing.
    """
    if threads is None:
        yield
        return
    if library.backend() is None:
        say(
            "TensorFlow is not malleable here, so that results may depend in their last bits on"
            " how many threads a member has"
        )
        yield
        return
    override = limits.fix_intra(threads)
    try:
        yield
    finally:
        override.end()
