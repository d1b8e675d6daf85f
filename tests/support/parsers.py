# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Every parser that reads what others write, and the rules that hold for any input.

A parser returns a value or raises one of its own documented errors. If the error is shown to
somebody, it is one line. What is reserved for an input is bounded.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np

from tf_malleable.api.routes import ROUTES
from tf_malleable.api.schema.join import Join
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.tier import PathsMessage
from tf_malleable.api.transport.client import Client
from tf_malleable.api.transport.connection import Connection
from tf_malleable.api.transport.http_exchange import HttpSocket
from tf_malleable.api.transport.json_lines import Lines
from tf_malleable.api.validation import decode_body, decode_json, decode_query
from tf_malleable.cli.background.stored_job import stored_jobs
from tf_malleable.cluster.job_spec import SpecError
from tf_malleable.cluster.job_spec import parse as parse_job
from tf_malleable.cluster.kube import object_json
from tf_malleable.cluster.observe import node_affinity, pod_status, training_progress
from tf_malleable.containers import labels
from tf_malleable.controller.processes.thread_libraries import InspectedProcess, thread_libraries
from tf_malleable.controller.quotas.quota_file import read_quotas
from tf_malleable.controller.state.exit_file import RecordedExit, read_exit
from tf_malleable.controller.state.history_file import ENDED_JOBS, ENDED_SPANS
from tf_malleable.controller.state.rows import LIVE, decode
from tf_malleable.elastic.allreduce.allreduce_step import AllreduceStep
from tf_malleable.elastic.allreduce.reduction_tree import Node, cover
from tf_malleable.elastic.generation import Address, Generation, Member, SliceServer
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import LinkError, MeshError
from tf_malleable.elastic.links.frames import Link
from tf_malleable.elastic.membership.coordination import Coordination
from tf_malleable.elastic.membership.status import WantedNumbers, status
from tf_malleable.elastic.state import checkpoint, state_messages
from tf_malleable.elastic.state.checkpoint import CutUp
from tf_malleable.linux import cpu_claims
from tf_malleable.linux.cgroups import cgroup
from tf_malleable.linux.file_systems import type_of
from tf_malleable.linux.processes import procfs
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import Budget, OperationError, PowerCurve
from tf_malleable.model.cpuset import parse_cpuset
from tf_malleable.power.curve_file import read_curve
from tf_malleable.power.ipmi import watts_of
from tf_malleable.power.meter import MeterError
from tf_malleable.power.units.broker import Broker, read_broker
from tf_malleable.power.units.event import EventError, budget_of
from tf_malleable.power.units.organiser import Organiser, shared_out
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.traces import read_trace
from tf_malleable.simulate.workloads.plan import read_plan
from tf_malleable.tier.admin.admin_socket import checked
from tf_malleable.tier.node_messages import (
    BlocksHeader,
    RecordsAnswer,
    RecordsMessage,
    area_and_path,
    decode_key,
)
from tf_malleable.tier.object_names import ObjectTarget, paths_of
from tf_malleable.tier.protocol import Identity, MapHead, ProtocolError, ReaderMessage
from tf_malleable.tier.request_signature import Signer
from tf_malleable.web.relay import Relay

CORPUS: Final = Path(__file__).parents[1] / "fuzz" / "corpus"
_MEBIBYTE: Final = 1 << 20
_SECRET: Final = b"0123456789abcdef"
_HERE: Final = Address("127.0.0.1", 1)


class Parser(NamedTuple):
    """A parser and its rules.

    Attributes:
        parse: Parses bytes as another program writes them.
        errors: Documented errors.
        is_shown: Whether somebody reads the error, which then is one line.
        most: Largest memory that it may take, in bytes, for an input of some KiB.
    """

    parse: Callable[[bytes], object]
    errors: tuple[type[BaseException], ...] = (ValueError,)
    is_shown: bool = True
    most: int = 64 * _MEBIBYTE


def check(parser: Parser, data: bytes) -> None:
    """Raise if the parser breaks a rule with this input."""
    tracemalloc.start()
    try:
        parser.parse(data)
    except parser.errors as error:
        text = str(error)
        assert text or not parser.is_shown, "an error says nothing"
        assert not parser.is_shown or len(text.splitlines()) == 1, "an error is one line"
        assert not parser.is_shown or len(text) < 1000, "an error is one sentence"
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert taken <= parser.most, f"{taken} bytes were taken"


def seeds(name: str) -> list[bytes]:
    """Return the inputs in the corpus of a parser: good ones, and those that once broke a rule."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@contextmanager
def _received(data: bytes) -> Iterator[socket.socket]:
    """Yield one end of a connection at whose other end somebody has sent data and hung up."""
    here, there = socket.socketpair()
    with here, there:
        for each in (here, there):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MEBIBYTE)
        there.settimeout(60)
        there.sendall(data)
        there.shutdown(socket.SHUT_WR)
        yield here


@contextmanager
def _file(data: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def _soon() -> float:
    return time.monotonic() + 60


# Tier.


def _identity(data: bytes) -> None:
    found = Identity.decode(data)
    assert Identity.decode(found.encode()) == found


def _map(data: bytes) -> None:
    found = MapHead.decode(data)
    # Also a field that is not decoded, and what follows the header, in units.
    assert MapHead.decode(found.encode(False)) == found


def _message(data: bytes) -> None:
    found = ReaderMessage.decode(data)
    assert ReaderMessage.decode(found.encode()) == found


def _key(data: bytes) -> None:
    area, path = area_and_path(decode_key(data.decode("utf-8", "surrogateescape")))
    assert not area.startswith("/")
    assert path.startswith("/")
    assert ".." not in path.split("/")


def _signature(data: bytes) -> None:
    method, _, said = data.decode("utf-8", "surrogateescape").partition("\n")
    Signer(_SECRET).check(method, "/", said, 1e9)
    raise AssertionError("nobody can sign without the secret")


def _target(data: bytes) -> None:
    found = ObjectTarget.parse(data.decode("utf-8", "surrogateescape"))
    assert ObjectTarget.parse(found.raw) == found


def _url(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for each in paths_of(text):
        assert each == text or ".." not in each.split("/")


# Elastic trainings.


def _elastic_message(data: bytes) -> None:
    with _received(data) as connection:
        while True:
            messages.receive(connection, _soon())


def _greeting(data: bytes) -> None:
    with _received(data) as connection:
        messages.accept(connection, _SECRET, _soon())
    raise AssertionError("nobody can answer the challenge without the secret")


def _read(data: bytes) -> messages.Message:
    with _received(len(data).to_bytes(4, "big") + data) as connection:
        return messages.receive(connection, _soon())


def _status(data: bytes) -> None:
    training_progress.read(_read(data))


def _generation(data: bytes) -> None:
    found = Generation.from_json(_read(data))
    assert isinstance(found.ordinal, int)


def _coordination(data: bytes) -> None:
    """Read lines of a process: hello, and then reports; as messages.receive() takes them apart."""
    told = iter(range(1000))
    core = Coordination(4, 0.0, lambda: 0.0, lambda: str(next(told)), 0.0, 7)
    wanted = WantedNumbers()
    for now, line in enumerate(data.split(b"\n")[:8]):
        message = _read(line)
        try:
            if message.get("kind") == "hello":
                core.joined(message, now)
            elif message.get("kind") == "set":
                wanted.change(message, 4)
            elif message.get("kind") == "supervise":
                wanted.supervise(now, message)
            else:
                core.told(str(message.get("id")), message, now)
        except (KeyError, TypeError, ValueError):
            pass  # The connection is closed, and the training goes on.
        for _, answer in core.decide(now):
            messages.encode(answer)
        messages.encode(status(core.state, wanted, None))


@dataclass
class _Exchange:
    """What all steps of an allreduce share."""

    generation: Generation
    me: str
    links: dict[str, Link]
    aborted: int
    is_first: bool = False

    def progress(self, pending: dict[int, int]) -> None:
        pass

    def inbox(self, sender: str, count: int, words: int, type_: str) -> np.ndarray:
        return np.empty((count, words), type_)


def _frames(data: bytes) -> None:
    """Read frames of the other one of two members, or of the only member as a server."""
    is_server, data = data[:1] == b"s", data[1:]
    them = Member("them", _HERE, 1.0, 0 if is_server else 2, 4)
    me = Member("me", _HERE, 1.0, 0, 2)
    generation = Generation(
        1 << 24, 4, (them,) if is_server else (me, them), (SliceServer("me", _HERE),) * is_server
    )
    parts: dict[Node, np.ndarray] = {}
    if not is_server:
        parts = {node: np.zeros(40, "float32") for node in cover(4, 0, 2)}
    aborted = os.eventfd(0)
    try:
        with _received(data) as connection:
            exchange = _Exchange(generation, "me", {"them": Link("them", connection)}, aborted)
            step = None if is_server else 3
            AllreduceStep(exchange, step, parts, 0, np.empty).complete()
    finally:
        os.close(aborted)


def _state(data: bytes) -> None:
    with _received(data) as connection:
        header = messages.receive(connection, _soon())
        state_messages.receive_state(connection, header, lambda: True)


def _vector(data: bytes) -> None:
    with _received(data) as connection:
        state_messages.receive_vector(connection, 3, np.empty)


def _checkpoint(data: bytes) -> None:
    with _file(data, f"step-{3:012d}.checkpoint") as path:
        checkpoint.seed_in(path.parent)
        checkpoint.newest(path.parent, CutUp(4, 1), lambda sentence: None)


# The controller and its clients.


def _bodies(data: bytes) -> None:
    refused = []
    for kind in dict.fromkeys(route.body for route in ROUTES if route.body):
        try:
            decode_body(data, kind)
        except Refusal as refusal:
            refused.append(refusal)
    if refused:
        raise refused[len(data) % len(refused)]


def _queries(data: bytes) -> None:
    fields = [line.partition("=") for line in data.decode("utf-8", "replace").split("&")]
    for kind in dict.fromkeys(route.query for route in ROUTES if route.query):
        decode_query([(name, value) for name, _, value in fields], kind)


def _answers(data: bytes) -> None:
    with _received(data) as connection:
        client = HttpSocket(60, lambda timeout: connection)
        client.send("GET", "/v1", None)
        while client.sock is not None:
            client.body(client.head(), _MEBIBYTE)


def _lines(data: bytes) -> None:
    with _received(data) as connection:
        client = HttpSocket(60, lambda timeout: connection)
        client.send("GET", "/v1/events", None)
        for _ in Lines(client, client.head()):
            pass


_RECORDS: Final = msgspec.json.Decoder(list[Record])


def _rows(data: bytes) -> None:
    rows = [("1", data.decode("utf-8", "replace")), ("2", data), ("3", None)]
    for decoder in (_RECORDS, ENDED_JOBS, ENDED_SPANS):
        good, bad = decode(LIVE, rows, cast(Any, decoder))
        assert len(good) + len(bad) == len(rows)
        assert all(one.moving() for one in bad)


def _jobs(data: bytes) -> None:
    with _received(data) as connection:
        place = Path("controller.example")
        there = Connection(place, timeout=60, largest=_MEBIBYTE, dial=lambda: connection)
        Client(place, lambda: closing(there)).jobs()


def _page(data: bytes) -> None:
    """Read lines of a controller, and greet a viewer after each."""
    relay = Relay(cast(Any, None), "controller.example")
    for line in data.split(b"\n")[:8]:
        # The relay says what is wrong, and connects again.
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            relay.hear(line)
        assert relay.open().waiting.qsize()


def _exit(data: bytes) -> None:
    with _file(data, "job.exit") as path:
        found = read_exit(path.with_suffix(".log"), user_name(os.geteuid()), "1", 0.0)
    assert found is None or RecordedExit.parse(found.encode(), found.at) == found


def _stored(data: bytes) -> None:
    """Read the file of a job; FOLDER in it stands for the folder of the output."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.job").write_bytes(data.replace(b"FOLDER", os.fsencode(folder)))
        found, bad = stored_jobs(folder)
    assert len(found) + len(bad) == 1
    for job in found:
        job.title.encode()
        assert job.run_options(()).command
        again = job.next_attempt()
        assert again is None or not again.started


def _quotas(data: bytes) -> None:
    with _file(data, "quotas") as path:
        read_quotas(path)


def _claim(data: bytes) -> None:
    found = cpu_claims.parsed(data, os.geteuid())
    assert found is None or found.socket.isprintable()


def _process_name(data: bytes) -> None:
    """Read the stat file of a process with this name, of which the kernel escapes nothing."""
    with _file(b"7 (" + data[:64] + b") S 1 " + b"2 " * 49, "stat") as path:
        found = procfs.stat_in(str(path))
    assert found is not None
    assert (found.parent, found.state, found.start) == (1, "S", 2)


def _process_libraries(data: bytes) -> None:
    """Read the mappings of a process, an empty line, and its environment."""
    maps, _, variables = data.partition(b"\n\n")
    for each in thread_libraries(InspectedProcess(maps + b"\n", variables, threads=2), 4):
        assert (each.capacity is None) == (each.follows == "confined only")
        assert all(1 <= n <= 1024 for n in (each.capacity, each.bound) if n is not None)


def _mount_point(data: bytes) -> None:
    """Read the list of file systems with one at this point, as the kernel escapes it."""
    place = b"/" + data.replace(b"\0", b"/").strip(b"/")
    escaped = place
    for byte in (0x5C, 0x20, 0x09, 0x0A):
        escaped = escaped.replace(bytes([byte]), b"\\%03o" % byte)
    table = b"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / " + escaped + b" rw - nfs4 server:/ rw\n"
    assert type_of(os.fsdecode(place), os.fsdecode(table)) == "nfs4"


def _labels(data: bytes) -> None:
    said = dict(line.split("=", 1) for line in data.decode("utf-8", "replace").split("\n"))
    labels.read(said, "box")


def _cgroup(data: bytes) -> None:
    """Read the files of one process, separated by zeros."""
    mounts, memberships, *values = data.decode("utf-8", "surrogateescape").split("\0")
    found = cgroup.sources(cgroup.parse_mounts(mounts), cgroup.parse_memberships(memberships))
    for source in found:
        source.parse(*(*values, "", "")[: len(source.paths)])


# Power.


def _budget(data: bytes) -> None:
    assert budget_of(data).watts > 0


def _unit(data: bytes) -> None:
    """Read a topic, a line end, and the payload."""
    organiser = Organiser(Broker("127.0.0.1"), "hall", Budget(1000.0))
    topic, _, payload = data.partition(b"\n")
    organiser.hear("tfm/v1/hall/good/state", _GOOD_UNIT)
    organiser.hear(topic.decode("utf-8", "replace"), payload)
    for watts in shared_out(organiser.units, 1000.0).values():
        assert 0 <= watts <= 1000


_GOOD_UNIT: Final = b'{"state":"alive","session":"1","cpus":4,"curve":[[0,10],[1,100]]}'


def _broker(data: bytes) -> None:
    with _file(data, "broker.json") as path:
        assert read_broker(path).host


def _curve(data: bytes) -> None:
    with _file(data, "power.json") as path:
        assert isinstance(read_curve(path), PowerCurve)


# Clusters.


def _object(data: bytes) -> Any:
    return object_json.decode(data.decode("utf-8", "surrogateescape"))


def _job(data: bytes) -> None:
    metadata = {"uid": "1", "name": "job", "namespace": "default"}
    spec = _object(data)
    parse_job({"metadata": metadata, "spec": spec if isinstance(spec, dict) else {}})


def _pod(data: bytes) -> None:
    pod = _object(data)
    pod_status.see(pod)
    if not node_affinity.has_ended(pod):
        node_affinity.requests(pod)
        node_affinity.limits(pod)


def _trace(kind: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> None:
        with _file(data, "trace") as path:
            assert read_trace(path, Assumed(), kind).tasks

    return parse


def _plan(data: bytes) -> None:
    with _file(data, "plan") as path:
        assert read_plan(path, Assumed()).tasks


# A vector or a state may be as large as the memory. The kernel gives pages as its bytes arrive.
_RESERVED: Final = sys.maxsize
_STREAM: Final = (OSError, EOFError)
_JSON: Final = (KeyError, TypeError, ValueError)
_SEEN: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)

PARSERS: Final = {
    "cgroup-files": Parser(_cgroup),
    "checkpoint": Parser(_checkpoint, (MeshError,)),
    "container-labels": Parser(_labels, (Refusal, ValueError)),
    "coordinator-status": Parser(_status, (*_STREAM, MeshError, *_SEEN), False),
    "controller-jobs": Parser(_jobs, (OperationError, ValueError)),
    "cpu-claim": Parser(_claim, ()),
    "cpu-list": Parser(lambda data: parse_cpuset(data.decode("utf-8", "surrogateescape"))),
    "elastic-control": Parser(_coordination, (*_STREAM, MeshError), False),
    "elastic-frames": Parser(_frames, (LinkError, MeshError), most=_RESERVED),
    "elastic-generation": Parser(_generation, (*_STREAM, MeshError, *_JSON), False),
    "elastic-greeting": Parser(_greeting, (*_STREAM, MeshError)),
    "elastic-messages": Parser(_elastic_message, (*_STREAM, MeshError)),
    "elastic-state": Parser(_state, (*_STREAM, MeshError, ValueError), most=_RESERVED),
    "elastic-vector": Parser(_vector, (*_STREAM, MeshError), most=_RESERVED),
    "exit-file": Parser(_exit, ()),
    "http-answers": Parser(_answers, (OSError,)),
    "http-bodies": Parser(_bodies, (Refusal,)),
    "http-lines": Parser(_lines, (OSError,)),
    "http-queries": Parser(_queries, (Refusal,)),
    "ipmi-output": Parser(lambda data: watts_of(data.decode("utf-8", "replace")), (MeterError,)),
    "join-variable": Parser(lambda data: Join.decode(data.decode("utf-8", "surrogateescape"))),
    "kubernetes-objects": Parser(_object),
    "malleable-job": Parser(_job, (SpecError, ValueError)),
    "mount-point": Parser(_mount_point, ()),
    "mqtt-broker": Parser(_broker),
    "mqtt-budget": Parser(_budget, (EventError,)),
    "mqtt-unit": Parser(_unit, ()),
    "page-lines": Parser(_page, ()),
    "pod": Parser(_pod, _SEEN, False),
    "power-curve": Parser(_curve),
    "process-libraries": Parser(_process_libraries, ()),
    "process-name": Parser(_process_name, ()),
    "quota-file": Parser(_quotas),
    "s3-target": Parser(_target),
    "s3-url": Parser(_url),
    "state-rows": Parser(_rows, ()),
    "stored-job": Parser(_stored, ()),
    "tier-blocks-header": Parser(lambda data: decode_json(data, BlocksHeader)),
    "tier-identity": Parser(_identity, (ProtocolError,)),
    "tier-key": Parser(_key),
    "tier-map": Parser(_map, (ProtocolError,)),
    "tier-message": Parser(_message, (ProtocolError,)),
    "tier-paths": Parser(lambda data: checked(decode_json(data, PathsMessage))),
    "tier-records": Parser(lambda data: decode_json(data, RecordsMessage)),
    "tier-records-answer": Parser(lambda data: decode_json(data, RecordsAnswer)),
    "tier-signature": Parser(_signature),
    "trace-helios": Parser(_trace("helios")),
    "trace-pai": Parser(_trace("pai")),
    "trace-philly": Parser(_trace("philly")),
    "trace-swf": Parser(_trace("swf")),
    "workload-plan": Parser(_plan),
}
"""Parsers by name, which is also that of the folder of the corpus."""
