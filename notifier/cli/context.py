"""Opens a data folder for one verb: the ports of this process, closed when the verb is done."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from notifier.config import Settings
from notifier.domain.delivery.throttle import RAMP
from notifier.domain.errors import NoData
from notifier.flow.operations.overview import Overview
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.profiles import Profile, choose
from notifier.wiring.operations import build_overview
from notifier.wiring.system import System, build_system

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedStores:
    ports: Ports
    reads: Callable[[], ReadPorts]
    """To be called within the question, because its connections belong to one event loop."""
    leave: Callable[[], Awaitable[None]]

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Runs one question to the read path."""
        return asyncio.run(self._asked(question))

    async def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        try:
            return await question
        finally:
            await self.leave()


@contextmanager
def opened(settings: Settings) -> Iterator[OpenedStores]:
    """Raises NoData for a folder that isn't there, and whatever keeps this version from reading it."""
    require_folder(settings.data)
    profile = choose(settings)
    try:
        profile.prepare()
        yield OpenedStores(ports=profile.ports(), reads=profile.reads, leave=profile.leave)
    finally:
        profile.close()


def require_schema(settings: Settings) -> None:
    """For a role that runs alone; verbs need no log. Raises SchemaNewer, SchemaOlder or SchemaChanged, and Environment
    where the log will never let it in."""
    profile = choose(settings)
    try:
        profile.prepare()
        profile.require_log()
    finally:
        profile.close()


def system_of(profile: Profile, settings: Settings, role: str, metrics: Metrics | None = None) -> System:
    profile.warm()
    metrics = metrics or Metrics()
    ports = profile.ports(metrics)
    return build_system(ports=ports, settings=settings, metrics=metrics, owner=owner(role, ports.nonces.new()))


def overview_of(ports: Ports, settings: Settings) -> Overview:
    return build_overview(build_system(ports=ports, settings=settings, metrics=Metrics(), owner="nobody"))


def owner(role: str, nonce: str) -> str:
    """Says to a person which process it is, and is no other process's name ever."""
    return f"{role}-{os.getpid()}-{nonce}"


def require_folder(data: Path) -> None:
    if not data.is_dir():
        raise NoData(f"The folder is {data}.")


# The throttles that hold work back at this moment, ramps included.


def holding(ports: Ports) -> frozenset[str]:
    """Their ids: a slice that one of them parked, and that nothing has queued since, is parked."""
    now = ports.clock.now()
    found = ports.throttles.since(now - RAMP)
    return frozenset(throttle.id for throttle in found if throttle.active(now) or throttle.ramping(now))
