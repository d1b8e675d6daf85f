# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains Keras layers that have weights with optimizers: every_layer.py LAYERS OPTIMIZER… OUT.

It knows nothing of tf_malleable. Layers are branches of one model, as most of the time goes into
tracing; LAYERS is "all", or "few" for one of each kind of gradient.
"""

import inspect
import sys

import keras
import numpy as np

layers, optimizers, ops = keras.layers, keras.optimizers, keras.ops
EXAMPLES, WORDS, TIMES, CHANNELS = 24, 7, 4, 3
# Shapes of a branch's input: a sequence, an image, a volume, and more.
SEQUENCE, IMAGE, VOLUME, FRAMES = (4, 3), (4, 3, 1), (2, 2, 3, 1), (2, 2, 3, 1, 1)
# Each branch maps a batch to one. A key has the names of the layers, and perhaps other words.
# No bias of keys: its gradient is zero but for rounding, which some optimizers make large.
OF_NUMBERS = {
    SEQUENCE: {
        "AdditiveAttention": lambda x: layers.AdditiveAttention()([x, x]),
        "Attention": lambda x: layers.Attention(use_scale=True)([x, x]),
        "BatchNormalization": lambda x: layers.BatchNormalization()(x),
        "Bidirectional": lambda x: layers.Bidirectional(layers.GRU(2))(x),
        "Conv1D": lambda x: layers.Conv1D(2, 2)(x),
        "Conv1DTranspose": lambda x: layers.Conv1DTranspose(2, 2)(x),
        "Dense": lambda x: layers.Dense(2, activation="gelu")(x),
        "Dense constrained": lambda x: layers.Dense(
            2, kernel_regularizer="l2", bias_constraint="non_neg", activity_regularizer="l2"
        )(x),
        "Dense twice": lambda x: twice(layers.Dense(3), x),
        "DepthwiseConv1D": lambda x: layers.DepthwiseConv1D(2)(x),
        "EinsumDense": lambda x: layers.EinsumDense("abc,cd->abd", (TIMES, 2), bias_axes="d")(x),
        "GRU": lambda x: layers.GRU(2)(x),
        "GroupNormalization": lambda x: layers.GroupNormalization(1)(x),
        "GroupQueryAttention": lambda x: layers.GroupQueryAttention(2, 2, 1, use_bias=False)(x, x),
        "LSTM": lambda x: layers.LSTM(2, return_sequences=True)(x),
        "LayerNormalization": lambda x: layers.LayerNormalization()(x),
        "MultiHeadAttention": lambda x: layers.MultiHeadAttention(2, 2, use_bias=False)(x, x),
        "PReLU": lambda x: layers.PReLU("uniform")(x - 0.5),
        "RMSNormalization": lambda x: layers.RMSNormalization()(x),
        "SeparableConv1D": lambda x: layers.SeparableConv1D(2, 2)(x),
        "SimpleRNN": lambda x: layers.SimpleRNN(2)(x),
        "RNN StackedRNNCells GRUCell LSTMCell SimpleRNNCell": lambda x: layers.RNN(
            layers.StackedRNNCells([layers.GRUCell(2), layers.LSTMCell(2), layers.SimpleRNNCell(2)])
        )(x),
        "TimeDistributed": lambda x: layers.TimeDistributed(layers.Dense(2))(x),
    },
    IMAGE: {
        "Conv2D": lambda x: layers.Conv2D(2, 2)(x),
        "Conv2DTranspose": lambda x: layers.Conv2DTranspose(2, 2)(x),
        "ConvLSTM1D": lambda x: layers.ConvLSTM1D(2, 1)(x),
        "DepthwiseConv2D": lambda x: layers.DepthwiseConv2D(2)(x),
        "SeparableConv2D": lambda x: layers.SeparableConv2D(2, 2)(x),
    },
    VOLUME: {
        "Conv3D": lambda x: layers.Conv3D(2, 2)(x),
        "Conv3DTranspose": lambda x: layers.Conv3DTranspose(2, 2)(x),
        "ConvLSTM2D": lambda x: layers.ConvLSTM2D(2, 1)(x),
    },
    FRAMES: {"ConvLSTM3D": lambda x: layers.ConvLSTM3D(2, 1)(x)},
}
OF_WORDS = {
    "Embedding": lambda x: layers.Embedding(WORDS, 3)(x),
    "Embedding masked": lambda x: layers.GRU(2)(layers.Embedding(WORDS, 3, mask_zero=True)(x)),
    "Embedding regularized": lambda x: layers.Embedding(
        WORDS, 3, embeddings_regularizer="l2", embeddings_constraint="unit_norm"
    )(x),
    "Embedding twice": lambda x: sum(map(layers.Embedding(WORDS, 3), (x, (x + 1) % WORDS))),
    "Embedding of one": lambda x: layers.Embedding(WORDS, 1)(x[:, :1]),
    "ReversibleEmbedding": lambda x: layers.ReversibleEmbedding(WORDS, 3)(x),
    "ReversibleEmbedding tied": lambda x: there_and_back(x, tie_weights=True),
    "ReversibleEmbedding untied": lambda x: there_and_back(x, tie_weights=False),
}
FEW = {"Dense", "Embedding", "Embedding twice"}
# With weights, but not for training in a few lines, and why.
LEFT_OUT = {
    "FlaxLayer": "needs Flax",
    "JaxLayer": "needs JAX",
    "SpectralNormalization": "sets its kernel beside the optimizer, and is refused",
    "TFSMLayer": "needs a saved model",
    "TorchModuleWrapper": "needs PyTorch",
    "Wrapper": "is a base class",
}


def missing_layers():
    """Return Keras's layers that may have trained weights and are neither tried nor left out."""
    keys = [key for branches in (*OF_NUMBERS.values(), OF_WORDS) for key in branches]
    tried = {word for key in keys for word in key.split()}
    found = {
        cls.__name__
        for cls in vars(layers).values()
        if inspect.isclass(cls) and issubclass(cls, layers.Layer) and may_train(cls)
    }
    return found - tried - LEFT_OUT.keys()


def may_train(cls):
    """Return whether a class makes weights or has layers inside; not what comes before a model."""
    if cls is layers.Layer or ".preprocessing." in cls.__module__:
        return False
    if issubclass(cls, (layers.Wrapper, layers.RNN)):
        return True
    bases = [base for base in cls.__mro__ if base.__module__.startswith("keras.src.layers.")]
    sources = [inspect.getsource(base) for base in bases if base is not layers.Layer]
    return any("add_weight(" in source for source in sources)


def twice(layer, x):
    return layer(layer(x))


def there_and_back(x, **named):
    layer = layers.ReversibleEmbedding(WORDS, 3, **named)
    return layer(layer(x), reverse=True)


def model(names=None):
    """Return a model with all branches, or with those that are named."""
    numbers = layers.Input((TIMES * CHANNELS,))
    words = layers.Input((TIMES,), dtype="int32")
    ends = []
    for shape, branches in OF_NUMBERS.items():
        shaped = layers.Reshape(shape)(numbers)
        ends += [end(branches[name](shaped)) for name in branches if name in (names or branches)]
    ends += [end(OF_WORDS[name](words)) for name in OF_WORDS if name in (names or OF_WORDS)]
    return keras.Model([numbers, words], layers.Dense(1)(layers.Concatenate()(ends)))


def end(x):
    x = layers.Flatten()(x)
    # Not a plain sum: that of what is normalised is constant.
    return x @ np.linspace(0.5, 1.5, x.shape[-1], dtype="f4")[:, None]


def plain_optimizers():
    """Return Keras's optimizers, by their names, but those that are made of others."""
    made_of_others = (optimizers.LossScaleOptimizer, optimizers.MultiOptimizer)
    return {
        name: cls
        for name, cls in vars(optimizers).items()
        if inspect.isclass(cls)
        and issubclass(cls, optimizers.Optimizer)
        and cls not in (optimizers.Optimizer, *made_of_others)
    }


class InTurn:
    """Has each variable updated by the next one of Keras's optimizers."""

    def __init__(self, first):
        self.optimizers = [cls() for cls in plain_optimizers().values()]
        self.count = first

    def __call__(self, variable):
        self.count += 1
        return self.optimizers[self.count % len(self.optimizers)]


def named_optimizers():
    """Return makers of all of Keras's optimizers, and of all that they do to gradients."""
    adam, sgd, rmsprop = optimizers.Adam, optimizers.SGD, optimizers.RMSprop
    in_turn = {
        f"in turn from {first}": lambda first=first: optimizers.MultiOptimizer(InTurn(first))
        for first in range(len(plain_optimizers()))
    }
    return (
        plain_optimizers()
        | in_turn
        | {
            "LossScaleOptimizer": lambda: optimizers.LossScaleOptimizer(adam(), initial_scale=8.0),
            "MultiOptimizer": lambda: optimizers.MultiOptimizer(
                optimizers.OptimizerMap(adam(), {".*embedding.*": rmsprop(), ".*gru.*": sgd()})
            ),
            "Adam amsgrad": lambda: adam(amsgrad=True),
            "Adam clipnorm": lambda: adam(clipnorm=0.01),
            "Adam clipvalue": lambda: adam(clipvalue=0.01),
            "Adam global_clipnorm": lambda: adam(global_clipnorm=0.01),
            "Adam gradient_accumulation_steps": lambda: adam(gradient_accumulation_steps=2),
            "Adam loss_scale_factor": lambda: adam(loss_scale_factor=8.0),
            "Adam use_ema": lambda: adam(use_ema=True, ema_overwrite_frequency=2),
            "Adam weight_decay": lambda: adam(weight_decay=0.1),
            "RMSprop centered": lambda: rmsprop(centered=True, momentum=0.5),
            "SGD clipnorm": lambda: sgd(clipnorm=0.01),
            "SGD clipvalue": lambda: sgd(clipvalue=0.01),
            "SGD global_clipnorm": lambda: sgd(global_clipnorm=0.01),
            "SGD nesterov": lambda: sgd(momentum=0.9, nesterov=True),
        }
    )


def train(names, optimizer):
    """Return all values after three batches, or the error."""
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    numbers = random.random((EXAMPLES, TIMES * CHANNELS), "f4")
    # Few words, so that a batch has each of them many times.
    words = random.integers(0, WORDS, (EXAMPLES, TIMES))
    trained = model(names)
    trained.compile(named_optimizers()[optimizer](), "mse")
    try:
        fit = trained.fit([numbers, words], numbers.sum(1), batch_size=10, verbose=0, shuffle=False)
    except Exception as error:  # Keras cannot scale the loss of an embedding, for example.
        return {f"{optimizer}: error": type(error).__name__}
    variables = [*trained.variables, *trained.optimizer.variables]
    found = {f"{optimizer}: {n} {v.name}": v.numpy() for n, v in enumerate(variables)}
    return found | {f"{optimizer}: loss": fit.history["loss"]}


if __name__ == "__main__":
    which, *asked, out = sys.argv[1:]
    names = FEW if which == "few" else None
    np.savez(out, **{key: value for name in asked for key, value in train(names, name).items()})
