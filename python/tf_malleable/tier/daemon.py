# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Daemon: the process that runs the tier of a node."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from tf_malleable.api.transport.http_server import HttpServer, completing
from tf_malleable.api.transport.tier_address import (
    control_socket,
    counts_folder,
    endpoint_file,
    state_file,
)
from tf_malleable.linux.service_notifications import notify, watchdog_seconds
from tf_malleable.linux.standard_error import say
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.tier.admin.admin_socket import AdminSocket
from tf_malleable.tier.metrics import Counters, TierCollector
from tf_malleable.tier.node import TierNode
from tf_malleable.tier.object_names import paths_of
from tf_malleable.tier.object_store.gateway import Gateway
from tf_malleable.tier.object_store.upstream import Upstream
from tf_malleable.tier.peers.tls import contexts
from tf_malleable.tier.readers.state_file import LifeSign
from tf_malleable.tier.settings import TierSettings
from tf_malleable.tier.store.copy_store import CopyStore

_PRIVATE_MODE = 0o600
_SHARED_MODE = 0o666
_SWITCH_SECONDS = 0.0002
_OBJECTS = 20_000
_COUNTS_SECONDS = 86400.0
_LOOK_SECONDS = 3600.0
_LONGEST = 107  # Bytes of sun_path in unix(7), without the terminating zero.


class _StartError(Exception):
    """The tier cannot start; the message is one sentence."""


def run(settings: TierSettings, verbosity: int = 0) -> int:
    """Run a tier until SIGTERM, SIGINT or SIGHUP.

    Returns:
        The exit code: 0 after such a signal; 1 if the tier could not start, with the reason on
        stderr.

    Raises:
        ValueError: A setting is invalid.
    """
    logging.basicConfig(
        level=logging.INFO if verbosity else logging.WARNING, format="tfm tier: %(message)s"
    )
    contexts(settings.certificate, settings.authority)
    upstream = Upstream() if settings.objects else None
    # The kernel sends it if a reader opens a copy while is_open() holds a lease on it.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    _raise_limit_of_open_files()
    try:
        lock = _locked(settings.store)
        try:
            asyncio.run(_serve(settings, upstream))
        finally:
            os.close(lock)
    except _StartError as error:
        say(f"tfm tier: {error}")
        return 1
    return 0


async def _serve(settings: TierSettings, upstream: Upstream | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup(1)
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Readers wait for the event loop, which would wait for another thread for 5 ms by default.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # The objects for each small file stay alive: searching them for garbage is wasted time.
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    counters = Counters()
    objects = (Path(paths_of(str(each))[-1]) for each in settings.objects)
    try:
        store = CopyStore(settings.store, (*settings.sources, *objects), settings.capacity)
    except OSError as error:
        raise _StartError(
            f"cannot keep copies in {settings.store}: {error.strerror or error}"
        ) from None
    async with AsyncExitStack() as stack:
        tier = TierNode(settings, store, counters)
        try:
            await tier.start()
        except OSError as error:
            raise _StartError(
                f"cannot listen at {settings.listen}: {error.strerror or error}"
            ) from None
        stack.push_async_callback(tier.stop)
        where = await _listen(settings, tier, stack)
        if upstream is not None:
            where += await _serve_objects(settings, tier, upstream, stack)
        say(_ready(settings, store, tier.node, where))
        notify("READY=1")
        seconds = watchdog_seconds()
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), seconds)
            except asyncio.TimeoutError:
                notify("WATCHDOG=1")
        notify("STOPPING=1")


async def _listen(settings: TierSettings, tier: TierNode, stack: AsyncExitStack) -> str:
    """Listen for readers, administrators and Prometheus; return an addition to the ready line."""
    mode = _SHARED_MODE if settings.shared else _PRIVATE_MODE
    try:
        # Readers believe what is in this folder, so nobody else may change it.
        folder = TrustedFolder(
            settings.socket.parent, 0o755 if settings.shared else 0o700, strict=True
        )
        stack.callback(folder.close)
        socket = folder.path / settings.socket.name
        if len(os.fsencode(control_socket(socket))) > _LONGEST:
            raise _StartError(
                f"a socket's path may have at most {_LONGEST - len('.control')} bytes: choose a"
                " shorter one with --socket"
            )
        state = LifeSign(
            folder,
            state_file(socket).name,
            0o644 if settings.shared else 0o600,
            settings.store,
            settings.sources,
        )
        stack.callback(state.close)
        tier.readers.start(socket, mode)
        counts = _prepare_counts(folder, counts_folder(socket).name, settings.shared)
        stack.callback(asyncio.create_task(_forget_often(counts)).cancel)
        stack.callback(tier.readers.stop)
        living = asyncio.create_task(tier.live(state))
        stack.callback(living.cancel)
        people = AdminSocket(tier.people)
        await people.start(control_socket(socket), mode)
        stack.push_async_callback(people.stop)
    except OSError as error:
        raise _StartError(
            f"cannot listen at {settings.socket}: {error.strerror or error}"
        ) from None
    if settings.metrics is None:
        return ""
    return f", metrics at http://127.0.0.1:{await _metrics(settings.metrics, tier, stack)}/metrics"


async def _serve_objects(
    settings: TierSettings, tier: TierNode, upstream: Upstream, stack: AsyncExitStack
) -> str:
    """Listen for S3 requests, and tell programs where; return an addition to the ready line.

    The port is that of the tier before, if possible: its programs may still run.
    """
    gateway = Gateway(tier.service, settings.objects, upstream)
    stack.push_async_callback(gateway.stop)
    try:
        with TrustedFolder(settings.socket.parent, strict=True) as folder:
            descriptor = folder.open(endpoint_file(settings.socket).name, os.O_RDWR | os.O_CREAT)
        with open(descriptor, "r+") as file:
            port = file.readline().strip().rpartition(":")[2]
            where = await gateway.start(int(port) if port.isdecimal() else 0)
            if where == upstream.endpoint:
                raise _StartError(f"S3 cannot be at {where}, as this tier is there")
            file.seek(0)
            file.truncate()
            file.write(f"{where}\n{upstream.endpoint}\n")
    except OSError as error:
        raise _StartError(f"cannot serve S3: {error.strerror or error}") from None
    return f", S3 at {where}"


def _prepare_counts(beside: TrustedFolder, name: str, shared: bool) -> Path:
    """Create the folder of the files in which jobs count their reads, and return it.

    Raises:
        OSError: The folder cannot be created, or is another user's.
    """
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=beside.descriptor)
    folder = beside.open_folder(name)
    try:
        os.fchmod(folder, 0o1777 if shared else 0o700)
    finally:
        os.close(folder)
    return beside.path / name


async def _forget_often(counts: Path) -> None:
    while True:
        with suppress(OSError):  # The folder may have been deleted.
            forget_counts(counts)
        await asyncio.sleep(_LOOK_SECONDS)


def forget_counts(folder: Path) -> None:
    """Delete the counts of jobs that ended long ago; the history contains them."""
    for file in folder.iterdir():
        with suppress(OSError):
            # A pid from inside a container belongs to another process here, or to none. So the
            # age counts, too.
            ended = not Path(f"/proc/{file.name.partition('-')[0]}").exists()
            if ended and file.lstat().st_mtime < time.time() - _COUNTS_SECONDS:
                file.unlink()


async def _metrics(port: int, tier: TierNode, stack: AsyncExitStack) -> int:
    registry = CollectorRegistry()
    registry.register(TierCollector(tier.counters, tier.gauges))

    async def show(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    application = web.Application(middlewares=[completing])
    application.router.add_get("/metrics", show)
    server = HttpServer(application)
    stack.push_async_callback(server.close)
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise _StartError(
            f"cannot listen on port {port} of 127.0.0.1: {reason}; choose another with --metrics"
        ) from None
    bound: int = listening.getsockname()[1]
    await server.start(listening)
    return bound


def _ready(settings: TierSettings, store: CopyStore, node: str, more: str) -> str:
    sources = ", ".join(str(source) for source in (*settings.sources, *settings.objects))
    others = f", node {node}" if node else ""
    return f"tfm tier: {len(store)} copies of {sources}, at {settings.socket}{others}{more}"


def _locked(folder: Path) -> int:
    """Lock a store, which only one tier may use; return the descriptor of the lock file."""
    try:
        # Readers believe what is in the store, so nobody else may change it.
        with TrustedFolder(folder, 0o755, strict=True) as store:
            descriptor = store.open("lock", os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise _StartError(f"cannot keep copies in {folder}: {error.strerror or error}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise _StartError(f"another tier keeps its copies in {folder}") from None
    return descriptor


def _raise_limit_of_open_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
