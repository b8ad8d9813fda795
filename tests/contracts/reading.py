"""What the contracts of the log do with it: append, poll and commit."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from time import monotonic

from notifier.ports.log import Consumer, Logged, Record
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
    found = _asked(consumers, limit)
    deadline = monotonic() + (logs.patience if within is None else within).total_seconds()
    empty = 0
    while len(found) < limit and monotonic() < deadline and empty < logs.quiet:
        more = _asked(consumers, limit - len(found))
        found += more
        empty = empty + 1 if len(found) >= due and not more else 0
    return found


def _asked(consumers: Sequence[Consumer], limit: int) -> list[Logged]:
    return [one for consumer in consumers for one in consumer.poll(limit, AT_ONCE)]


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
