# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Many jobs at given times: the plan, the run, what came of it."""
