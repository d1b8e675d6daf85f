# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A fake controller for each test that wants one."""

from tests.support.fixtures import fake as fake
