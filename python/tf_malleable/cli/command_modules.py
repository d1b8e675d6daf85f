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

ALIASES = {"ps": "jobs", "kill": "cancel"}
"""Commands by the names that they have in other systems; not listed in the help."""
