# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kubernetes objects that the operator creates for a job. Pure."""
