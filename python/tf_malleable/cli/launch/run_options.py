# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Options of tfm run: their description, and their values.

Without click, as `tfm run` reads ordinary command lines before that could be loaded.
"""

from __future__ import annotations

from tf_malleable.quick_dataclass import dataclass
from tf_malleable.workload.job_options import GPUS, JOB_OPTIONS, CommandOption

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

    from tf_malleable.cli.launch.arrays import Array

OPTIONS: Final = (
    CommandOption(
        "threads",
        "Start with this limit, both intra-op and inter-op, without a controller.",
        "int",
        "N",
    ),
    CommandOption(
        "follow-cgroup",
        "Keep the limits equal to the CPUs of the cgroup.  [default: in a container]",
        "switch",
    ),
    *JOB_OPTIONS,
    GPUS,
    CommandOption("name", "Name of the job.  [default: the program]", "text", "NAME"),
    CommandOption(
        "group",
        "Group of your jobs, which tfm cancel, wait and others take as --group NAME.",
        "text",
        "NAME",
    ),
    CommandOption(
        "queue",
        "Wait if too few cores are free, or fail.  [default: --queue]",
        "switch",
        default=True,
    ),
    CommandOption("id-file", "Write the job's id to FILE.", "path", "FILE"),
    CommandOption("require-controller", "Fail if no controller answers, rather than run alone."),
    CommandOption(
        "start-controller",
        "Start a controller in the background if none answers at the standard path.  [default: for"
        " jobs in the background]",
        "switch",
    ),
    CommandOption(
        "require-malleable",
        "End a program whose TensorFlow cannot be malleable, rather than run it as stock.",
    ),
    CommandOption(
        "area",
        "Area to which the job's energy is attributed.  [default: the host's]",
        "text",
        "AREA",
    ),
    CommandOption(
        "time-limit",
        "Maximum time with cores, such as 90m or 12h; then the job is ended.",
        "duration",
        "TIME",
    ),
    CommandOption(
        "expected",
        "Expected run time, if known.  [default: that of earlier runs of the same command]",
        "duration",
        "TIME",
    ),
    CommandOption(
        "after",
        "Start after the end of this job, however it ends; can be repeated.",
        "text",
        "JOB",
        multiple=True,
    ),
    CommandOption(
        "between",
        "Run only in this part of the day, in local time, such as 22:00-07:00; outside of it, wait"
        " or be held.",
        "text",
        "TIMES",
    ),
    CommandOption(
        "days",
        "Days on which --between begins, such as mon-fri or sat,sun.  [default: all]",
        "text",
        "DAYS",
    ),
    CommandOption(
        "after-ok",
        "Start after this job has ended with exit code 0, and never if it ends otherwise; can be"
        " repeated.",
        "text",
        "JOB",
        multiple=True,
    ),
    CommandOption(
        "slo",
        "Objective of a service, such as p99=50ms: the latency that 99 % of its requests must not"
        " exceed. It gets cores for that before other jobs.",
        "text",
        "OBJECTIVE",
    ),
    CommandOption(
        "retries",
        "Start a failed program again, up to N times, each time as a new job.",
        "int",
        "N",
        default=0,
    ),
    CommandOption(
        "requeue",
        "In the background only: run a program that was interrupted again, as after a reboot:"
        " tfm submit --resume.",
    ),
    CommandOption(
        "kill-leftovers",
        "Kill the processes that the program leaves in the background when it ends.  [default:"
        " the job lasts until the last of them has ended]",
    ),
    CommandOption("detach", "Print the job's id and run it in the background: tfm submit."),
    CommandOption(
        "notify",
        "In the background only: run this shell command when the job has ended, with"
        " TF_MALLEABLE_JOB, TF_MALLEABLE_JOB_EXIT_CODE, TF_MALLEABLE_JOB_CAUSE and"
        " TF_MALLEABLE_JOB_OUTPUT in its environment. See also tfm notify.",
        "text",
        "COMMAND",
    ),
    CommandOption(
        "array",
        "In the background only: a job for each index, such as 1-20, or 1-20%4 for at most 4 at"
        " once, with TF_MALLEABLE_ARRAY_INDEX in its environment.",
        "array",
        "INDICES",
    ),
    CommandOption("tier", "Read training data through this node's tier: see tfm tier."),
)
"""All but --socket, in the order of the help."""


@dataclass(frozen=True)
class RunOptions:
    """Values of the options of tfm run, as OPTIONS describes them.

    Attributes:
        socket: Absolute path of the controller's socket.
        command: The program and its arguments.
        given: Names of the parameters that the command line sets, not a setting or a default.
    """

    threads: int | None
    follow_cgroup: bool | None
    min: int
    preferred: int | None
    max: int | None
    priority: int
    weight: float
    mem: int | None
    gpus: int
    name: str | None
    group: str | None
    queue: bool
    id_file: str | None
    require_controller: bool
    start_controller: bool | None
    require_malleable: bool
    area: str | None
    time_limit: float | None
    expected: float | None
    after: tuple[str, ...]
    between: str | None
    days: str | None
    after_ok: tuple[str, ...]
    slo: str | None
    retries: int
    requeue: bool
    kill_leftovers: bool
    detach: bool
    notify: str | None
    array: Array | None
    tier: bool
    socket: str
    command: tuple[str, ...]
    given: frozenset[str]
