"""The engines of a trial in the cluster profile: started in its folder, struck by its faults, gone with it."""

import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from notifier.config import Settings
from notifier.devkit.cql_proxy import CqlProxy
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.engines.fleet import Fleet
from notifier.devkit.engines.reaper import watched
from notifier.devkit.tcp_proxy import Proxy
from notifier.domain.errors import Unavailable
from notifier.profiles import Profile
from notifier.profiles.data_folder import locked, writable

SERVE_WITHIN = 90.0
"""Seconds from when they listen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Struck by their names. Every method returns when the engine may answer again, and raises Environment."""

    fleet: Fleet
    sync: Sync
    proxies: Mapping[str, Proxy] = field(default_factory=dict)
    """Before those whose network is to fail."""

    def kill(self, name: str, away: float = 0.0) -> None:
        """And started again after so many seconds: what its operators would do."""
        self.fleet.strike(self.sync, name, away)

    def freeze(self, name: str, seconds: float) -> None:
        self.fleet.freeze(name, seconds)

    def cut(self, name: str, seconds: float) -> None:
        self.proxies[name].cut(seconds)

    def slow(self, name: str, seconds: float, latency: float) -> None:
        self.proxies[name].slow(seconds, latency)

    def refuse(self, seconds: float) -> bool:
        """Cassandra alone, because no other proxy can read what it carries. False when nothing was asked meanwhile."""
        proxy = self.proxies["cassandra"]
        assert isinstance(proxy, CqlProxy)
        return proxy.refuse(seconds)


@contextmanager
def engines(
    data: Path, profile: str, sync: Sync, *, fresh: bool = False, proxied: Collection[str] = ()
) -> Iterator[Engines | None]:
    """None for the embedded profile, and where settings name engines that somebody else runs.

    What they have stored stays in the folder, unless it is to be fresh. Raises Environment or DataLocked.
    """
    settings = Settings.read(data=data, profile=profile)
    fleet = Fleet(folder=data / "services", cache=settings.jars.expanduser())
    if profile != "cluster" or (settings.kafka.servers and not fleet.note.exists()):
        yield None
        return
    if fresh:
        _forget(data, fleet)
    with ExitStack() as closing:
        proxies = {name: CqlProxy() if name == "cassandra" else Proxy() for name in proxied}
        for proxy in proxies.values():
            closing.callback(proxy.close)
        fleet = Fleet(
            folder=fleet.folder, cache=fleet.cache, fronts={name: proxy.port for name, proxy in proxies.items()}
        )
        closing.enter_context(watched(fleet.folder))
        closing.callback(fleet.down)
        fleet.up(sync, lambda engine, seconds: None)
        for name, proxy in proxies.items():
            one = fleet.standing()[name]
            proxy.upstream = (one.host, one.port)
        yield Engines(fleet=fleet, sync=sync, proxies=proxies)


def _forget(data: Path, fleet: Fleet) -> None:
    writable(data / "run")
    with locked(data / "run" / "lock"):
        fleet.down()
        shutil.rmtree(fleet.folder, ignore_errors=True)


def migrate_patiently(profile: Profile) -> None:
    """Migrate once the engines serve: on a busy machine a broker that listens refuses its first clients for a while."""
    deadline = time.monotonic() + SERVE_WITHIN
    while True:
        try:
            profile.migrate()
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
