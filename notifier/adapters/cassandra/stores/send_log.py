"""What was sent to phones: windows by conditional writes before they are sent, and what was missed of them after."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import TypeVar

from notifier.adapters.cassandra.driver.batching import TOGETHER, together
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.codec.push import pack_intent, pack_outcome, unpack_window
from notifier.domain.audience.tiers import Tier
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Platform
from notifier.domain.push.send_log import Sending, Window

RUN = 64
"""Shards whose windows of a provider and tier are one partition, and are written by one round of Paxos: a worker has as
many at a time, and mostly nobody else has any of them."""
AT_ONCE = 16_384
"""Bytes of intents in such a round: those of 64 shards with few people each are 3 KB, and a crowd's is alone."""
IN_A_MESSAGE = 4_096
"""Bytes of outcomes: of more than 5 KiB in several rows the server would warn, and above 50 refuse."""

# No TTL is bound: a window doesn't say when its burst opened, and the default is a day more than it can be delivered.
_INTEND = """
    INSERT INTO sendings (subject, seq, platform, tier, run, shard, n, intent) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    IF NOT EXISTS
"""
_CLOSE = """
    UPDATE sendings SET outcome = ?
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND run = ? AND shard = ? AND n = ?
"""
_READ = """
    SELECT shard, n, intent, outcome FROM sendings
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND run = ? AND shard IN ?
"""

Key = tuple[str, int, str, str, int, int, int]
"""Of the partition, and then shard and n."""
Intent = tuple[str, int, str, str, int, int, int, bytes]

T = TypeVar("T")


class CassandraSent:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        # By a quorum, not at SERIAL: a window that may be sent was written by one. Whoever misses one whose writer had
        # no answer, and so sent nothing, gives its number to another, and is told that it is taken.
        runs = [(run, list(some)) for run, some in groupby(sorted(shards), lambda shard: shard // RUN)]
        each = [(tier, run, some) for tier in Tier for run, some in runs]
        asked = [(str(burst.subject), burst.seq, str(platform), str(tier), run, some) for tier, run, some in each]
        found = defaultdict[Sending, list[Window]](list)
        for (tier, _, _), rows in zip(each, self._cluster.ask_each(_READ, asked), strict=True):
            for shard, n, intent, outcome in rows:
                if intent is not None:  # else it is over, and what was missed outlives it by a moment
                    found[Sending(burst, tier, shard, platform)].append(unpack_window(n, intent, outcome))
        return dict(found)

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        keys = [_key(sending, window) for sending, window in windows]
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        rows = [(*keys[place], pack_intent(windows[place][1])) for place in sorted(first.values())]
        written = {row[:-1] for groups in _rounds(rows) for row in self._written(groups)}
        return [key in written and first[key] == place for place, key in enumerate(keys)]

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        rows = [(pack_outcome(window), *_key(sending, window)) for sending, window in windows]
        messages = _sized(rows, lambda row: len(row[0]), most=IN_A_MESSAGE, rows=TOGETHER)
        self._cluster.ask_all(together(_CLOSE, some) for some in messages)

    def _written(self, groups: Sequence[Sequence[Intent]]) -> Iterator[Intent]:
        for group, all_of_it in zip(groups, self._cluster.decide_together(_INTEND, groups), strict=True):
            if _known(all_of_it):
                yield from group
            elif len(group) > 1:
                # One of them was there already, so none was written: they are tried one by one.
                yield from (row for row in group if _known(self._cluster.decide_each([(_INTEND, row)])[0]))


def _known(written: bool | None) -> bool:
    """Raises without an answer, or somebody would be sent to by a window that nobody knows of. Of those that do stand
    nothing is sent then: they are found broken, and sent with the same ids."""
    if written is None:
        raise StoreUnavailable("Whether what is to be sent was written isn't known.")
    return written


def _rounds(rows: Iterable[Intent]) -> Iterator[Sequence[Sequence[Intent]]]:
    """Groups to be written side by side, of each partition one: two would stand in each other's way at its Paxos."""
    partitions = defaultdict[tuple[object, ...], list[Intent]](list)
    for row in rows:
        partitions[row[:5]].append(row)
    each = [_sized(some, lambda row: len(row[-1]), most=AT_ONCE, rows=RUN) for some in partitions.values()]
    for groups in zip_longest(*each):
        yield [group for group in groups if group]


def _sized(each: Iterable[T], size: Callable[[T], int], *, most: int, rows: int) -> Iterator[list[T]]:
    """What is larger than the most is alone."""
    some, total = list[T](), 0
    for one in each:
        if some and (len(some) == rows or total + size(one) > most):
            yield some
            some, total = [], 0
        some.append(one)
        total += size(one)
    if some:
        yield some


def _key(sending: Sending, window: Window) -> Key:
    burst, shard = sending.burst, sending.shard
    return str(burst.subject), burst.seq, str(sending.platform), str(sending.tier), shard // RUN, shard, window.n
