"""Steps of the log contract tests: append, poll and commit."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from time import monotonic

from notifier.ports.event_log_and_dead_letters import Consumer, Logged, Record
from notifier.topics import MENTIONS, PARTITION_COUNTS
from tests.contracts.event_log_backends import Logs

LEASE = timedelta(seconds=5)
"""Term of a partition's lease in every backend."""
AT_ONCE = timedelta(0)
STREAM = MENTIONS
PARTITION_COUNT = PARTITION_COUNTS[STREAM]


def append(logs: Logs, *keys: str, stream: str = STREAM) -> None:
    logs.log.append([Record(stream=stream, key=key, value=f"{n} of {key}".encode()) for n, key in enumerate(keys)])


def poll(
    logs: Logs, consumer: Consumer, limit: int = 1_000, *, due: int = 1, within: timedelta | None = None
) -> Sequence[Logged]:
    """Poll up to `limit` records until those due have come and the log is quiet, within the backend's patience."""
    return poll_all(logs, [consumer], limit, due=due, within=within)


def poll_all(
    logs: Logs, consumers: Sequence[Consumer], limit: int = 1_000, *, due: int, within: timedelta | None = None
) -> Sequence[Logged]:
    """Poll several consumers, and return all their records together."""
    return [logged for records in poll_each(logs, consumers, limit, due=due, within=within) for logged in records]


def poll_each(
    logs: Logs, consumers: Sequence[Consumer], limit: int = 1_000, *, due: int, within: timedelta | None = None
) -> Sequence[Sequence[Logged]]:
    """Return the records of each consumer. They are polled in turns: an idle consumer blocks a rebalance."""
    records: list[list[Logged]] = [[] for _ in consumers]
    deadline = monotonic() + (logs.patience if within is None else within).total_seconds()
    empty = total = 0
    while True:
        for consumer, own in zip(consumers, records, strict=True):
            own.extend(consumer.poll(limit - sum(map(len, records)), AT_ONCE))
        total, total_before = sum(map(len, records)), total
        empty = empty + 1 if total_before >= due and total == total_before else 0
        if total >= limit or monotonic() >= deadline or empty >= logs.empty_polls:
            return records


def is_empty(logs: Logs, consumer: Consumer) -> bool:
    """Return whether no record comes in the time that a connected consumer needs to receive one."""
    return not poll(logs, consumer, within=logs.patience / 15)


def commit(consumer: Consumer, polled: Iterable[Logged]) -> None:
    consumer.commit({logged.partition: logged.offset for logged in polled})


def commit_all(logs: Logs, consumer: Consumer) -> None:
    """Poll and commit until nothing is left: on a busy machine a late commit is lost, and its records come again."""
    deadline = monotonic() + 60.0
    while consumer.lag():
        assert monotonic() < deadline
        commit(consumer, poll(logs, consumer))


def keys(polled: Iterable[Logged]) -> list[str]:
    return sorted(logged.record.key for logged in polled)


def partitions(polled: Iterable[Logged]) -> set[str]:
    return {logged.partition for logged in polled}


KEYS = [f"k{n}" for n in range(64)]
"""Enough keys to put some in every partition."""
