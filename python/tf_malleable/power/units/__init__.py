# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Many hosts of one organisation: budgets reach them, and what they draw comes back, by MQTT 5."""
