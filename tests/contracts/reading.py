"""What the contracts of the log do with it: append, poll and commit."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from time import monotonic

from notifier.ports.event_log import Consumer, Logged, Record
from notifier.topics import MENTIONS, PARTITIONS
from tests.contracts.logs import Logs

LEASE = timedelta(seconds=5)
AT_ONCE = timedelta(0)
STREAM = MENTIONS
ALL = PARTITIONS[STREAM]


def append(logs: Logs, *keys: str, stream: str = STREAM) -> None:
    logs.log.append([Record(stream=stream, key=key, value=f"{n} of {key}".encode()) for n, key in enumerate(keys)])


def poll(
    logs: Logs, consumer: Consumer, limit: int = 1_000, *, due: int = 1, within: timedelta | None = None
) -> Sequence[Logged]:
    """At most so many, of what comes while the backend's patience lasts: what is due, and then until it is quiet."""
    return poll_all(logs, [consumer], limit, due=due, within=within)


def poll_all(
    logs: Logs, consumers: Sequence[Consumer], limit: int = 1_000, *, due: int, within: timedelta | None = None
) -> Sequence[Logged]:
    """The same of what comes to any of them."""
    return [one for found in poll_each(logs, consumers, limit, due=due, within=within) for one in found]


def poll_each(
    logs: Logs, consumers: Sequence[Consumer], limit: int = 1_000, *, due: int, within: timedelta | None = None
) -> Sequence[Sequence[Logged]]:
    """By consumer. They are polled in turns, for who isn't polled keeps the others from sharing anew."""
    found: list[list[Logged]] = [[] for _ in consumers]
    deadline = monotonic() + (logs.patience if within is None else within).total_seconds()
    empty = had = 0
    while True:
        for consumer, its in zip(consumers, found, strict=True):
            its.extend(consumer.poll(limit - sum(map(len, found)), AT_ONCE))
        had, before = sum(map(len, found)), had
        empty = empty + 1 if before >= due and had == before else 0
        if had >= limit or monotonic() >= deadline or empty >= logs.quiet:
            return found


def nothing(logs: Logs, consumer: Consumer) -> bool:
    """Whether nothing comes, for as long as it takes to come for who is there already."""
    return not poll(logs, consumer, within=logs.patience / 15)


def commit(consumer: Consumer, polled: Iterable[Logged]) -> None:
    consumer.commit({logged.partition: logged.offset for logged in polled})


def finish(logs: Logs, consumer: Consumer) -> None:
    """Until nothing is left: on a busy machine a commit may come too late, and what it was for comes again."""
    deadline = monotonic() + 60.0
    while consumer.lag():
        assert monotonic() < deadline
        commit(consumer, poll(logs, consumer))


def keys(polled: Iterable[Logged]) -> list[str]:
    return sorted(logged.record.key for logged in polled)


def partitions(polled: Iterable[Logged]) -> set[str]:
    return {logged.partition for logged in polled}


KEYS = [f"k{n}" for n in range(64)]
"""Enough for every partition to have some."""
