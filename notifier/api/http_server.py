"""HTTP server: runs Granian in this process until SIGTERM or SIGINT."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import uvloop
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server
from litestar import Litestar

from notifier.api.port import Address, is_listening, join_port, reserve_port
from notifier.config import MAX_STREAMS
from notifier.domain.errors import UnusableEnvironment

DRAIN_TIMEOUT = timedelta(seconds=1.5)
"""Time to finish open requests after SIGTERM or SIGINT. Then they are cut off."""
LISTEN_BACKLOG = 1024
"""Connections that the kernel queues until the server accepts them."""
HUB_KEY = "hub"
"""Key of the live hub in the application's state. Shutdown closes the hub, which ends all inbox streams."""
MAX_CONCURRENT_REQUESTS = MAX_STREAMS + 1024
"""Requests that the server handles at once: the most inbox streams that settings allow, and 1,024 others."""
HEARTBEAT_SECONDS = 1.0

LOG_CONFIG = {"handlers": {}, "loggers": {"_granian": {"propagate": True}, "granian.access": {"propagate": True}}}
"""Passes Granian's log records to the handlers of this process."""


def listen(
    app: Litestar,
    host: str,
    port: int,
    on_ready: Callable[[int], None],
    beat: Callable[[], None] = lambda: None,
    *,
    port_is_reserved: bool = False,
) -> None:
    """Serve the application until SIGTERM or SIGINT. Call from the main thread, and call `exit_now` afterwards.

    `on_ready` receives the port once the server accepts requests. The event loop that serves requests calls `beat`
    every second as a heartbeat. Set `port_is_reserved` if the parent process has reserved the port for its API
    processes.

    Raises PortTaken or BadSetting. If the server stops without a signal, raises the server's error or
    UnusableEnvironment.
    """
    take_port = join_port if port_is_reserved else reserve_port
    with take_port(host, port) as address, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_listen(app, address, on_ready, beat))


def exit_now() -> NoReturn:
    """Exit the process without finalizing the interpreter. Close all resources first.

    Granian's threads outlive their server. In about one of five exits such a thread requests the GIL during
    finalization, which aborts the process.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _listen(app: Litestar, address: Address, on_ready: Callable[[int], None], beat: Callable[[], None]) -> None:
    stop_requested = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop_requested.set)
    server = _server(app, address)
    serving = asyncio.create_task(server.serve())
    stop_request = asyncio.create_task(stop_requested.wait())
    readiness = asyncio.create_task(_report_ready(address.port, on_ready))
    heartbeat = asyncio.create_task(_beat(beat))
    await asyncio.wait({serving, stop_request}, return_when=asyncio.FIRST_COMPLETED)
    readiness.cancel()
    heartbeat.cancel()
    if serving.done():
        serving.result()
        raise UnusableEnvironment("The HTTP server stopped unexpectedly.")
    app.state[HUB_KEY].close()
    server.stop()  # type: ignore[no-untyped-call] # granian's embedded server is untyped
    await asyncio.wait({serving}, timeout=DRAIN_TIMEOUT.total_seconds())


def _server(app: Litestar, address: Address) -> Server:
    return Server(
        app,
        address=address.host,
        port=address.port,
        interface=Interfaces.ASGI,
        backlog=LISTEN_BACKLOG,
        backpressure=MAX_CONCURRENT_REQUESTS,
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=LOG_CONFIG,
    )


async def _beat(beat: Callable[[], None]) -> None:
    while True:
        beat()
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def _report_ready(port: int, on_ready: Callable[[int], None]) -> None:
    """Poll until the port is open, because Granian does not report when it listens. Then call `on_ready`."""
    while not is_listening(port):
        await asyncio.sleep(0.01)
    on_ready(port)
