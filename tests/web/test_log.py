# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The page gives out a job's output to whom tfm logs gives it, and nothing else."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

import pytest

from tests.support.controllers import wait_for


def asked(web, path, token=True):
    """Return status and answer of a request of the page."""
    headers = {"Authorization": f"Bearer {web.token}"} if token else {}
    request = urllib.request.Request(web.base + path, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_last_lines_of_a_live_and_an_ended_job(crowd, web, tmp_path):
    output = tmp_path / "output"
    output.write_bytes(b"".join(b"line %d\n" % number for number in range(300)) + b"\xff<b>")
    job = crowd.job("logged", output=str(output))
    status, said = asked(web, f"log/{job}")
    assert status == 200
    lines = said["text"].split("\n")
    assert (lines[0], lines[-2], lines[-1]) == ("line 101", "line 299", "�<b>")
    assert said["output"] == str(output)
    output.write_text("x" * 100_000)
    assert asked(web, f"log/{job}")[1]["text"] == "x" * 65536
    output.write_text("")
    crowd.end(job)
    wait_for(lambda: not crowd.do(crowd.service.jobs))
    assert asked(web, f"log/{job}") == (200, {"output": str(output), "text": ""})


def test_without_the_token_there_is_none(crowd, web, tmp_path):
    output = tmp_path / "output"
    output.write_text("secret")
    job = crowd.job("logged", output=str(output))
    assert asked(web, f"log/{job}", token=False)[0] == 403
    crowd.end(job)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "link", "other"])
def test_what_is_no_file_of_the_user_is_not_read(crowd, web, tmp_path, kind):
    output = tmp_path / kind
    if kind == "folder":
        output.mkdir()
    elif kind == "pipe":
        os.mkfifo(output)
    elif kind == "link":
        (tmp_path / "file").write_text("secret")
        output.symlink_to(tmp_path / "file")
    elif kind == "other":
        output.write_text("secret")
        try:
            os.chown(output, 65534, 65534)
        except PermissionError:
            pytest.skip("only root can give a file away")
    job = crowd.job(kind, output=str(output))
    status, said = asked(web, f"log/{job}")
    assert status == 404
    assert "secret" not in json.dumps(said)
    crowd.end(job)


def test_a_job_without_output_and_no_job(crowd, web):
    job = crowd.job("silent")
    assert "no output is known of job" in asked(web, f"log/{job}")[1]["error"]
    assert asked(web, "log/999999") == (404, {"error": "there is no job 999999"})
    assert asked(web, "log/x")[0] == 404
    crowd.end(job)
