"""What a profile gives: the ports of a process, and the services behind them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from notifier.domain.delivery.slice import Pool
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.profiles.health import Inspection


class Profile(Protocol):
    def pending(self) -> Sequence[str]:
        """The names of the steps that `migrate` would take. Raises SchemaNewer or SchemaChanged."""
        ...

    def migrate(self, phase: str | None = None) -> int:
        """Brings the store to the code's schema; returns how many steps that took. Raises SchemaNewer.

        In one go, or in two phases: `pre` adds, before new code starts and while the old serves; `post` takes away,
        once no old code runs.
        """
        ...

    def prepare(self) -> None:
        """Returns once this code can work on the store: one of our own is migrated, one that is shared with other
        processes is only looked at. Raises SchemaNewer or SchemaOlder.
        """
        ...

    def warm(self) -> None:
        """For a role: does beforehand what its first work would wait for. What is away now is no hindrance."""
        ...

    def services(self, alone: Callable[[], None] = lambda: None) -> AbstractContextManager[Mapping[str, str]]:
        """Runs what the profile needs besides itself while the block lasts, and locks the data; for one process only.

        `alone` is called once the data is locked and before anything runs on it; where it raises, nothing does.
        Gives the environment with which the other processes find it. Raises DataLocked or NoValkey,
        and CacheUnavailable where a given Redis never answered.
        """
        ...

    def require_services(self) -> None:
        """Returns where `services` finds what it needs, and starts nothing. Raises NoValkey or CacheUnavailable."""
        ...

    def inspect(self) -> Iterator[Inspection]:
        """What is right and wrong with the engines that somebody else runs: within five seconds, whatever hangs, and
        without a change to any of them.
        """
        ...

    def require_log(self) -> None:
        """For a role: returns where the log lets us in, or may do so later. Raises Environment where it never will."""
        ...

    def redis_url(self) -> str:
        """Of the Redis that is used now, by whoever runs on this data."""
        ...

    def pids(self) -> Mapping[str, int]:
        """Of the services that this process runs now, by name."""
        ...

    def processes(self) -> Mapping[Pool, int]:
        """Of the pools that have more than one on a machine of their own."""
        ...

    def ports(self, metrics: Metrics | None = None) -> Ports:
        """Of this process: nothing is shared with a parent or a child. Connects at first use.

        With metrics the adapters count what they discard; only a role has somebody who reads them.
        """
        ...

    def reads(self, metrics: Metrics | None = None) -> ReadPorts:
        """Of one event loop; connects at first use."""
        ...

    async def leave(self) -> None:
        """Closes what the reads of this event loop have opened."""
        ...

    def application(self, pool: Pool, metrics: Metrics | None = None) -> Any:
        """The Celery application of the pool, which its host runs; connects to nothing yet."""
        ...

    def empty(self) -> bool:
        """Empties the cache that runs for this data alone, as by an operator's mistake; False where there is none."""
        ...

    def close(self) -> None: ...
