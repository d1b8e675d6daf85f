# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training whose members are all gone goes on from its checkpoint, with the same bits."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import ElasticRun, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def run(tmp_path):
    with ElasticRun(tmp_path) as running:
        yield running


@pytest.fixture
def kept(run):
    return run.folder / "kept"


def files(kept):
    return sorted(kept.glob("*.checkpoint"))


def step_of(path):
    return int(path.stem.partition("-")[2])


def newest_step(kept):
    return max(map(step_of, files(kept)), default=0)


def train_some(run, *options, workers=1, until=40):
    """Train until the state of a later step is kept, twice."""
    found = [run.start_worker(*options)]
    run.wait_for_members(1)
    found += [run.start_worker(*options) for _ in range(workers - 1)]
    run.wait_for_members(workers)
    kept = run.folder / "kept"
    wait_until(lambda: [step_of(path) > until for path in files(kept)] == [True] * 2, str)
    return found


def goes_on_from(run):
    return [line.rpartition(" ")[2] for line in run.said().splitlines() if "goes on from" in line]


def test_all_killed_at_once_and_the_coordinator_too(run, kept):
    options = [f"--checkpoint={kept}", "--checkpoint-every=0.05"]
    workers = train_some(run, *options, workers=2)
    for process in (run.coordinator, *workers):
        process.kill()
    for worker in workers:
        worker.wait()
    newest = files(kept)[-1]
    run.start_coordinator()
    run.start_worker(*options)
    run.start_worker(*options)
    run.wait_for_members(2)
    assert goes_on_from(run) == [str(newest)]
    assert run.status()["step"] >= step_of(newest)
    run.finish(least=2)


def test_killed_again_and_again_while_it_writes(run, kept):
    options = [f"--checkpoint={kept}", "--checkpoint-every=0.001"]
    random = Random(int(os.environ.get("TFM_TEST_SEED", "1")))
    worker, reached = run.start_worker(*options), 0
    for _ in range(int(os.environ.get("TFM_TEST_KILLS", "2"))):
        run.wait_for_members(1)
        # Further than before, or a kill would find no later state.
        wait_until(lambda: newest_step(kept) > reached, lambda: run.said())  # noqa: B023
        time.sleep(random.uniform(0, 0.1))
        worker.kill()
        worker.wait()
        reached = newest_step(kept)
        worker = run.start_worker(*options)
    run.finish()
    assert "is not used" not in run.said()
    froms = [step_of(Path(each)) for each in goes_on_from(run)]
    assert froms == sorted(set(froms))


def test_the_newest_is_damaged(run, kept):
    options = [f"--checkpoint={kept}", "--checkpoint-every=0.05"]
    [worker] = train_some(run, *options)
    worker.kill()
    worker.wait()
    before, newest = files(kept)
    os.truncate(newest, newest.stat().st_size - 1)
    run.start_worker(*options)
    run.finish()
    assert goes_on_from(run) == [str(before)]
    assert run.said().count(f"{newest} is not used") == 1


def test_the_last_to_leave_keeps_its_very_step(run, kept):
    options = [f"--checkpoint={kept}", "--checkpoint-every=3600"]
    workers = [run.start_worker(*options)]
    run.wait_for_members(1)
    workers.append(run.start_worker(*options))
    run.wait_for_members(2)
    run.wait_for_step(30)
    for worker in workers:
        worker.terminate()
    assert [worker.wait(DEADLINE) for worker in workers] == [0, 0]
    newest = files(kept)[-1]
    [last] = [each for each in run.results() if each["kept"]]
    assert last["kept"] == str(newest)
    assert step_of(newest) == last["step"] == max(each["step"] for each in run.results()) >= 30
    run.start_pod(CHECKPOINT=str(kept))
    run.finish()
    assert goes_on_from(run) == [str(newest)]


def test_told_to_go_without_a_coordinator_the_lead_keeps_its_step(run, kept):
    worker = run.start_worker(f"--checkpoint={kept}", "--checkpoint-every=3600")
    run.wait_for_members(1)
    run.coordinator.kill()
    run.coordinator.wait()
    worker.terminate()
    assert worker.wait(DEADLINE) == 0
    [left] = run.results()
    assert left["kept"] == str(files(kept)[-1])
    assert step_of(files(kept)[-1]) == left["step"] > 0


def test_where_nothing_can_be_written_the_training_goes_on(run):
    run.start_worker("--checkpoint=/proc/kept", "--checkpoint-every=0.01")
    run.wait_for_step(30)
    run.finish()
    assert run.said().count("cannot keep the state in /proc/kept") == 1


def test_the_checkpoint_of_another_training_is_refused(run, kept):
    options = [f"--checkpoint={kept}", "--checkpoint-every=0.05"]
    [worker] = train_some(run, *options, "--seed=1", until=5)
    worker.kill()
    worker.wait()
    assert run.start_worker(*options, "--seed=2").wait(DEADLINE) == 1
    assert f"{files(kept)[-1]} is of a training with the seed 1, and this one has 2" in run.said()
    run.workers.clear()
    run.start_worker(*options)  # It takes the seed from the checkpoint.
    run.finish()
