"""Interface of a profile: a process's ports, and the engines behind them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Result of one check of an external engine."""

    name: str
    level: Level = "ok"
    detail: str
    remedy: str = ""
    """Advice for the operator; empty if nothing is wrong."""
    value: float | int | str | None = None
    limit: float | int | str | None = None
    """The limit that `value` was compared with."""


class Profile(Protocol):
    """Technologies of one process: its ports, and what the commands need to know about the engines behind them."""

    def pending(self) -> Sequence[str]:
        """Return the names of the migrations that `migrate` would apply. Raises UnusableEnvironment or Unavailable."""
        ...

    def migrate(self, phase: str | None = None) -> int:
        """Migrate the store to the schema of this code, and return the number of applied steps.

        Without a phase all steps run. Steps of the phase `pre` only add, and may run while processes of an older
        version still serve. Steps of the phase `post` remove, and may run only once no such process is left. Raises
        UnusableEnvironment, Unavailable or DiskFull.
        """
        ...

    def ensure_schema(self) -> None:
        """Ensure that the store has the schema of this code. Raises UnusableEnvironment, Unavailable or DiskFull.

        The embedded profile migrates its own files. The cluster profile only checks the keyspace, which other processes
        share, and ignores outages.
        """
        ...

    def warm(self) -> None:
        """Prepare the store's statements, so that the first reads of a role are not slow. Ignores outages."""
        ...

    def services(self, on_locked: Callable[[], None] = lambda: None) -> AbstractContextManager[Mapping[str, str]]:
        """Lock the data folder, and run the services that this machine provides, until the block ends.

        The embedded profile runs a Valkey server unless a Redis is configured; the cluster profile runs nothing.
        `on_locked` is called once the folder is locked; if the callback raises, no service starts. The block gets the
        environment variables with which child processes find the services.

        Raises UnusableEnvironment, and CacheUnavailable if a configured Redis does not answer.
        """
        ...

    def require_services(self) -> None:
        """Check that the configured Redis answers or, without one, that Valkey is installed.

        Raises CacheUnavailable or UnusableEnvironment.
        """
        ...

    def inspect(self) -> Iterator[Inspection]:
        """Inspect the external engines without changing them. Takes about five seconds at most."""
        ...

    def require_log(self) -> None:
        """Check that this process may use the log. Ignores outages.

        Raises UnusableEnvironment if a setting must change.
        """
        ...

    def redis_url(self) -> str:
        """Return the URL of the Redis that processes on this data folder must use now."""
        ...

    def service_pids(self) -> Mapping[str, int]:
        """Return the process ids of the services that this process runs, by name of the service."""
        ...

    def worker_counts(self) -> Mapping[Pool, int]:
        """Return the number of worker processes per machine, for each pool that needs more than one."""
        ...

    def ports(self, metrics: Metrics | None = None) -> Ports:
        """Return the ports of this process. They connect at first use; a forked process must make its own.

        With `metrics`, the adapters count invalid keys and values in Redis.
        """
        ...

    def read_ports(self, metrics: Metrics | None = None) -> ReadPorts:
        """Return the asynchronous read ports for one event loop. They connect at first use."""
        ...

    async def close_reads(self) -> None:
        """Close the connections that the read ports of this event loop opened."""
        ...

    def celery_app(self, pool: Pool, metrics: Metrics | None = None) -> Any:
        """Return the pool's Celery application, which a worker process runs. Does not connect yet."""
        ...

    def flush_redis(self) -> bool:
        """Empty this data folder's Valkey server, to simulate an operator's mistake. Return False if none runs."""
        ...

    def close(self) -> None: ...
