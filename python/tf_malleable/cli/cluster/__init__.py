# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm cluster: installs the operator in a Kubernetes cluster, and shows what it does."""
