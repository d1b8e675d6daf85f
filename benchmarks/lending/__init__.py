# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lending: what an owner waits for its cores, and what a job keeps beside other programs."""
