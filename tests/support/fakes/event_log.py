"""The event log in memory: partitions as lists, leases by the clock; `poll` never really waits."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from zlib import crc32

from notifier.ports.coordination import Clock
from notifier.ports.event_log import Logged, Record
from notifier.topics import PARTITIONS

LEASE = timedelta(seconds=5)


@dataclass(slots=True)
class _Hold:
    consumer: "MemoryConsumer"
    until: datetime


@dataclass(slots=True)
class _Group:
    """Of one stream."""

    alive: dict["MemoryConsumer", datetime] = field(default_factory=dict)
    """Until when each is counted."""
    holds: dict[str, _Hold] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)


class MemoryLog:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.partitions: dict[str, list[Record]] = defaultdict(list)
        """An offset is a place in the list."""
        self._groups: dict[tuple[str, str], _Group] = defaultdict(_Group)

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            number = crc32(record.key.encode()) % PARTITIONS[record.stream]
            self.partitions[f"{record.stream}/{number}"].append(record)

    def waiting(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        commits = self._groups[stream, group].commits
        found = (
            Logged(partition=name, offset=offset, record=record)
            for name in (f"{stream}/{number}" for number in range(PARTITIONS[stream]))
            for offset, record in enumerate(self.partitions[name])
            if offset > commits.get(name, -1)
        )
        return islice(found, limit)

    def forget(self, before: datetime) -> int:
        return 0

    def subscribe(self, stream: str, group: str, owner: str) -> "MemoryConsumer":
        return MemoryConsumer(self, self._groups[stream, group], stream, owner)


class MemoryConsumer:
    def __init__(self, log: MemoryLog, group: _Group, stream: str, owner: str) -> None:
        self.owner = owner
        self._log = log
        self._group = group
        self._names = [f"{stream}/{number}" for number in range(PARTITIONS[stream])]
        self._polled: dict[str, int] = {}
        """Of the partitions held, in the order in which they are read next."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        self._keep_share()
        found: list[Logged] = []
        for partition in list(self._polled):
            found += self._next(partition, limit - len(found))
            if len(found) == limit:
                break
        return found

    def commit(self, positions: Mapping[str, int]) -> None:
        commits = self._group.commits
        commits |= {p: max(offset, commits.get(p, -1)) for p, offset in positions.items() if self._holds(p)}

    def holds(self) -> bool:
        mine = list(filter(self._holds, self._polled))
        if mine and len(mine) == len(self._polled):
            return True
        self._polled = {p: self._group.commits.get(p, -1) for p in mine}
        return False

    def lag(self) -> int:
        commits = self._group.commits
        return sum(len(self._log.partitions[p]) - 1 - commits.get(p, -1) for p in self._polled)

    def close(self) -> None:
        self._group.alive.pop(self, None)
        for partition in filter(self._holds, self._names):
            del self._group.holds[partition]
        self._polled = {}

    def _next(self, partition: str, limit: int) -> Iterator[Logged]:
        start = self._polled.pop(partition) + 1
        records = self._log.partitions[partition][start : start + limit]
        self._polled[partition] = start + len(records) - 1
        return (
            Logged(partition=partition, offset=offset, record=record) for offset, record in enumerate(records, start)
        )

    def _keep_share(self) -> None:
        now, holds = self._log.clock.now(), self._group.holds
        due = self._due(now)
        mine = list(filter(self._holds, self._names))
        for partition in mine[due:]:
            del holds[partition]
        free = [p for p in self._names if p not in mine and (p not in holds or holds[p].until <= now)]
        kept = [*mine[:due], *free[: max(0, due - len(mine))]]
        holds |= {partition: _Hold(self, now + LEASE) for partition in kept}
        started = {p: self._group.commits.get(p, -1) for p in kept if p not in mine}
        self._polled = {p: started[p] if p in started else self._polled[p] for p in self._in_turn(kept)}

    def _due(self, now: datetime) -> int:
        """How many partitions are the consumer's share: as even as can be, the rest to the first by name."""
        self._group.alive[self] = now + LEASE
        self._group.alive = {consumer: until for consumer, until in self._group.alive.items() if until > now}
        each, rest = divmod(len(self._names), len(self._group.alive))
        return each + (sorted(consumer.owner for consumer in self._group.alive).index(self.owner) < rest)

    def _in_turn(self, kept: Sequence[str]) -> Iterator[str]:
        yield from (p for p in self._polled if p in kept)
        yield from (p for p in kept if p not in self._polled)

    def _holds(self, partition: str) -> bool:
        hold = self._group.holds.get(partition)
        return hold is not None and hold.consumer is self
