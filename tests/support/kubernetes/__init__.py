# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Kubernetes cluster for tests: little of one, but strict in it.

From the ground up: `store` keeps objects and their changes; `schema` and `rules`,
`pods`, `metadata`, `custom` say what an object may be; `kinds` gathers that;
`authorization`, `admission` and `quotas` say who may write it; `api` has the verbs,
`watching` the watches, `server` the HTTP with its `faults`. Around these are the
parts of a cluster, each a loop: `scheduler`, `garbage`, `lifecycle`, `proxy`, and `kubelet`,
whose pods are real processes. `cluster` starts it all, and `python -m tests.support.kubernetes`
as a program of its own.
"""
