# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which jobs a file plans, and when they arrive."""

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.workload.plan import PlannedJob, read_workload


def test_a_line_is_an_arrival_and_what_follows_tfm_run(tmp_path):
    file = tmp_path / "mix.txt"
    file.write_text(
        "# second  what\n"
        "2.5   --name big --min 2 --preferred 3 --max 4 --priority -5 --weight 2 ./big 'a b' -x\n"
        "\n"
        "0     python3 train.py --epochs 3   # the first\n"
        "1e0   --no-queue -- python3 -m pkg.mod\n"
        "3     --mem 4G --gpus 2 ./gpu\n"
    )
    assert read_workload(file) == [
        PlannedJob(0.0, JobRequest("train.py", ("python3", "train.py", "--epochs", "3"))),
        PlannedJob(1.0, JobRequest("pkg.mod", ("python3", "-m", "pkg.mod")), queue=False),
        PlannedJob(2.5, JobRequest("big", ("./big", "a b", "-x"), 2, 3, 4, -5, 2.0)),
        PlannedJob(3.0, JobRequest("gpu", ("./gpu",), mem=4 << 30, gpus=2)),
    ]


def test_memory_and_gpus_reach_tfm_run():
    job = PlannedJob(0.0, JobRequest("gpu", ("./gpu",), mem=4 << 30, gpus=2))
    assert {"--mem=4294967296", "--gpus=2"} <= set(job.arguments)
    without = PlannedJob(0.0, JobRequest("gpu", ("./gpu",))).arguments
    assert not [each for each in without if each.startswith(("--mem", "--gpus"))]
