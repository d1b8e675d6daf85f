# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What users of Slurm, pueue, docker, Ray and tmux type by habit works, or is answered."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.commands import tfm
from tf_malleable.cli import main
from tf_malleable.cli.command_modules import ALIASES, MODULES, OPTION_SUGGESTIONS, SUGGESTIONS


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("ps", "there are no jobs"),
        ("ls", "there are no jobs"),
        ("queue", "there are no jobs"),
        ("squeue", "there are no jobs"),
        ("status", "controller "),
        ("sinfo", "controller "),
        ("top", "policy "),
        ("hist", ""),
        ("sacct", ""),
        ("wait", ""),
        ("run --name x -- echo ran", "ran\n"),
        ("submit --name x -- true", "1\n"),
    ],
)
def test_it_works(line, printed, controller, outputs):
    done = tfm(*line.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(printed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "seconds"), [("kill x", 600), ("scancel x", 600), ("log x", 3), ("log -f x", 3)]
)
def test_it_works_with_a_job(line, seconds, controller, outputs):
    assert tfm("submit", "--name", "x", "--", "sleep", str(seconds)).returncode == 0
    done = tfm(*line.split())
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", ["--version", "-V"])
def test_the_version_is_shown(line):
    done = tfm(line)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tfm, version ")


@pytest.mark.parametrize("words", [[], ["run"], ["elastic", "local"], ["ps"]])
def test_help_is_a_command_too(words):
    done = tfm("help", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == tfm(*words, "--help").stdout != ""


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("sbatch job.sh", "tfm submit -- COMMAND"),
        ("add python a.py", "tfm submit -- COMMAND"),
        ("srun -n 2 a", "tfm run -- COMMAND"),
        ("exec a", "tfm run -- COMMAND"),
        ("start", "tfm submit -- COMMAND"),
        ("stop 1", "tfm cancel JOB"),
        ("rm 1", "tfm cancel JOB"),
        ("tail 1", "tfm logs -f JOB"),
        ("attach 1", "tfm logs -f JOB"),
        ("jbos", "'jobs'"),
        ("xyzzy", "tfm --help"),
        ("run -n 2 -- true", "--max N"),
        ("run --cpus 2 -- true", "--max N"),
        ("submit -c 2 -- true", "--max N"),
        ("submit -t 1:00 -- true", "--time-limit TIME"),
        ("submit -J x -- true", "--name NAME"),
        ("run -d -- true", "tfm submit"),
        ("cancel all", "--all"),
        ("wait all", "--all"),
        ("logs all", "--all"),
        ("log -f", "--all"),
    ],
)
def test_the_right_command_is_named(line, meant, controller, tmp_path):
    done = tfm(*line.split(), cwd=tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert meant in done.stderr


def test_what_is_suggested_is_there():
    suggested = [*SUGGESTIONS.values(), *OPTION_SUGGESTIONS.values(), *ALIASES.values()]
    words = " ".join(suggested).split()
    names = [word for before, word in pairwise(words) if before == "tfm"]
    assert names
    assert {name.rstrip(",") for name in names} | set(ALIASES.values()) <= set(MODULES)
    run = main.tfm.get_command(main.click.Context(main.tfm), "run")
    options = {name for option in run.params for name in option.opts}
    own = {word for text in OPTION_SUGGESTIONS.values() for word in text.split() if "--" in word}
    assert own <= options
    assert not (set(SUGGESTIONS) | set(ALIASES)) & set(MODULES)
