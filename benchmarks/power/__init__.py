# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whether budgets are kept, what metering costs, and how many units a broker carries."""
