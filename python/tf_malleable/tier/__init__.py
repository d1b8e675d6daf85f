# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The data tier of a node: copies of training data near the reader, shared between nodes.

A process of its own: it moves gigabytes a second, which would delay a controller's grants, and
other nodes reach it by TCP.
"""
