# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Modules of the commands of tfm."""

MODULES = {
    "run": "launch.run",
    "submit": "background.submit",
    "rerun": "background.rerun",
    "controller": "services.controller",
    "status": "services.status",
    "service": "services.service",
    "jobs": "jobs.job_list",
    "show": "jobs.show",
    "logs": "jobs.logs",
    "wait": "jobs.wait",
    "top": "jobs.top",
    "web": "services.web",
    "set": "jobs.set_cores",
    "pause": "jobs.control",
    "resume": "jobs.control",
    "cancel": "jobs.control",
    "policy": "services.policy",
    "history": "jobs.history",
    "power": "power.group",
    "workload": "workload.command",
    "simulate": "simulate.command",
    "container": "container.group",
    "elastic": "elastic.group",
    "cluster": "cluster.group",
    "tier": "tier.group",
    "config": "config",
    "completion": "completion",
    "dial-stdio": "services.dial_stdio",
}
"""Module below tf_malleable.cli of each command, by its name."""

ALIASES = {"ps": "jobs", "kill": "cancel"}
"""Commands by the names that they have in other systems; not listed in the help."""
