# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Peers: membership, directory of copies, and fetching of copies from other nodes."""
