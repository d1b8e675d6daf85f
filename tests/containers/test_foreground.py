# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What `tfm container run` does where a real engine would have to be met within a millisecond."""

from __future__ import annotations

import threading

import pytest

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.containers.container_creation import Recipe
from tf_malleable.containers.foreground import ContainerJob
from tf_malleable.containers.labels import Labels


class RestartedEngine:
    """Says that its container runs, which has ended by the time that anybody waits for it."""

    def __init__(self):
        self._states = [{"Running": True, "Status": "running", "ExitCode": 0}]

    def inspect(self, container):
        ended = {"Running": False, "Status": "exited", "ExitCode": 3}
        state = self._states.pop() if self._states else ended
        return {"State": {"StartedAt": "2026-01-01T00:00:00Z", "Error": "", **state}}

    def await_end(self, container):
        return threading.Event().wait

    def attach(self, container):
        threading.Event().wait()  # As an engine does until the container is started again.
        yield None, None


@pytest.mark.timeout(30)
def test_a_container_that_ends_while_it_is_attached_again_has_ended(tmp_path):
    labels = Labels(JobRequest("one"), socket=str(tmp_path / "socket"), user=0)
    recipe = Recipe(image="none", command=(), labels=labels)
    job = ContainerJob(recipe, removed=False, notices=None, say=print)
    job._engine = RestartedEngine()
    over = threading.Thread(target=str)
    over.start()
    over.join()
    assert job._ended(over) == 3
