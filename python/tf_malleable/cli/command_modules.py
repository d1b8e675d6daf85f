# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Modules of the commands of tfm."""

SECTIONS = {
    "Run": {
        "run": "launch.run",
        "submit": "background.submit",
        "rerun": "background.rerun",
        "workload": "workload.command",
    },
    "Look": {
        "jobs": "jobs.job_list",
        "top": "jobs.top",
        "show": "jobs.show",
        "logs": "jobs.logs",
        "wait": "jobs.wait",
        "notify": "jobs.notify",
        "history": "jobs.history",
        "web": "services.web",
    },
    "Change": {
        "set": "jobs.set_cores",
        "pause": "jobs.control",
        "resume": "jobs.control",
        "cancel": "jobs.control",
        "policy": "services.policy",
    },
    "Controller": {
        "controller": "services.controller",
        "status": "services.status",
        "service": "services.service",
    },
    "More": {
        "container": "container.group",
        "elastic": "elastic.group",
        "cluster": "cluster.group",
        "tier": "tier.group",
        "power": "power.group",
        "simulate": "simulate.command",
        "config": "config",
        "completion": "completion",
        "dial-stdio": "services.dial_stdio",
    },
}
"""Module below tf_malleable.cli of each command, by its name, in the sections of the help."""

MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}

LABELS = {
    "stable": "tried with every supported version of the real software, by automatic tests, and"
    " measured",
    "beta": "complete, and tried with real processes, but on few kinds of machines",
    "experimental": "tried on stand-ins for its intended environment only",
}
"""What the labels of docs/maturity.md mean, least to be worried about first."""

MATURITY = {
    **dict.fromkeys(MODULES, "beta"),
    "run": "stable",
    **dict.fromkeys(("cluster", "power", "service"), "experimental"),
}
"""Label of each command, as in docs/maturity.md."""

ALIASES = {
    **dict.fromkeys(("ps", "ls", "list", "queue", "squeue"), "jobs"),
    **dict.fromkeys(("kill", "scancel"), "cancel"),
    **dict.fromkeys(("log",), "logs"),
    **dict.fromkeys(("hist", "sacct"), "history"),
    **dict.fromkeys(("sinfo", "info"), "status"),
}
"""Commands by the names that they have in other systems; not listed in the help."""

_SUBMIT = "tfm submit -- COMMAND"
_RUN = "tfm run -- COMMAND"
_FOLLOW = "tfm logs -f JOB"

SUGGESTIONS = {
    **dict.fromkeys(("sbatch", "add", "enqueue", "qsub", "new"), _SUBMIT),
    **dict.fromkeys(("srun", "exec", "salloc"), _RUN),
    **dict.fromkeys(("tail", "attach", "follow", "output"), _FOLLOW),
    **dict.fromkeys(("rm", "remove", "delete", "qdel"), "tfm cancel JOB"),
    "stop": "tfm cancel JOB to end it, or tfm pause JOB",
    "start": f"{_SUBMIT}, or tfm resume JOB, or tfm controller --detach",
    "restart": "tfm rerun JOB",
    **dict.fromkeys(("up", "serve", "daemon", "server"), "tfm controller --detach"),
    **dict.fromkeys(("scontrol", "inspect"), "tfm show JOB, or tfm set JOB"),
    "renice": "tfm set JOB --priority N",
}
"""What to type instead of commands of other systems that are not quite the same here."""

_CORES = "--max N for the most cores, and --min N for the fewest"

OPTION_SUGGESTIONS = {
    **dict.fromkeys(("-n", "-c", "-j", "--cpus", "--cores", "--nproc", "--num-cpus"), _CORES),
    **dict.fromkeys(("--cpus-per-task", "--ntasks", "--threads"), _CORES),
    **dict.fromkeys(("-t", "--time", "--timeout"), "--time-limit TIME"),
    **dict.fromkeys(("-J", "--job-name", "-l", "--label"), "--name NAME"),
    **dict.fromkeys(("-m", "--memory"), "--mem SIZE"),
    **dict.fromkeys(("-p", "--nice"), "--priority N"),
    **dict.fromkeys(("-o", "--output"), "tfm logs JOB for what it has printed"),
    **dict.fromkeys(("-a",), "--array INDICES"),
    **dict.fromkeys(("--dependency",), "--after JOB"),
    **dict.fromkeys(("--num-gpus", "--gres"), "--gpus N"),
    **dict.fromkeys(("-d", "--background"), "tfm submit"),
    **dict.fromkeys(("-w", "--wait"), "tfm run, or tfm wait JOB"),
}
"""The same of options of other systems that start a program."""
