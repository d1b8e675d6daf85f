# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Control of TensorFlow's threads in this process."""
