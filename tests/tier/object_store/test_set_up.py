# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sources in S3: credentials, several nodes, folders beside them, and what is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.object_storage import (
    endpoint,
    environment,
    program,
    program_environment,
    tier_of,
)
from tests.support.tiers import end, make_source, run_through

pytestmark = pytest.mark.slow
# A user of whom S3 knows the secret, and from then on verifies signatures.
_NEW_USER = """
import boto3, json, urllib.request, sys
iam = boto3.client("iam", endpoint_url=sys.argv[1])
iam.create_user(UserName="u")
allow = {"Effect": "Allow", "Action": "*", "Resource": "*"}
policy = {"Version": "2012-10-17", "Statement": [allow]}
iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="u")["AccessKey"]
print(key["AccessKeyId"], key["SecretAccessKey"])
about = {"Content-Type": "text/plain"}
url = f"{sys.argv[1]}/moto-api/reset-auth"
urllib.request.urlopen(urllib.request.Request(url, b"0", about))
"""


def test_signatures(s3, tmp_path):
    command = [sys.executable, "-c", _NEW_USER, s3.url]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    name, secret = said.stdout.split()
    right = tier_of(s3, tmp_path / "a", AWS_ACCESS_KEY_ID=name, AWS_SECRET_ACCESS_KEY=secret)
    wrong = tier_of(s3, tmp_path / "b", AWS_ACCESS_KEY_ID=name, AWS_SECRET_ACCESS_KEY="wrong")
    with ExitStack() as stack:
        readers = []
        for node in (right, wrong):
            stack.callback(end, node)
            # The secret of the program is not that of the daemon.
            readers.append(stack.enter_context(program(node.start())))
        for key in ("a/b c", "ü%2F+&=?#~*'()!", "x=1;y,z:@$"):
            assert "ETag" in readers[0].ask("put_object", Key=key, Body=b"1")
            assert readers[0].read(key) == b"1"
            assert readers[0].read(key) == b"1"
            assert readers[0].ask("list_objects_v2", Prefix=key)["KeyCount"] == 1
            assert readers[1].read(key) == "SignatureDoesNotMatch"


def test_several_nodes_read_an_object_once(s3, tmp_path):
    data = os.urandom(3 << 20)
    s3.put("big", data)
    addresses = ("127.0.0.2:7931", "127.0.0.3:7931")
    with ExitStack() as stack:
        found = []
        for number, address in enumerate(addresses):
            options = ("--listen", address, "--peers", ",".join(addresses))
            found.append(tier_of(s3, tmp_path / f"n{number}", *options))
            stack.callback(end, found[-1])
            found[-1].start()
        for node in found:
            with program(node) as reader:
                assert reader.read("big") == data
            wait_for(lambda node=node: node.status()["copies"] == 1)
        assert found[1].counted("peer_bytes") == len(data)
    assert s3.requests("GET").count("/data/big") == 1


def test_folders_beside_objects(s3, tmp_path):
    folder = make_source(tmp_path / "folder", {"x": b"of a file"})
    s3.put("set/x", b"of an object")
    s3.put("other/x", b"not copied")
    node = tier_of(s3, tmp_path / "node")
    node.source = f"{folder}:s3://data/set"
    try:
        with program(node.start()) as reader:
            assert reader.read("set/x") == b"of an object"
            assert reader.read("other/x") == b"not copied"
        assert run_through(node, "cat", str(folder / "x")).stdout == "of a file"
        wait_for(lambda: node.status()["copies"] == 2)
        assert node.status()["sources"] == [str(folder), "s3://data/set"]
        assert "in advance" in node.tfm("warm", "s3://data/set").stderr
        assert "dropped 1 copies" in node.tfm("drop", "s3://data/").stdout
    finally:
        end(node)


def test_arrow(s3, tmp_path, node):
    """Its SDK is that of C++, as TensorFlow's and tensorflow-io's."""
    data = os.urandom(3 << 20)
    s3.put("set/x", data)
    code = """
import hashlib, os, pyarrow.fs
url = os.environ["AWS_ENDPOINT_URL_S3"]
s3 = pyarrow.fs.S3FileSystem(endpoint_override=url)
for _ in range(2):
    print(hashlib.sha256(s3.open_input_file("data/set/x").read()).hexdigest())
print([each.path for each in s3.get_file_info(pyarrow.fs.FileSelector("data/set"))])
with s3.open_output_stream("data/set/y") as file:
    file.write(b"written")
print(s3.open_input_stream("data/set/y").read())
"""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tf_malleable_cli",
            "run",
            "--tier",
            "--",
            sys.executable,
            "-c",
            code,
        ],
        env=program_environment(node),
        capture_output=True,
        text=True,
        timeout=300,
    )
    digest = hashlib.sha256(data).hexdigest()
    assert done.stdout.splitlines() == [digest, digest, "['data/set/x']", "b'written'"], done.stderr
    assert s3.ask("GET", "/data/set/y") == b"written"


def test_a_tier_is_not_its_own_source(s3, tmp_path, node):
    """As in a shell that tfm run --tier has started."""
    where = endpoint(node)
    node.kill()
    words = ["--source", "s3://data", "--store", str(node.store), "--socket", str(node.socket)]
    done = subprocess.run(
        [sys.executable, "-m", "tf_malleable_cli", "tier", "serve", *words],
        env=environment(AWS_ENDPOINT_URL_S3=where),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, "as this tier is there" in done.stderr) == (1, True)
    # The file still names the S3 service.
    assert Path(f"{node.socket}.s3").read_text().split() == [where, s3.url]


@pytest.mark.parametrize(
    ("source", "options", "more", "said"),
    [
        ("s3://data", ("--shared",), {}, "--shared has no sources in S3"),
        ("s3://data", (), {"AWS_ACCESS_KEY_ID": ""}, "there are no AWS credentials"),
        ("s3://data", (), {"AWS_ENDPOINT_URL_S3": "none"}, "S3 cannot be used"),
        ("s3://data", (), {"PYTHONPATH": ""}, "needs botocore"),
        ("s3://", (), {}, "is not s3://BUCKET"),
        ("s3://data/a/../b", (), {}, "is not s3://BUCKET"),
        (":", (), {}, "must be given"),
    ],
)
def test_what_cannot_start(tmp_path, source, options, more, said):
    words = ["--source", source, "--store", str(tmp_path / "s"), "--socket", str(tmp_path / "x")]
    done = subprocess.run(
        [sys.executable, "-m", "tf_malleable_cli", "tier", "serve", *words, *options],
        env=environment(HOME=str(tmp_path), **more),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
