"""Opens the stores of a data folder for one command, and closes them afterwards."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from notifier.config import Settings
from notifier.domain.delivery.throttle_and_backpressure import RAMP
from notifier.domain.errors import NoData
from notifier.flow.operations.overview import Overview
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.profiles import Profile, choose
from notifier.wiring.operations import build_overview
from notifier.wiring.shared_parts import System, build_system

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedStores:
    """Ports of this process for one data folder."""

    ports: Ports
    connect_reads: Callable[[], ReadPorts]
    """Opens the ports of the read path. Call it in the coroutine of `run_query`, whose loop owns the connections."""
    close_reads: Callable[[], Awaitable[None]]

    def run_query(self, query: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in a new event loop, then close the connections of the read path."""
        return asyncio.run(self._run_query(query))

    async def _run_query(self, query: Coroutine[Any, Any, T]) -> T:
        try:
            return await query
        finally:
            await self.close_reads()


@contextmanager
def open_stores(settings: Settings) -> Iterator[OpenedStores]:
    """Open the stores while the block lasts. Raises NoData if the folder doesn't exist."""
    require_folder(settings.data)
    profile = choose(settings)
    try:
        profile.ensure_schema()
        yield OpenedStores(ports=profile.ports(), connect_reads=profile.read_ports, close_reads=profile.close_reads)
    finally:
        profile.close()


def require_schema(settings: Settings) -> None:
    """Ensure that the store has the schema of this version, and check that this process may use the log."""
    profile = choose(settings)
    try:
        profile.ensure_schema()
        profile.require_log()
    finally:
        profile.close()


def system_of(profile: Profile, settings: Settings, process_name: str, metrics: Metrics | None = None) -> System:
    profile.warm()
    metrics = metrics or Metrics()
    ports = profile.ports(metrics)
    return build_system(
        ports=ports, settings=settings, metrics=metrics, owner=owner_name(process_name, ports.nonces.new())
    )


def overview_of(ports: Ports, settings: Settings) -> Overview:
    return build_overview(build_system(ports=ports, settings=settings, metrics=Metrics(), owner="nobody"))


def owner_name(process_name: str, nonce: str) -> str:
    """Return a readable and unique name of this process for leases and claims."""
    return f"{process_name}-{os.getpid()}-{nonce}"


def require_folder(data: Path) -> None:
    if not data.is_dir():
        raise NoData(f"The folder is {data}.")


def active_throttle_ids(ports: Ports) -> frozenset[str]:
    """Return the ids of the throttles that hold work back now, including those in their ramp."""
    now = ports.clock.now()
    throttles = ports.throttles.ending_after(now - RAMP)
    return frozenset(throttle.id for throttle in throttles if throttle.is_active(now) or throttle.is_ramping(now))
