# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tools/make_test_image.py: this machine's Python and TensorFlow in a container."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound
from make_test_image import ImageError, make_test_image, volumes

import tf_malleable
from tests.support.deadline import DEADLINE
from tf_malleable.runtime.tensorflow_install import find_tensorflow

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "make_test_image.py"
CPU = min(os.sched_getaffinity(0))

# Needs no option: what `tfm run` sets up for it is enough.
TRAINING = """
import json, os
import tensorflow as tf
import tf_malleable as tfm

tfm.set_threads(1)
product = float(tf.reduce_sum(tf.matmul(tf.ones((300, 200)), tf.ones((200, 100)))))
print(json.dumps({
    "version": tf.__version__,
    "product": product,
    "backend": tfm.backend(),
    "threads": tfm.get_threads().intra,
    "cpus": sorted(os.sched_getaffinity(0)),
    "folder": os.getcwd(),
}))
"""


@pytest.fixture
def client(docker_host: str) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=docker_host)
    yield client
    client.close()


@pytest.fixture
def tag(client: docker.DockerClient) -> Iterator[str]:
    """Give a tag that is free, and remove its image afterwards."""
    tag = f"tf_malleable-test-{uuid.uuid4().hex[:12]}"
    yield tag
    for image in client.images.list(tag):
        client.images.remove(image.id, force=True)


def tool(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def test_tensorflow_runs_in_a_container_with_limits(client, test_image, image_volumes):
    output = client.containers.run(
        test_image,
        ["python", "-c", TRAINING],
        volumes=image_volumes,
        network_mode="none",
        cpuset_cpus=str(CPU),
        nano_cpus=900_000_000,
        stderr=False,
        remove=True,
    )
    assert json.loads(output) == {
        "version": find_tensorflow().version,
        "product": 300 * 200 * 100,
        "backend": tf_malleable.backend(),
        "threads": 1,
        "cpus": [CPU],
        "folder": "/tmp",
    }


@pytest.mark.skipif(shutil.which("docker") is None, reason="needs the command docker")
def test_the_command_line_that_is_printed_works(docker_host, tag):
    done = tool("--tag", tag)
    assert (done.returncode, done.stderr) == (0, "")
    said, line = done.stdout.splitlines()
    assert said == tag
    run = subprocess.run(
        shlex.split(line), capture_output=True, text=True, check=False, timeout=120
    )
    assert run.stdout == f"{find_tensorflow().version}\n", run.stderr
    assert json.loads(tool("--tag", tag, "--json").stdout) == {
        "tag": tag,
        "volumes": volumes(),
        "command": shlex.split(line),
    }


def test_other_users_can_run_it_and_nobody_can_change_the_machine(
    client, test_image, image_volumes
):
    program = "import os; print(os.getuid(), [os.access(x, os.W_OK) for x in ('/tmp', '/usr')])"
    for user in ("0", "1234"):
        output = client.containers.run(
            test_image,
            ["python", "-c", program],
            volumes=image_volumes,
            user=user,
            stderr=False,
            remove=True,
        )
        assert output.decode() == f"{user} [True, False]\n"


def test_an_image_is_made_once(client, tag):
    assert make_test_image(client, tag) == tag
    first = client.images.get(tag).id
    make_test_image(client, tag)
    assert client.images.get(tag).id == first


def test_of_another_environment_it_is_another_image(client, tag, tmp_path):
    """The old one is removed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (tmp_path / "bin" / "tfm").touch()
    make_test_image(client, tag)
    first = client.images.get(tag).id
    make_test_image(client, tag, str(tmp_path / "bin" / "python"))
    second = client.images.get(tag)
    assert second.attrs["Config"]["Entrypoint"] == [f"{tmp_path}/bin/tfm", "run", "--"]
    with pytest.raises(ImageNotFound):
        client.images.get(first)


def test_the_tag_of_another_image_is_refused(docker_host, client, tag):
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    client.api.import_image_from_data(empty.getvalue(), repository=tag, tag="latest")
    before = client.images.get(tag).id
    done = tool("--tag", tag)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"make_test_image: {tag} is the tag of another image; choose an unused one\n"
    )
    assert client.images.get(tag).id == before


@pytest.mark.parametrize("arguments", [["--tag", "No Tag"], ["--bogus"], ["more"], ["--tag"]])
def test_wrong_arguments_are_one_sentence(docker_host, arguments):
    done = tool(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("make_test_image")


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "nonsense"])
def test_without_an_engine_it_says_so(host):
    done = tool(DOCKER_HOST=host)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == "make_test_image: no Docker engine answers; start one, or set DOCKER_HOST\n"
    )


def test_more_can_be_mounted(tmp_path):
    assert volumes(also=[tmp_path, "/usr/share", tmp_path]) == [
        *volumes(),
        f"{tmp_path}:{tmp_path}:ro",
    ]


def test_what_cannot_be_mounted_is_refused(tmp_path):
    colon = tmp_path / "a:b"
    colon.mkdir()
    with pytest.raises(ImageError, match="its name has a colon"):
        volumes(also=[colon])
    with pytest.raises(ImageError, match=f"there is no {tmp_path}/none to mount"):
        volumes(also=[tmp_path / "none"])


def test_a_python_that_will_not_do_is_refused(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    with pytest.raises(ImageError, match=f"there is no {tmp_path}/bin/tfm"):
        volumes(str(tmp_path / "bin" / "python"))
    for python in ("/bin/true", "/no/such/python"):
        with pytest.raises(ImageError, match=f"^{python} is not a working Python$"):
            volumes(python)
