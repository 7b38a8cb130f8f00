"""`serve`: a loop behind a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bopl._errors import UsageError
from bopl._files import only_writer
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.settings import LoopSettings

if TYPE_CHECKING:
    from bopl.serving.admission import App

TOKEN_VARIABLE = "BOPL_TOKEN"
MIN_TOKEN = 16  # characters
KEEP_ALIVE_S = 30
BACKLOG = 1024
MAX_HEADER_BYTES = 16_384


def serve(path: str | Path, settings: LoopSettings, *, ready: Callable[[str], None] | None = None) -> None:
    """Serve the loop of a folder until the process is told to stop (Ctrl-C, SIGTERM).

    Parameters
    ----------
    path : path
        The folder of the loop.
    settings : LoopSettings
        What `loop.toml` says.
    ready : callable, optional
        Told the address once requests are answered.

    Raises
    ------
    UsageError
        One sentence if the loop is served already, the port is taken, or an open address has no token.
    StoreError
        One sentence about an event store that cannot be used.
    """
    _check_installed()
    folder = LoopFolder(path)
    token = read_token(settings, folder.path)
    if token is None and not settings.is_local:
        raise UsageError(
            f"host {settings.host!r} can be reached from other machines, so requests need a token: put one into the "
            f"variable {TOKEN_VARIABLE} or into a file that token_file names, or listen on 127.0.0.1."
        )
    gc.disable()  # until it serves: objects of imports and policies are there to stay
    with (
        only_writer(folder.events),
        EventStore(folder.events, max_mb=settings.max_events_mb) as store,
        _listen(settings) as listener,
    ):
        asyncio.run(_serve(folder, settings, store, token, listener, ready))


def read_token(settings: LoopSettings, folder: Path) -> str | None:
    """Return the token that requests must carry, or None."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None and settings.token_file is not None:
        file = folder / settings.token_file
        try:
            token = file.read_text(encoding="utf8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the token cannot be read from {str(file)!r}: {error}.") from None
    if token is None:
        return None
    token = token.strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token must be at least {MIN_TOKEN} ASCII characters without spaces.")
    return token


def _check_installed() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"serving needs {error.name}: install it with `pip install 'bopl[serve]'`.") from None


def _listen(settings: LoopSettings) -> socket.socket:
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)  # without its protocol, asyncio leaves Nagle's delays on
    except OSError as error:
        raise UsageError(f"{settings.host!r} is not an address of this machine: {error}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"port {settings.port} of {settings.host} cannot be used: {error.strerror}. Set another port."
        ) from None
    return listener


async def _serve(
    folder: LoopFolder,
    settings: LoopSettings,
    store: EventStore,
    token: str | None,
    listener: socket.socket,
    ready: Callable[[str], None] | None,
) -> None:
    from bopl.serving.app import make_app
    from bopl.serving.live import LiveFigures
    from bopl.serving.service import DecisionService

    service = DecisionService(folder, settings, store)
    live = LiveFigures(service)
    server = _make_server(make_app(service, live, token), settings)
    service.watch()
    live.watch()
    try:
        telling = asyncio.create_task(_tell(server, listener, ready))
        await server.serve(sockets=[listener])
        telling.cancel()
    finally:
        await live.stop()
        await service.stop()


async def _tell(server: Any, listener: socket.socket, ready: Callable[[str], None] | None) -> None:
    while not server.started:
        await asyncio.sleep(0.005)
    gc.freeze()  # later collections then look at what requests leave, and take no time to speak of
    gc.enable()
    if ready is not None:
        host, port = listener.getsockname()[:2]
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def _make_server(app: App, settings: LoopSettings) -> Any:
    import uvicorn

    from bopl.serving.app import protocol_with_timeout

    logging.getLogger("bopl.serving").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a line for every bad request would fill the disk
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol_with_timeout(settings.request_timeout_s),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.max_connections + 1,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
    )
