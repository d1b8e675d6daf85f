# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Units of an organisation: hosts that receive budgets and report their power, by MQTT 5."""
