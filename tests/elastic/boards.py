# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Prints which epochs TensorBoard has been told of, as JSON: boards.py FOLDER."""

import json
import sys
from pathlib import Path

import tensorflow as tf

found = {}
for path in sorted(Path(sys.argv[1]).rglob("events.out.*")):
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            if value.tag == "epoch_loss":
                loss = float(tf.make_ndarray(value.tensor))
                found.setdefault(path.parent.name, []).append([event.step, loss])
print(json.dumps(found))
