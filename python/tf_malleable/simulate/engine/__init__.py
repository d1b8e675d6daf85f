# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Engine: simulated hosts and jobs, and the clock that they share."""
