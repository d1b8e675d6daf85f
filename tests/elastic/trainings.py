# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains a small Keras model and knows nothing of tf_malleable: trainings.py NAME OUT."""

import sys

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
random = np.random.default_rng(0)
EXAMPLES = 200
# Keras shuffles arrays with a generator of its own, which is no comparison.
SHUFFLE = "ordered" not in sys.argv


def images():
    return random.random((EXAMPLES, 12, 12, 1), "f4"), random.integers(0, 4, EXAMPLES)


def vectors():
    x = random.random((EXAMPLES, 8), "f4")
    return x, (x.sum(1, keepdims=True) > 4).astype("f4")


def cnn(**compiled):
    model = keras.Sequential(
        [
            layers.Input((12, 12, 1)),
            layers.RandomTranslation(0.1, 0.1),
            layers.RandomRotation(0.1),
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(16, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(**{"optimizer": "adam", "loss": loss, "metrics": ["accuracy"], **compiled})
    return model


def lstm():
    model = keras.Sequential(
        [
            layers.Input((12, 12)),
            layers.LSTM(8, dropout=0.2, recurrent_dropout=0.2),
            layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def mlp(cls=keras.Model, **compiled):
    inputs = layers.Input((8,))
    x = layers.Dense(16, activation="relu", kernel_regularizer="l2")(inputs)
    x = layers.Dropout(0.2)(layers.BatchNormalization()(x))
    model = cls(inputs, layers.Dense(1, activation="sigmoid")(x))
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.9)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.9, global_clipnorm=0.5)
    model.compile(
        **{
            "optimizer": optimizer,
            "loss": "binary_crossentropy",
            "metrics": ["accuracy", "auc"],
            **compiled,
        }
    )
    return model


class OwnStep(keras.Model):
    """As in Keras's guide to custom train steps."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = tf.reduce_mean(keras.losses.binary_crossentropy(y, y_pred))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {"norm": tf.linalg.global_norm(gradients), **self.get_metrics_result()}


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return 7

    def __getitem__(self, index):
        return self.x[index * 30 : index * 30 + 30], self.y[index * 30 : index * 30 + 30]


def train_cnn():
    x, y = images()
    model = cnn()
    return model, model.fit(
        x, y, batch_size=32, epochs=3, verbose=0, validation_split=0.2, shuffle=SHUFFLE
    )


def train_threads():
    """As cnn, but its process gets more and fewer threads meanwhile."""
    import tf_malleable

    class Vary(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            tf_malleable.set_threads(1 + batch % 2)

    x, y = images()
    model = cnn()
    return model, model.fit(
        x, y, batch_size=32, epochs=3, verbose=0, validation_split=0.2, callbacks=[Vary()]
    )


def train_sparse():
    x, y = vectors()
    sparse = tf.sparse.from_dense(np.where(x > 0.5, x, 0))
    data = tf.data.Dataset.from_tensor_slices((sparse, y)).batch(32)
    inputs = layers.Input((8,), sparse=True)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(inputs))
    model.compile("adam", "binary_crossentropy")
    return model, model.fit(data, epochs=3, verbose=0)


def train_ragged():
    _, y = vectors()
    words = tf.RaggedTensor.from_row_lengths(np.arange(600) % 50, [1, 2, 3, 4, 5] * 40)
    data = tf.data.Dataset.from_tensor_slices((words, y)).batch(32)
    inputs = layers.Input((None,), ragged=True, dtype="int32")
    embedded = layers.Embedding(50, 4)(inputs)
    mean = layers.Lambda(lambda value: tf.reduce_mean(value, 1), output_shape=(4,))(embedded)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(mean))
    model.compile("adam", "binary_crossentropy")
    return model, model.fit(data, epochs=3, verbose=0)


def train_words():
    """Sparse gradients, with each word many times in a batch; the last batch has two examples."""
    _, y = vectors()
    words = random.integers(0, 20, (EXAMPLES, 5))
    inputs = layers.Input((5,), dtype="int32")
    embedding = layers.Embedding(20, 3, embeddings_constraint="non_neg")
    both = layers.Concatenate()([embedding(inputs), layers.Embedding(20, 1)(inputs)])
    mean = layers.GlobalAveragePooling1D()(layers.Add()([both, layers.Dense(4)(both)]))
    again = layers.Flatten()(embedding(inputs[:, :1]))
    ends = layers.Concatenate()([mean, again])
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(ends))
    optimizer = keras.optimizers.Adam(0.01, clipnorm=0.1)
    model.compile(optimizer, "binary_crossentropy", jit_compile="xla" in sys.argv)
    return model, model.fit(words, y, batch_size=33, epochs=3, verbose=0, shuffle=SHUFFLE)


def train_lstm():
    x, y = images()
    data = tf.data.Dataset.from_tensor_slices((x[..., 0], y)).shuffle(64).batch(32)
    model = lstm()
    return model, model.fit(data.repeat(), steps_per_epoch=6, epochs=3, verbose=0)


def train_mlp():
    x, y = vectors()
    model = mlp()
    # Not before the last epoch, so that the number of steps is known.
    stop = keras.callbacks.EarlyStopping(
        "val_loss", patience=1, restore_best_weights=True, start_from_epoch=2
    )
    plateau = keras.callbacks.TerminateOnNaN()
    fit = model.fit(
        Batches(x, y),
        epochs=4,
        verbose=0,
        validation_data=(x, y),
        callbacks=[stop, plateau],
        shuffle=SHUFFLE,
    )
    return model, fit


def train_weighted():
    x, y = vectors()
    model = mlp(optimizer=keras.optimizers.Adam(0.01, clipnorm=0.1), weighted_metrics=["mse"])
    return model, model.fit(
        x, y, batch_size=32, epochs=3, verbose=0, class_weight={0: 1.0, 1: 3.0}, shuffle=SHUFFLE
    )


def train_mixed():
    keras.mixed_precision.set_global_policy("mixed_float16")
    x, y = vectors()
    model = mlp(optimizer="adam")
    return model, model.fit(x, y, batch_size=32, epochs=3, verbose=0)


def train_xla():
    x, y = vectors()
    model = mlp(jit_compile=True)
    return model, model.fit(x[:192], y[:192], batch_size=32, epochs=3, verbose=0)


def train_own():
    x, y = vectors()
    model = mlp(OwnStep)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(32)
    return model, model.fit(data, epochs=3, verbose=0)


def train_unseeded():
    x, y = vectors()
    x += np.random.default_rng().random(x.shape, "f4")
    model = mlp()
    return model, model.fit(x, y, batch_size=32, epochs=3, verbose=0)


def train_several():
    x, y = vectors()
    model = mlp(steps_per_execution=3)
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    model.layers[1].trainable = False
    model.compile("adam", "binary_crossentropy")
    return model, model.fit(x, y, batch_size=32, epochs=2, verbose=0)


if __name__ == "__main__":
    if not SHUFFLE:
        keras.utils.set_random_seed(1)
    model, history = globals()[f"train_{sys.argv[1]}"]()
    values = [*model.variables, *model.optimizer.variables]
    arrays = {f"{number} {v.path}": v.numpy() for number, v in enumerate(values)}
    logs = {f"log {name}": value for name, value in history.history.items()}
    np.savez(sys.argv[-1], **arrays, **logs)
