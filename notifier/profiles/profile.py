"""Interface of a profile: the ports of a process and the services behind them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from notifier.domain.delivery.slice import Pool
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
    value: float | int | str | None = None
    limit: float | int | str | None = None


class Profile(Protocol):
    def pending(self) -> Sequence[str]:
        """Return the names of the migrations that `migrate` would apply. Raises SchemaNewer or SchemaChanged."""
        ...

    def migrate(self, phase: str | None = None) -> int:
        """Migrate the store to the schema of this code and return the number of applied steps. Raises SchemaNewer.

        Without a phase all steps run. The steps of phase `pre` only add, and may run while old code still serves. Those
        of phase `post` remove, and may only run once no old code is left.
        """
        ...

    def prepare(self) -> None:
        """Ensure that the store has the schema of this code: migrate a private store, only check a shared one.

        Raises SchemaNewer or SchemaOlder.
        """
        ...

    def warm(self) -> None:
        """Warm up a role: prepare what its first work would otherwise wait for. Outages are ignored."""
        ...

    def services(self, on_locked: Callable[[], None] = lambda: None) -> AbstractContextManager[Mapping[str, str]]:
        """Lock the data folder and run the profile's own services until the block ends. For the main process only.

        `on_locked` is called after the lock is taken and before any service starts. If it raises, no service starts.
        Yields the environment that child processes need to find the services. Raises DataLocked or NoValkey, and
        CacheUnavailable if a configured Redis does not answer.
        """
        ...

    def require_services(self) -> None:
        """Check the requirements of `services` without starting anything. Raises NoValkey or CacheUnavailable."""
        ...

    def inspect(self) -> Iterator[Inspection]:
        """Inspect the external engines without changing them. Takes at most five seconds, even if one hangs."""
        ...

    def require_log(self) -> None:
        """Check a role's access to the log. Raises Environment if a setting must change; an outage is no error."""
        ...

    def redis_url(self) -> str:
        """Return the URL of the Redis that the processes on this data folder use now."""
        ...

    def pids(self) -> Mapping[str, int]:
        """Return the pids of the services that this process runs, by name."""
        ...

    def processes(self) -> Mapping[Pool, int]:
        """Return the number of worker processes of each pool that needs more than one per machine."""
        ...

    def ports(self, metrics: Metrics | None = None) -> Ports:
        """Return the ports of this process. They connect at first use and are not shared across a fork.

        With `metrics` the adapters count discarded data. Only roles expose metrics.
        """
        ...

    def reads(self, metrics: Metrics | None = None) -> ReadPorts:
        """Return the asynchronous read ports for one event loop. They connect at first use."""
        ...

    async def close_reads(self) -> None:
        """Close the connections that the read ports of this event loop opened."""
        ...

    def application(self, pool: Pool, metrics: Metrics | None = None) -> Any:
        """Return the pool's Celery application, which the worker host runs. Does not connect yet."""
        ...

    def flush_redis(self) -> bool:
        """Flush the private Redis of this data folder, to simulate an operator error. False if there is none."""
        ...

    def close(self) -> None: ...
