# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A page does not believe a controller of another user's, who could show what is not so."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.support.controllers import wait_for
from tests.support.users import become, said_as
from tf_malleable.web.access import Access
from tf_malleable.web.application import web_application

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

ME, OTHER = 4001, 4002


def answer(socket: Path) -> str:
    """Return what a page says of the controller at a socket."""

    async def asked() -> str:
        access = Access(None, None)
        async with TestClient(TestServer(web_application(str(socket), access))) as client:
            said = await client.get("/v1/history")
            return f"{said.status} {await said.text()}"

    return asyncio.run(asked())


def serve(socket: Path, uid: int) -> int:
    """Start a process of a user that answers everything at a socket; return its pid."""
    if child := os.fork():
        return child
    try:
        become(uid, uid)

        async def served() -> None:
            async def planted(request: web.Request) -> web.Response:
                return web.json_response({"jobs": [], "as_of": 0})

            application = web.Application()
            application.router.add_route("*", "/{path:.*}", planted)
            runner = web.AppRunner(application)
            await runner.setup()
            await web.UnixSite(runner, str(socket)).start()
            os.chmod(socket, 0o666)
            (socket.parent / "ready").touch()
            await asyncio.Event().wait()

        asyncio.run(served())
    finally:
        os._exit(1)


@pytest.mark.parametrize("owner", [ME, 0, OTHER])
def test_only_a_controller_of_the_user_s_own_or_root_s_is_believed(owner):
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.chown(folder, owner, owner)
        pid = serve(folder / "sock", owner)
        try:
            wait_for((folder / "ready").exists)
            said = said_as(ME, lambda: answer(folder / "sock"))
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    if owner == OTHER:
        why = f"it belongs to user {OTHER}, who is neither root nor you"
        assert said.startswith("502 ")
        assert f"cannot use the controller at {folder}/sock ({why})" in said
    else:
        assert said.startswith("200 ")
