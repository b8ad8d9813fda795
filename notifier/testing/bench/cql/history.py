"""The same bursts of many inbox windows as block rows, as member rows, and as a partition for each member."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import numpy as np

from notifier.adapters.cassandra import CassandraInbox, Cluster
from notifier.adapters.system_clock import SystemClock
from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_MEMBERS, from_flags
from notifier.domain.block import INBOX_WINDOW, THRESHOLD, Rows, cut, window_of
from notifier.domain.subject import BurstKey
from notifier.testing.bench.cql.bursts import NO_BLOCKS, SUBJECT
from notifier.testing.bench.cql.writers import Batches, Stock

SHARE = 0.25
BURSTS = 160
"""In each inbox window: 40 rows a person, so that the newest has a page for nearly everybody."""
PEOPLE = 2 * BLOCK_MEMBERS
"""In each layout."""
OF_BLOCKS, OF_MEMBERS = 0, 1
"""Shards, so that the layouts have partitions of their own. The third is a table, with the second's people."""


def fill(cluster: Cluster, windows: int, tell: Callable[[str], None], bursts: int = BURSTS) -> None:
    inbox, stock = CassandraInbox(cluster, SystemClock()), Stock(cluster.access)
    try:
        made, everybody = _made(windows, bursts), Batches(stock)
        for number in range(windows):
            tell(f"filling inbox window {number + 1} of {windows}")
            rows = [next(made) for _ in range(bursts)]
            inbox.write([each for pair in rows for each in pair])
            everybody.ready([members for _, members in rows])()
    finally:
        stock.close()


def first_of_shard(shard: int) -> int:
    return shard * SHARD_MEMBERS


def _made(windows: int, bursts: int) -> Iterator[tuple[Rows, Rows]]:
    """Each burst as block rows and as member rows, of the same people; oldest first."""
    random = np.random.default_rng(1)
    for seq, opened_at in enumerate(openings(SystemClock().now(), windows, bursts), 1):
        bits = from_flags(random.random(PEOPLE) < SHARE)
        for_blocks, for_members = (
            cut(
                bits,
                burst=BurstKey(SUBJECT, seq),
                opened_at=opened_at,
                tier=Tier.P1,
                shard=shard,
                threshold=threshold,
            )
            for shard, threshold in ((OF_BLOCKS, THRESHOLD), (OF_MEMBERS, NO_BLOCKS))
        )
        yield for_blocks, for_members


def openings(now: datetime, windows: int, bursts: int = BURSTS) -> Iterator[datetime]:
    """Evenly over each inbox window, and over what has passed of the newest."""
    begun = now - (now - datetime(1970, 1, 1, tzinfo=now.tzinfo)) % INBOX_WINDOW
    for back in range(windows - 1, -1, -1):
        begin = begun - back * INBOX_WINDOW
        step = min(INBOX_WINDOW, now - begin) / (bursts + 1)
        for number in range(bursts):
            opened_at = begin + (number + 1) * step
            assert window_of(opened_at) == window_of(now) - back
            yield opened_at - timedelta(microseconds=opened_at.microsecond % 1_000)
