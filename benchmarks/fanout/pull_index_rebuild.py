"""Measures the rebuild of the pull index from the store after Redis was emptied."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from benchmarks.costs_and_figures import Figure, Spread, median_at_most, seconds
from notifier.adapters.clock_and_nonces import SystemClock, UuidNonces
from notifier.adapters.redis import RedisPullIndex, RedisPullReader, connect, connect_async
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts, SqliteRecentBursts
from notifier.adapters.valkey import ValkeyServer
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey, Lane, Subject, UserId
from notifier.flow.delivery.publishing_and_index_reconciler import REBUILD_WINDOW, burst_pages
from notifier.ports.bursts import Bursts, RecentBursts

SUBJECTS = 2_000
BURSTS, BURSTS_QUICK = 60_000, 10_000
"""Bursts of the three days in the index: ten a day for each subject, a third of what the budgets allow."""
ROUNDS, ROUNDS_QUICK = 5, 3
BURSTS_PER_WRITE = 5_000


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    files = Files.at(folder)
    try:
        files.migrate()
        stored = SqliteBursts(files.core), SqliteRecentBursts(files.core)
        return [measured("redis_rebuild_s", *stored, folder, quick=quick, tell=tell)]
    finally:
        files.close()


def measured(
    name: str, bursts: Bursts, recent: RecentBursts, folder: Path, *, quick: bool, tell: Callable[[str], None]
) -> Figure:
    """Report the time of a rebuild from a store that is empty at the start."""
    clock, server = SystemClock(), ValkeyServer(folder / "run")
    many = BURSTS_QUICK if quick else BURSTS
    try:
        server.start()
        tell(f"filling a store with {many:,} bursts of {SUBJECTS:,} subjects")
        _fill(bursts, many, clock.now())
        with connect(server.url()) as redis:
            index, took = RedisPullIndex(redis, UuidNonces()), []
            for _ in range(ROUNDS_QUICK if quick else ROUNDS):
                redis.flushall()
                took.append(seconds(lambda: _rebuild(index, recent, clock.now())))
                asyncio.run(_require_whole(server.url(), clock))
    finally:
        server.close()
    return _stated(name, took, many)


def _fill(bursts: Bursts, count: int, now: datetime) -> None:
    made = _made(count, now)
    while bursts_batch := list(islice(made, BURSTS_PER_WRITE)):
        bursts.write(bursts_batch, [])


def _made(many: int, now: datetime) -> Iterator[Burst]:
    """Yield bursts evenly spread over the time, the oldest first."""
    begin, step = now - REBUILD_WINDOW, REBUILD_WINDOW / (many + 1)
    for number in range(many):
        opened = begin + step * (number + 1)
        yield Burst(
            key=BurstKey(_subject(number % SUBJECTS), number // SUBJECTS + 1),
            version=1,
            opened_at=opened,
            accepted_at=opened,
            lane=Lane.CELEBRITY,
            verdict=Verdict.ALL,
            mentioners=(UserId("zoe"),),
            more_mentioners=False,
            count=1,
            first_of_day=False,
            restricted_to=None,
            tweet=f"tweet-{number}",
            text="a tweet of the usual length, which mentions an account that many people read",
        )


def _subject(number: int) -> Subject:
    return Subject.parse(f"mention:star{number}")


def _rebuild(index: RedisPullIndex, recent: RecentBursts, now: datetime) -> None:
    """Rebuild as the reconciler does."""
    index.generation()
    index.rebuild(burst_pages(recent, now - REBUILD_WINDOW), now - REBUILD_WINDOW, now)


async def _require_whole(url: str, clock: SystemClock) -> None:
    """Require that the rebuilt index proves its horizon.

    Ten subjects are enough: with more, the newest bursts fill the response.
    """
    subjects = [_subject(number) for number in range(10)]
    async with connect_async(url) as redis:
        pulled = await RedisPullReader(redis, clock).read_newest(subjects)
    reach = clock.now() - REBUILD_WINDOW + timedelta(hours=1)
    assert pulled.positions
    assert pulled.complete_since is not None
    assert pulled.complete_since < reach


def _stated(name: str, took: Sequence[float], many: int) -> Figure:
    figure = median_at_most(name, took, 0.0, detail=f"{many / Spread.of(took).median:,.0f} bursts/s")
    return replace(figure, finding=replace(figure.finding, ok=True, limit=None))
