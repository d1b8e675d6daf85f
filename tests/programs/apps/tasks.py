# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Celery application that imports TensorFlow before its worker forks, as most do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import tensorflow as tf
from celery import Celery

FOLDER = Path(os.environ["TASKS_FOLDER"])
for name in ("queue", "results"):
    (FOLDER / name).mkdir(exist_ok=True)
app = Celery("tasks", broker="filesystem://", backend=f"file://{FOLDER}/results")
app.conf.broker_transport_options = {
    "data_folder_in": f"{FOLDER}/queue",
    "data_folder_out": f"{FOLDER}/queue",
    "control_folder": f"{FOLDER}/control",
}


@app.task
def limit():
    tf.constant(1.0) + 1
    malleable = sys.modules.get("tf_malleable")
    return None if malleable is None else malleable.get_threads().intra
