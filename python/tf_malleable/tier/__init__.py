# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Data tier of a node: copies of training data on local disk, shared between nodes.

The tier is a separate process: it moves gigabytes per second, which would delay a controller's
grants, and other nodes reach it by TCP.
"""
