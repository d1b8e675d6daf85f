# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The Kubernetes operator: how many workers a training has, where, and with how many CPUs."""
