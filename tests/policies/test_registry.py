# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Policies are found by name, ours and others'; bad specs are told in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tf_malleable.model import Job, Machine, Shape
from tf_malleable.policies.registry import DEFAULT, available, create

OURS = {
    "equal",
    "weighted",
    "srpt",
    "efficient",
    *(
        f"{order}-{sharing}"
        for order in ("fcfs", "priority", "round-robin")
        for sharing in ("strict", "max-prop", "always-attend")
    ),
}
THEIRS = '''
from tf_malleable.model import Allocation, Grant


class First:
    """All to the first job.

    Nothing to the others.
    """

    def __init__(self, most="all"):
        if most not in ("all", "one"):
            raise ValueError(f"most must be all or one, not {most!r}")
        self.most = most

    def allocate(self, jobs, machine, now):
        cpus = sorted(machine.cpuset)[: 1 if self.most == "one" else None]
        return Allocation({jobs[0].id: Grant(frozenset(cpus))} if jobs and cpus else {})


def not_a_policy():
    return 3
'''
ENTRY_POINTS = """
[tf_malleable.policies]
first = theirs:First
broken = no_such_module:Policy
number = theirs:not_a_policy
equal = theirs:First
"""


@pytest.fixture
def _theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another package is installed, as the import system sees it."""
    (tmp_path / "theirs.py").write_text(THEIRS)
    information = tmp_path / "theirs-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)


def sizes(spec: str) -> dict[str, int]:
    jobs = [Job(name, Shape(1, 1, 4), submitted=0.0) for name in ("a", "b")]
    grants = create(spec).allocate(jobs, Machine.flat(4), 0.0).grants
    return {name: len(grant.cpus) for name, grant in grants.items()}


def refusal(spec: str) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        create(spec)
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_ours_are_there_and_say_what_they_do():
    names = dict(available())
    assert names.keys() >= OURS
    assert all(summary and "\n" not in summary for summary in names.values())
    for name in names:
        create(name)
        plain = name.rpartition("+")[2]
        create(f"lend+{plain}")
        create(f"budget+{plain}")
        create(f"budget+slo+lend+{plain}")
    assert DEFAULT in names


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("", "there is no policy ''; choose from equal, weighted"),
        ("Equal", "there is no policy 'Equal'"),
        ("lend", "there is no policy 'lend'; choose from equal, .*, each also as lend\\+NAME"),
        ("lend+budget+equal", "there is no policy 'budget\\+equal'"),
        ("lend+lend+equal", "there is no policy 'lend\\+equal'"),
        ("equal:", "options are written OPTION=VALUE,OPTION=VALUE, not ''"),
        ("equal:x", "options are written OPTION=VALUE,OPTION=VALUE, not 'x'"),
        ("equal:=1", "options are written"),
        ("round-robin-strict:quantum=", "options are written"),
        ("equal:x=1", "policy equal has no option 'x'; its options are: none"),
        (
            "priority-strict:quantum=1",
            "policy priority-strict has no option 'quantum'; its options are: ageing, preempt",
        ),
        ("fcfs-strict:preempt=no", "policy fcfs-strict has no option 'preempt'"),
        ("round-robin-strict:quantum=0", "quantum must be a number of seconds above 0, not '0'"),
        ("round-robin-strict:quantum=nan", "quantum must be a number of seconds above 0"),
        ("priority-strict:ageing=soon", "ageing must be a number of seconds above 0, not 'soon'"),
        ("priority-strict:ageing=inf", "ageing must be a number of seconds above 0"),
        (
            "priority-strict:preempt=yes",
            "preempt must be no, longest or smallest, not 'yes'",
        ),
        ("priority-strict:ageing=1,ageing=2", "option ageing is given twice"),
    ],
)
def test_bad_specs(spec, complaint):
    message = refusal(spec)
    assert re.match(complaint, message), message


@pytest.mark.usefixtures("_theirs")
def test_policies_of_other_packages():
    names = dict(available())
    assert names["first"] == "All to the first job."
    assert names["broken"].startswith("cannot load it: No module named")
    assert names["equal"] != "All to the first job."
    assert sizes("first") == {"a": 4}
    assert sizes("first:most=one") == {"a": 1}
    assert sizes("lend+first:most=one") == {"a": 1}
    assert sizes("equal") == {"a": 2, "b": 2}


@pytest.mark.usefixtures("_theirs")
def test_what_is_wrong_with_policies_of_other_packages():
    assert refusal("first:most=3") == ("cannot load policy first: most must be all or one, not '3'")
    assert "unexpected keyword argument 'least'" in refusal("first:least=3")
    assert refusal("broken") == "cannot load policy broken: No module named 'no_such_module'"
    assert refusal("number") == "cannot load policy number: it has no method allocate"
    assert "broken, first, number" in refusal("none")
