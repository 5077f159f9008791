"""Start the server on the loopback, tell its address, and remove everything when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from sfumato.app.application import application
from sfumato.app.guard import ENTRANCE, Guard
from sfumato.app.pages.frame import Settings
from sfumato.app.visitors import Visitors
from sfumato.errors import OptionError
from sfumato.private_folder import PrivateFolder

LOOPBACK = "127.0.0.1"
FOLDER_PREFIX = "sfumato-app-"  # of the private folder of a server among temporary files
LONGEST_END = 2  # seconds that open connections get at the end


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How the server is started."""

    settings: Settings
    port: int = 0  # 0: any that is free
    idle_minutes: float | None = None  # without a visitor, after which the server ends
    browser: bool = True


def serve(serving: Serving, say: Callable[[str], None]) -> None:
    """Serve until the process is told to end, or nobody has come for the idle time; ``say`` gets the address."""
    with _listening(serving.port) as listening:
        folder = PrivateFolder.create(FOLDER_PREFIX)
        visitors = Visitors(folder.path)
        try:
            port, key = listening.getsockname()[1], secrets.token_urlsafe(24)
            guard = Guard(application(serving.settings), visitors, key=key, port=port)
            entrance = f"http://{LOOPBACK}:{port}{ENTRANCE}"

            def tell() -> None:
                say(entrance + key)
                if serving.browser:
                    _open(entrance + guard.key_for_once)

            asyncio.run(_run(_server(guard), listening, visitors, serving, tell))
        finally:
            visitors.leave()
            folder.remove()


def _open(address: str) -> None:
    with contextlib.suppress(webbrowser.Error, OSError):
        webbrowser.open(address)


def _listening(port: int) -> socket.socket:
    """Return a socket on the loopback, which no other machine reaches."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reason = ""
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "it must be from 0 to 65535"
    if reason:
        made.close()
        raise OptionError(f"Port {port} cannot be used: {reason}.", fix="--port 0, which takes any that is free")
    return made


def _server(guard: Guard) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            guard,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            access_log=False,  # addresses hold the key
            log_config=None,
            log_level="critical",  # messages of errors may quote a cell
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LONGEST_END,
        )
    )


async def _run(
    server: uvicorn.Server, listening: socket.socket, visitors: Visitors, serving: Serving, tell: Callable[[], None]
) -> None:
    watching = asyncio.create_task(_watch(server, visitors, serving.idle_minutes, tell))
    try:
        await server.serve(sockets=[listening])
    finally:
        watching.cancel()


async def _watch(server: uvicorn.Server, visitors: Visitors, minutes: float | None, tell: Callable[[], None]) -> None:
    """Tell the address as soon as the server answers, prepare later pages, and end after a time without a visitor."""
    while not server.started:
        await asyncio.sleep(0.02)
    tell()
    is_cold = True
    while is_cold or minutes is not None:
        await asyncio.sleep(0.25)
        if is_cold and visitors.have_tables:
            is_cold = False
            await asyncio.to_thread(_warm_up)
        if minutes is not None and visitors.absence > 60.0 * minutes:
            server.should_exit = True
            return


def _warm_up() -> None:
    """Import what later pages need, which takes long, while the first table is read in another process."""
    from sfumato.comparison import records  # noqa: F401
    from sfumato.methods.registry import METHODS, method_class

    for name in METHODS:
        method_class(name)
