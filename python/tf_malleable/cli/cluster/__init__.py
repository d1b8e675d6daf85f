# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command group tfm cluster: installs the operator in a Kubernetes cluster and shows its work."""
