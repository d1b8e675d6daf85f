# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An S3 server on this host, a tier in front of it, and programs that read through both.

Server and programs are real: moto's server, and boto3. Their packages are in a folder of their own,
build/s3: botocore needs another python-dateutil than the Kubernetes client.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support import ROOT
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tiers import TierNode

PACKAGES = ROOT / "build" / "s3"
BUCKET = "data"
# Which moto does not verify, unless it is told to.
_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host,"
    " Signature=0"
)
_URL = re.compile(r"Running on (http://127\.0\.0\.1:\d+)\n")
# An error has a colour.
_REQUEST = re.compile(r'"(?:\x1b\[\d+m)*([A-Z]+) (\S+) HTTP/1.1')
# Calls the methods of boto3's client that lines of JSON name, and writes what they return.
_PROGRAM = """
import boto3, botocore.config, botocore.exceptions, json, sys
retries = botocore.config.Config(retries={"total_max_attempts": 1}, read_timeout=300)
s3 = boto3.client("s3", config=retries)
for line in sys.stdin:
    method, arguments = json.loads(line)
    if method in ("put_object", "upload_part"):
        arguments["Body"] = bytes.fromhex(arguments["Body"])
    try:
        answer = getattr(s3, method)(Bucket=arguments.pop("Bucket", "data"), **arguments)
        if "Body" in answer:
            answer["Body"] = answer["Body"].read().hex()
    except botocore.exceptions.ClientError as error:
        answer = {"error": error.response["Error"]["Code"]}
    except Exception as error:
        answer = {"error": type(error).__name__}
    print(json.dumps(answer, default=str), flush=True)
"""


def environment(**more: str) -> dict[str, str]:
    """Return the environment of programs that use S3."""
    path = os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH", ""))))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "PYTHONPATH": path,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        **more,
    }


class ObjectStorage:
    """An S3 server with one bucket.

    Attributes:
        url: Its URL.
        process: The server.
    """

    def __init__(self, folder: Path, **more: str) -> None:
        """Start it; `more` is added to its environment."""
        self._log = folder / "moto.log"
        code = "from moto.server import main; main(['-p', '0'])"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code], env=environment(**more), stdout=log, stderr=log
            )

        def url() -> str | None:
            said = self._log.read_text()
            assert self.process.poll() is None, said
            found = _URL.search(said)
            return found and found[1]

        self.url = wait_for(url)

        def answers() -> bool:
            assert self.process.poll() is None, self._log.read_text()
            try:
                self.ask("GET", "")
            except OSError:
                return False
            return True

        wait_for(answers)
        self.ask("PUT", f"/{BUCKET}")

    def ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        """Send a request without a valid signature, and return the body of the answer."""
        # By default, a body is said to be a form, which moto parses.
        about = {"Content-Type": "application/octet-stream", "Authorization": _SIGNATURE}
        request = urllib.request.Request(f"{self.url}{path}", data, about, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return bytes(answer.read())

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self.ask("PUT", f"/{BUCKET}/{quote(key)}", data)

    def requests(self, method: str) -> list[str]:
        """Return the paths of all requests with a method that it has answered."""
        return [path for kind, path in _REQUEST.findall(self._log.read_text()) if kind == method]

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(DEADLINE)


@contextmanager
def storage(folder: Path, **more: str) -> Iterator[ObjectStorage]:
    """Have an S3 server for the length of a with statement."""
    found = ObjectStorage(folder, **more)
    try:
        yield found
    finally:
        found.kill()


def tier_of(storage: ObjectStorage, folder: Path, *options: str, **more: str) -> TierNode:
    """Return a tier in front of a server, not started yet; `more` is added to its environment."""
    return TierNode(
        folder,
        f"s3://{BUCKET}",
        options,
        environment=environment(AWS_ENDPOINT_URL_S3=storage.url, **more),
    )


def endpoint(node: TierNode) -> str:
    """Return the URL of a tier's S3 endpoint."""
    return Path(f"{node.socket}.s3").read_text().split()[0]


class S3Program:
    """A program with boto3 that reads through a tier, as tfm run --tier starts it."""

    def __init__(self, node: TierNode, **more: str) -> None:
        """Start it; `more` is added to its environment."""
        self.process = subprocess.Popen(
            [*run_words(), sys.executable, "-c", _PROGRAM],
            env=program_environment(node, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, method: str, **arguments: Any) -> None:
        """Have it call a method of boto3's client."""
        assert self.process.stdin is not None
        if "Body" in arguments:
            arguments["Body"] = arguments["Body"].hex()
        self.process.stdin.write(json.dumps((method, arguments)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return what the method returned; the code of an error by the name `error`."""
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if "Body" in answer:
            answer["Body"] = bytes.fromhex(answer["Body"])
        return answer

    def ask(self, method: str, **arguments: Any) -> Any:
        """Call a method, and return what it returned."""
        self.send(method, **arguments)
        return self.answer()

    def read(self, key: str, **more: Any) -> bytes | str:
        """Return the bytes of an object, or the code of an error."""
        answer = self.ask("get_object", Key=key, **more)
        found: bytes | str = answer.get("error") or answer["Body"]
        return found

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate(timeout=DEADLINE)


@contextmanager
def program(node: TierNode, **more: str) -> Iterator[S3Program]:
    """Have a program for the length of a with statement."""
    found = S3Program(node, **more)
    try:
        yield found
    finally:
        found.end()


def run_words() -> list[str]:
    """Return the command that runs another one through the tier."""
    return [sys.executable, "-m", "tf_malleable_cli", "run", "--tier", "--"]


def program_environment(node: TierNode, **more: str) -> dict[str, str]:
    """Return the environment of a program that reads through a tier."""
    return environment(
        TF_MALLEABLE_TIER_SOCKET=str(node.socket),
        TF_MALLEABLE_SOCKET=str(node.folder / "no-controller"),
        **more,
    )
