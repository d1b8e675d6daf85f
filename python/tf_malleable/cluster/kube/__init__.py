# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Access to the Kubernetes API: client, kubeconfig, informer, leader election, objects."""
