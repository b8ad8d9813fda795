"""The processes beside this one, as `notifier up` keeps them: which run, and how often each was replaced."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import uvloop
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server
from litestar import Litestar
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from notifier.api.port import Address, is_listening, joined, reserved
from notifier.config import MOST_STREAMS
from notifier.domain.errors import Environment

REPLACED = "notifier_roles_replaced_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    folder: Path
    """Each role leaves its process id in a file of its own here once it can work."""
    registry: CollectorRegistry

    def pids(self) -> Mapping[str, int]:
        """Empty where no `notifier up` runs on the folder."""
        try:
            return {
                file.name: int(file.read_text())
                for file in sorted(self.folder.iterdir())
                if not file.name.startswith(".")
            }
        except (OSError, ValueError):
            return {}

    def replaced(self) -> Mapping[str, int]:
        """By role, since `notifier up` began."""
        found: dict[str, int] = {}
        for metric in shared(self.registry).collect():
            for sample in metric.samples:
                if sample.name == REPLACED:
                    role = sample.labels["role"]
                    found[role] = found.get(role, 0) + int(sample.value)
        return found


def loading_file(data: Path) -> Path:
    """Says how many hundredths of its world a demo has loaded; there while it loads."""
    return data / "run" / "loading"


def loading(data: Path) -> int | None:
    try:
        return int(loading_file(data).read_text())
    except (OSError, ValueError):
        return None


def shared(own: CollectorRegistry) -> CollectorRegistry:
    """Of all processes where they share their metrics, which the library itself knows by PROMETHEUS_MULTIPROC_DIR."""
    together = CollectorRegistry()
    try:
        MultiProcessCollector(together)  # type: ignore[no-untyped-call] # the library's constructor is untyped
    except ValueError:
        return own
    return together


# Listening: granian in this very process, on the port of our service, until a signal says stop.

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
    app: Litestar,
    host: str,
    port: int,
    on_ready: Callable[[int], None],
    beat: Callable[[], None] = lambda: None,
    *,
    port_is_reserved: bool = False,
) -> None:
    """Until SIGTERM or SIGINT; `on_ready` gets the port once requests are answered. For the main thread.

    Calls `beat` from the loop that answers, every second while it turns. With `port_is_reserved` the process that
    started this one has reserved the port, and its other API processes may listen there too.

    Raises PortTaken or BadSetting. When it returns, the process must `leave`.
    """
    taking = joined if port_is_reserved else reserved
    with taking(host, port) as address, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_listen(app, address, on_ready, beat))


def leave() -> NoReturn:
    """Ends the process, all its own things being closed.

    Granian's threads outlive their server. One that asks for the interpreter's lock while the interpreter is being torn
    down aborts the process, about once in five times; so there is no tearing down, as in a child of multiprocessing.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _listen(app: Litestar, address: Address, on_ready: Callable[[int], None], beat: Callable[[], None]) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = _server(app, address)
    serving = asyncio.create_task(server.serve())
    stopped = asyncio.create_task(stopping.wait())
    telling = asyncio.create_task(_tell(address.port, on_ready))
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


def _server(app: Litestar, address: Address) -> Server:
    return Server(
        app,
        address=address.host,
        port=address.port,
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


async def _tell(port: int, on_ready: Callable[[int], None]) -> None:
    """Granian does not say when it listens."""
    async with asyncio.timeout(READY_WITHIN.total_seconds()):
        while not is_listening(port):
            await asyncio.sleep(0.01)
    on_ready(port)
