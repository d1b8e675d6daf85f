# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Objects that programs read through the tier: the bytes are those of S3, which is asked once."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from tests.support.controllers import wait_for
from tests.support.object_storage import program, tier_of
from tests.support.tiers import end

pytestmark = pytest.mark.slow
BIG = os.urandom((5 << 20) + 777)
# Keys that are difficult as names of files: a/b beside a, empty parts, "%", long, not ASCII.
OBJECTS = {
    "a": b"", "a/b": b"x", "a//b": b"empty part", "end/": b"folder", "100% ü+&=x": b"percent",
    "%-": b"mark", "n" * 254: b"long", "m" * 255: b"too long for a copy", "set/big": BIG,
}  # fmt: skip


def copied(node, count: int) -> None:
    wait_for(lambda: node.status()["copies"] == count and not node.status()["growing"])


def gets(s3) -> int:
    return len([path for path in s3.requests("GET") if path.startswith("/data/")])


def test_the_second_epoch_reads_nothing_from_s3(s3, node, reader):
    for name, data in OBJECTS.items():
        s3.put(name, data)
    for name, data in OBJECTS.items():
        assert reader.read(name) == data
    copied(node, len(OBJECTS) - 1)
    assert gets(s3) == len(OBJECTS)
    for name, data in OBJECTS.items():
        assert reader.read(name) == data
    assert gets(s3) == len(OBJECTS) + 1
    assert node.counted("copy_opens") == len(OBJECTS) - 1
    assert node.tfm("check").returncode == 0


def test_headers_are_those_of_s3(s3, node, reader):
    put = reader.ask("put_object", Key="x", Body=b"1234", Metadata={"a": "b"}, ContentType="t/x")
    for _ in range(2):
        found = reader.ask("get_object", Key="x")
        assert (found["ETag"], found["ContentType"], found["Metadata"], found["Body"]) == (
            put["ETag"], "t/x", {"a": "b"}, b"1234",
        )  # fmt: skip
        copied(node, 1)
    assert node.counted("copy_opens") == 1
    head = reader.ask("head_object", Key="x")
    assert (head["ContentLength"], head["ETag"]) == (4, put["ETag"])


def test_a_changed_object_is_read_anew_at_once(s3, node, reader):
    for number in range(50):
        data = b"%08d" % number  # Of one size, and many of one second.
        s3.put("x", data)
        assert reader.read("x") == data
        assert reader.read("x") == data
    assert node.counted("copy_opens") > 0


def test_a_deleted_object_is_gone(s3, node, reader):
    s3.put("x", b"1")
    assert reader.read("x") == b"1"
    copied(node, 1)
    s3.ask("DELETE", "/data/x")
    assert reader.read("x") == "NoSuchKey"
    assert node.status()["copies"] == 0


@pytest.mark.parametrize("asked", ["0-0", "0-", "5-1048580", "-7", "5243000-9999999"])
def test_parts(s3, node, reader, asked):
    s3.put("big", BIG)
    first, last = asked.split("-")
    begin = int(first) if first else len(BIG) - int(last)
    end = min(len(BIG), int(last) + 1) if first and last else len(BIG)
    for _ in range(2):
        found = reader.ask("get_object", Key="big", Range=f"bytes={asked}")
        assert found["Body"] == BIG[begin:end]
        assert found["ContentRange"] == f"bytes {begin}-{end - 1}/{len(BIG)}"
        copied(node, 1)
    assert node.counted("copy_bytes") == end - begin
    assert reader.ask("get_object", Key="big", Range="bytes=9999999-")["error"] == "InvalidRange"


def test_the_version_that_a_client_wants(s3, node, reader):
    s3.put("x", b"1")
    etag = reader.ask("get_object", Key="x")["ETag"]
    copied(node, 1)
    assert reader.read("x", IfMatch=etag) == b"1"
    assert node.counted("copy_opens") == 1
    assert reader.ask("get_object", Key="x", IfNoneMatch=etag)["error"] == "304"
    s3.put("x", b"2")
    assert reader.ask("get_object", Key="x", IfMatch=etag)["error"] == "PreconditionFailed"
    assert reader.read("x") == b"2"


def test_readers_together_read_an_object_once(s3, node):
    s3.put("big", BIG)
    with ExitStack() as stack:
        readers = [stack.enter_context(program(node)) for _ in range(4)]
        for each in readers:  # They have imported what they need.
            assert each.read("none") == "NoSuchKey"
        for each in readers:
            each.send("get_object", Key="big")
        assert all(each.answer()["Body"] == BIG for each in readers)
    assert s3.requests("GET").count("/data/big") == 1


def test_what_programs_write_reaches_s3(s3, node, reader):
    reader.ask("put_object", Key="d/x", Body=b"1")
    assert reader.read("d/x") == b"1"
    reader.ask("put_object", Key="d/x", Body=b"2")
    assert reader.read("d/x") == b"2"
    assert s3.ask("GET", "/data/d/x") == b"2"
    upload = reader.ask("create_multipart_upload", Key="m")["UploadId"]
    part = reader.ask("upload_part", Key="m", UploadId=upload, PartNumber=1, Body=BIG)
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    reader.ask("complete_multipart_upload", Key="m", UploadId=upload, MultipartUpload=parts)
    assert reader.read("m") == BIG
    listed = reader.ask("list_objects_v2", Prefix="d/")
    assert [each["Key"] for each in listed["Contents"]] == ["d/x"]
    reader.ask("delete_object", Key="d/x")
    assert reader.read("d/x") == "NoSuchKey"


def test_without_room_objects_are_read_from_s3(s3, tmp_path):
    s3.put("big", BIG)
    s3.put("x", b"1")
    node = tier_of(s3, tmp_path / "small", "--capacity", "2M")
    try:
        with program(node.start()) as reader:
            for _ in range(2):
                assert reader.read("big") == BIG
                assert reader.read("x") == b"1"
        copied(node, 1)
    finally:
        end(node)


def test_copies_outlive_the_daemon(s3, node, reader):
    s3.put("big", BIG)
    assert reader.read("big") == BIG
    copied(node, 1)
    node.kill()
    assert reader.read("big") == "EndpointConnectionError"
    node.start()  # At the same port.
    assert reader.read("big") == BIG
    assert gets(s3) == 1
    assert node.counted("copy_opens") == 1


def test_without_s3_nothing_is_read(s3, node, reader):
    s3.put("x", b"1")
    assert reader.read("x") == b"1"
    copied(node, 1)
    s3.kill()
    assert reader.read("x") == "ServiceUnavailable"


def test_rot_is_found(s3, node, reader):
    s3.put("set/x", b"1234")
    assert reader.read("set/x") == b"1234"
    copied(node, 1)
    node.copy("/s3:/data/set/x%").write_bytes(b"1294")
    assert node.tfm("why", "s3://data/set/x").returncode == 0
    assert "s3://data/set/x" in node.tfm("check", "s3://data/set").stdout
    assert reader.read("set/x") == b"1234"
    copied(node, 1)
    assert "dropped 1" in node.tfm("drop", "s3://data/set/x").stdout
    assert node.tfm("why", "s3://data/set/x").returncode == 1
