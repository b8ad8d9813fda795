"""Listening: granian in this very process, on a port that is surely ours, until a signal says stop."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from errno import EADDRINUSE
from typing import NoReturn

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server
from litestar import Litestar

from notifier.config import MOST_STREAMS
from notifier.domain.errors import BadSetting, Environment, PortTaken

DRAINS_WITHIN = timedelta(seconds=1.5)
"""After a SIGTERM; whoever is cut off asks again."""
READY_WITHIN = timedelta(seconds=20)
BACKLOG = 1024
HUB = "hub"
"""In the application's state; its live streams would never end by themselves."""
REQUESTS = MOST_STREAMS + 1024
"""At once; the streams are limited by a setting, and must not keep the others waiting."""
TURNS_EVERY = 1.0
"""Seconds between two beats."""

TO_OUR_LOG = {"handlers": {}, "loggers": {"_granian": {"propagate": True}, "granian.access": {"propagate": True}}}


def listen(
    app: Litestar, host: str, port: int, on_ready: Callable[[int], None], beat: Callable[[], None] = lambda: None
) -> None:
    """Until SIGTERM or SIGINT; `on_ready` gets the port once requests are answered. For the main thread.

    Calls `beat` from the loop that answers, every second while it turns.

    Raises PortTaken or BadSetting. When it returns, the process must `leave`.
    """
    with reserved(host, port) as held:
        address, chosen = held.getsockname()[:2]
        asyncio.run(_listen(app, address, chosen, on_ready, beat))


def leave() -> NoReturn:
    """Ends the process, all its own things being closed.

    Granian's threads outlive their server. One that asks for the interpreter's lock while the interpreter is being torn
    down aborts the process, about once in five times; so there is no tearing down, as in a child of multiprocessing.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def reserved(host: str, port: int) -> socket.socket:
    """A socket that holds the port and never listens: granian binds beside it.

    Granian shares its port with whoever asks to, so two services could split one port's requests without a word. The
    first of the two sockets here asks not to share, and so finds out. Port 0 takes any free one.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise BadSetting(f"There is no host {host!r}.") from error
    if port:
        with socket.socket(family) as alone:
            _bind(alone, address, shared=False)
    held = socket.socket(family)
    _bind(held, address, shared=True)
    return held


def _bind(one: socket.socket, address: tuple[object, ...], *, shared: bool) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        one.bind(address)
    except OSError as error:
        one.close()
        if error.errno == EADDRINUSE:
            raise PortTaken(f"It is {address[1]} on {address[0]} ({error.strerror}).") from error
        raise BadSetting(f"It can't listen on {address[0]}:{address[1]}: {error.strerror}.") from error


async def _listen(
    app: Litestar, host: str, port: int, on_ready: Callable[[int], None], beat: Callable[[], None]
) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = _server(app, host, port)
    serving = asyncio.create_task(server.serve())
    stopped = asyncio.create_task(stopping.wait())
    telling = asyncio.create_task(_tell(host, port, on_ready))
    beating = asyncio.create_task(_beat(beat))
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()
    beating.cancel()
    if serving.done():
        serving.result()
        raise Environment("The HTTP server ended by itself.")
    app.state[HUB].close()
    server.stop()  # type: ignore[no-untyped-call] # granian's embedded server is untyped
    await asyncio.wait({serving}, timeout=DRAINS_WITHIN.total_seconds())


def _server(app: Litestar, host: str, port: int) -> Server:
    return Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        backlog=BACKLOG,
        backpressure=REQUESTS,
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=TO_OUR_LOG,
    )


async def _beat(beat: Callable[[], None]) -> None:
    while True:
        beat()
        await asyncio.sleep(TURNS_EVERY)


async def _tell(host: str, port: int, on_ready: Callable[[int], None]) -> None:
    """Granian doesn't say when it listens; who was connected to does."""
    async with asyncio.timeout(READY_WITHIN.total_seconds()):
        while not await _answers(host, port):
            await asyncio.sleep(0.01)
    on_ready(port)


async def _answers(host: str, port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True
    return False
