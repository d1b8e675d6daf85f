# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Defaults from files and variables: what goes before what, and what is refused."""

from __future__ import annotations

import json
import os
import sys

import click
import pytest

from tests.support.commands import tfm
from tests.support.users import said_as
from tf_malleable.cli.settings import Settings, variable_of

SAID = "import json, os; print(json.loads(os.environ['TF_MALLEABLE_JOIN'])['max'])"


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The user's file, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "tf_malleable" / "config.ini"
    path.parent.mkdir(parents=True)
    return path


def max_of_run(*options):
    """Return the --max that tfm run uses."""
    result = tfm("run", *options, "--", sys.executable, "-c", SAID)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(file, monkeypatch):
    file.write_text("[run]\nmax = 2\n")
    assert max_of_run() == 2
    monkeypatch.setenv("TF_MALLEABLE_RUN_MAX", "3")
    assert max_of_run() == 3
    assert max_of_run("--max", "4") == 4


@pytest.mark.parametrize("option", ["foo", "fo_o", "after"])
def test_a_variable_of_no_option_is_refused(file, monkeypatch, option):
    variable = f"TF_MALLEABLE_RUN_{option.upper()}"
    monkeypatch.setenv(variable, "1")
    result = tfm("run", "--", "true")
    option = option.replace("_", "-")
    assert result.returncode == 2
    said = f"tfm: {variable}: tfm run has no option '{option}' that can be set; there are threads, "
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == 1
    monkeypatch.setenv(variable, "")
    assert tfm("run", "--", "true").returncode == 0


def test_flags_can_be_set_too(file):
    file.write_text("[run]\nrequire-controller = yes\n")
    result = tfm("run", "--", "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith("and a controller is required here\n")
    file.write_text("[run]\nrequire-controller = no\n")
    assert tfm("run", "--", "true").returncode == 0


def test_the_user_s_file_goes_before_the_site_s(tmp_path):
    site, user = tmp_path / "site.ini", tmp_path / "user.ini"
    site.write_text("[run]\nmax = 2\nmin = 2\n")
    user.write_text("[run]\nmax = 3\n")
    command = click.Command(
        "run", params=[click.Option(["--max", "most"], type=int), click.Option(["--min"], type=int)]
    )
    settings = Settings(["run"], [site, user, tmp_path / "none.ini"])
    assert settings.defaults("run", command) == {"most": 3, "min": 2}
    sources = {each.option: each.source for each in settings.of("run", command)}
    assert sources == {"max": str(user), "min": str(site)}


def test_what_is_set_is_shown_with_its_source(file, monkeypatch):
    assert "(does not exist)" in tfm("config").stdout
    assert "no defaults are set" in tfm("config").stdout
    file.write_text("# mine\n[container run]\nmax = 2\n")
    monkeypatch.setenv("TF_MALLEABLE_HISTORY_LIMIT", "5")
    shown = json.loads(tfm("config", "--json").stdout)
    assert {"path": str(file), "exists": True} in shown["files"]
    assert shown["settings"] == [
        {
            "command": "history",
            "option": "limit",
            "value": "5",
            "source": "TF_MALLEABLE_HISTORY_LIMIT",
        },
        {"command": "container run", "option": "max", "value": "2", "source": str(file)},
    ]
    row = next(line for line in tfm("config").stdout.splitlines() if line.startswith("container"))
    assert row.split() == ["container", "run", "max", "2", str(file)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rum]\nmax = 1\n", "there is no command for [rum]; there are run, "),
        ("[run]\nmaxx = 1\n", "tfm run has no option 'maxx' that can be set; there are threads, "),
        ("[run]\nmax = many\n", "max of tfm run: 'many' is not a valid integer."),
        ("[run\nmax = 1\n", "no section headers"),
        ("[run]\nmax = 1\nmax = 2\n", "option 'max' in section 'run' already exists"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_that_names_the_file(file, text, said):
    file.write_text(text)
    for command in (("run", "--", "echo", "ran"), ("config",)):
        result = tfm(*command)
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("tfm: ")
        assert str(file) in result.stderr
        assert said in result.stderr


def test_a_section_of_a_group_must_name_one_of_its_commands(file):
    file.write_text("[container rum]\nmax = 1\n")
    result = tfm("config")
    assert result.returncode == 2
    assert "there is no command for [container rum]; there are container run, " in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_folder_of_another_user_has_no_file_for_us(file):
    file.write_text("[rum]\n")
    file.parent.chmod(0o700)

    def read() -> object:
        return Settings(["run"], [file]).files[file] or {}

    assert "there is no command for [rum]" in said_as(0, read)
    assert said_as(65534, read) == "{}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_what_another_user_can_change_is_not_believed(file):
    """As with the HOME of another user, who could make root run a command."""
    file.write_text("[run]\nmax = 1\n")

    def read() -> object:
        return Settings(["run"], [file]).files[file]

    assert "'max': '1'" in said_as(0, read)
    file.chmod(0o666)
    assert said_as(0, read) == (f"cannot read {file}: other users may write to {file} (mode 0666)")
    file.chmod(0o644)
    os.chown(file.parent, 4001, 4001)
    assert said_as(0, read) == (
        f"cannot read {file}: {file.parent} belongs to user 4001, who is not root"
    )


def test_names_of_variables():
    assert variable_of("run", "require-controller") == "TF_MALLEABLE_RUN_REQUIRE_CONTROLLER"
    assert variable_of("container run", "max") == "TF_MALLEABLE_CONTAINER_RUN_MAX"
