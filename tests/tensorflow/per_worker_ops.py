# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ops that size a buffer by the number of threads, or index it by worker.

A count taken before a limit change and an index taken after it must still fit.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_ops as csr

Arrays = dict[str, np.ndarray]


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _whole(*shape: int, seed: int) -> tf.Tensor:
    return tf.constant(_rng(seed).integers(-3, 4, shape).astype(np.float32))


def counting() -> Callable[[], Arrays]:
    values = tf.constant(_rng(1).integers(0, 97, 300_000).astype(np.int32))
    weights = _whole(300_000, seed=2)
    rows = tf.reshape(values, (300, 1000))
    sparse_rows = tf.sparse.from_dense(rows[:, :50])

    def one_round() -> Arrays:
        unique = tf.unique_with_counts(values)
        found = {
            "bincount": tf.math.bincount(values, minlength=97),
            "weighted": tf.math.bincount(values, weights=weights, minlength=97),
            "binary": tf.math.bincount(values, minlength=97, binary_output=True),
            "by_row": tf.math.bincount(rows, minlength=97, axis=-1),
            "binary_by_row": tf.math.bincount(rows, minlength=97, axis=-1, binary_output=True),
            "sparse": tf.sparse.to_dense(tf.sparse.bincount(sparse_rows, axis=-1)),
            "segments": tf.math.unsorted_segment_sum(weights, values, 97),
            "maxima": tf.math.unsorted_segment_max(weights, values, 97),
            "unique": unique.y,
            "unique_counts": unique.count,
            "histogram": tf.histogram_fixed_width(weights, [-3.0, 3.0], 7),
        }
        return {name: np.array(value) for name, value in found.items()}

    return one_round


def sharding() -> Callable[[], Arrays]:
    image, kernel = _whole(4, 33, 33, 8, seed=3), _whole(3, 3, 8, 2, seed=4)
    full_kernel, gradient = _whole(3, 3, 8, 8, seed=5), _whole(4, 33, 33, 8, seed=6)
    wide = _whole(256, 512, seed=7)
    sparse = tf.sparse.from_dense(tf.where(wide > 1, wide, 0.0))
    boxes = tf.constant(_rng(8).random((2, 200, 1, 4), "f4"))
    scores = tf.constant(_rng(9).random((2, 200, 3), "f4"))
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "dense": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                    "ragged": tf.train.Feature(int64_list=tf.train.Int64List(value=range(i % 7))),
                }
            )
        ).SerializeToString()
        for i in range(600)
    ]
    features = {
        "dense": tf.io.FixedLenFeature([], tf.int64),
        "ragged": tf.io.VarLenFeature(tf.int64),
    }

    def one_round() -> Arrays:
        parsed = tf.io.parse_example(examples, features)
        kept = tf.image.combined_non_max_suppression(boxes, scores, 20, 40)
        pooled = tf.raw_ops.FractionalMaxPool(
            value=image, pooling_ratio=[1.0, 1.5, 1.5, 1.0], deterministic=True, seed=1, seed2=2
        )
        top = tf.nn.top_k(wide, 17)
        found = {
            "depthwise": tf.nn.depthwise_conv2d(image, kernel, [1, 1, 1, 1], "SAME"),
            "depthwise_filter": tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                input=image,
                filter_sizes=[3, 3, 8, 1],
                out_backprop=gradient,
                strides=[1, 1, 1, 1],
                padding="SAME",
            ),
            "conv_filter": tf.raw_ops.Conv2DBackpropFilter(
                input=image,
                filter_sizes=[3, 3, 8, 8],
                out_backprop=gradient,
                strides=[1, 1, 1, 1],
                padding="SAME",
            ),
            "conv_input": tf.nn.conv2d_transpose(
                gradient, full_kernel, [4, 33, 33, 8], [1, 1, 1, 1], "SAME"
            ),
            "max_pool_gradient": tf.raw_ops.MaxPoolGrad(
                orig_input=image,
                orig_output=tf.nn.max_pool2d(image, 3, 1, "SAME"),
                grad=gradient,
                ksize=[1, 3, 3, 1],
                strides=[1, 1, 1, 1],
                padding="SAME",
            ),
            "fractional_pool": pooled.output,
            "resized": tf.image.resize(image, (50, 20), method="nearest"),
            "dilated": tf.nn.dilation2d(
                image, full_kernel[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4
            ),
            "top_values": top.values,
            "top_indices": top.indices,
            "sorted": tf.sort(wide, axis=0),
            "sparse_dense": tf.sparse.sparse_dense_matmul(sparse, wide, adjoint_b=True),
            "sparse_flagged": tf.matmul(wide, wide, transpose_b=True, a_is_sparse=True),
            "batched": tf.matmul(tf.reshape(wide, (32, 64, 64)), tf.reshape(wide, (32, 64, 64))),
            "nearest": tf.raw_ops.NearestNeighbors(points=wide, centers=wide[:40], k=3)[0],
            "scattered": tf.tensor_scatter_nd_add(
                tf.zeros((50, 512)), tf.range(256)[:, None] % 50, wide
            ),
            "summed": tf.reduce_sum(wide, axis=0),
            "cumulative": tf.cumsum(wide, axis=1),
            "random": tf.random.stateless_uniform((300, 700), (1, 2)),
            "kept_boxes": kept.nmsed_boxes,
            "kept_scores": kept.nmsed_scores,
            "parsed": parsed["dense"],
            "parsed_values": parsed["ragged"].values,
        }
        return {name: np.array(value) for name, value in found.items()}

    return one_round


def sparse_csr() -> Callable[[], Arrays]:
    # Here a buffer has one row for each thread the device was started with, and
    # is written at the number of the worker.
    tall = tf.where(_whole(4000, 300, seed=10) > 1, _whole(4000, 300, seed=11), 0.0)
    matrix = csr.dense_to_csr_sparse_matrix(tall, tf.where(tall != 0))
    dense = _whole(4000, 32, seed=12)
    flat = _whole(300, 32, seed=13)

    def one_round() -> Arrays:
        return {
            "transposed": csr.sparse_matrix_mat_mul(matrix, dense, transpose_a=True).numpy(),
            "plain": csr.sparse_matrix_mat_mul(matrix, flat).numpy(),
        }

    return one_round
