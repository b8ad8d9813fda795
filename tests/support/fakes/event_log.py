"""In-memory event log: partitions as lists and leases by the clock; `poll` never blocks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from zlib import crc32

from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.topics import PARTITION_COUNTS

LEASE = timedelta(seconds=5)


@dataclass(slots=True)
class _Hold:
    consumer: "MemoryConsumer"
    until: datetime


@dataclass(slots=True)
class _Group:
    """Consumer group of one stream."""

    alive: dict["MemoryConsumer", datetime] = field(default_factory=dict)
    """When each consumer's membership expires."""
    holds: dict[str, _Hold] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)


class MemoryEventLog:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.partitions: dict[str, list[Record]] = defaultdict(list)
        """An offset is an index into the list."""
        self._groups: dict[tuple[str, str], _Group] = defaultdict(_Group)

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            number = crc32(record.key.encode()) % PARTITION_COUNTS[record.stream]
            self.partitions[f"{record.stream}/{number}"].append(record)

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        commits = self._groups[stream, group].commits
        uncommitted = (
            Logged(partition=name, offset=offset, record=record)
            for name in (f"{stream}/{number}" for number in range(PARTITION_COUNTS[stream]))
            for offset, record in enumerate(self.partitions[name])
            if offset > commits.get(name, -1)
        )
        return islice(uncommitted, limit)

    def drop_committed(self, before: datetime) -> int:
        return 0

    def subscribe(self, stream: str, group: str, owner: str) -> "MemoryConsumer":
        return MemoryConsumer(self, self._groups[stream, group], stream, owner)


class MemoryConsumer:
    def __init__(self, log: MemoryEventLog, group: _Group, stream: str, owner: str) -> None:
        self.owner = owner
        self._log = log
        self._group = group
        self._names = [f"{stream}/{number}" for number in range(PARTITION_COUNTS[stream])]
        self._polled: dict[str, int] = {}
        """Last polled offsets of the partitions held, in the order of the next reads."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        self._keep_share()
        polled: list[Logged] = []
        for partition in list(self._polled):
            polled += self._next(partition, limit - len(polled))
            if len(polled) == limit:
                break
        return polled

    def commit(self, positions: Mapping[str, int]) -> None:
        commits = self._group.commits
        commits |= {p: max(offset, commits.get(p, -1)) for p, offset in positions.items() if self._holds(p)}

    def still_owns_polled_records(self) -> bool:
        held = list(filter(self._holds, self._polled))
        if held and len(held) == len(self._polled):
            return True
        self._polled = {p: self._group.commits.get(p, -1) for p in held}
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
        held = list(filter(self._holds, self._names))
        for partition in held[due:]:
            del holds[partition]
        free = [p for p in self._names if p not in held and (p not in holds or holds[p].until <= now)]
        kept = [*held[:due], *free[: max(0, due - len(held))]]
        holds |= {partition: _Hold(self, now + LEASE) for partition in kept}
        started = {p: self._group.commits.get(p, -1) for p in kept if p not in held}
        self._polled = {p: started[p] if p in started else self._polled[p] for p in self._in_turn(kept)}

    def _due(self, now: datetime) -> int:
        """Return the consumer's fair share of partitions; the remainder goes to the first consumers by name."""
        self._group.alive[self] = now + LEASE
        self._group.alive = {consumer: until for consumer, until in self._group.alive.items() if until > now}
        share, remainder = divmod(len(self._names), len(self._group.alive))
        return share + (sorted(consumer.owner for consumer in self._group.alive).index(self.owner) < remainder)

    def _in_turn(self, kept: Sequence[str]) -> Iterator[str]:
        yield from (p for p in self._polled if p in kept)
        yield from (p for p in kept if p not in self._polled)

    def _holds(self, partition: str) -> bool:
        hold = self._group.holds.get(partition)
        return hold is not None and hold.consumer is self
