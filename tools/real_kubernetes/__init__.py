# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The parts of real_cluster.py: a control plane and nodes, each node as if it were a machine.

The control plane and the command run in one network namespace, in 10.97.0.0/24. A node has a PID,
a mount and a network namespace of its own, so that killing its first process is what cutting its
power is. When the command ends, so do all namespaces, and with them processes, mounts and network.
"""
