"""The pull index on every backend, and bursts to fill it with."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect_async
from notifier.adapters.redis.pull_index_reader import RedisPullReader
from notifier.adapters.redis.pull_index_writer import RedisPullIndex
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey, Lane, Subject, UserId
from notifier.ports.pull_index import NewestPositions, PullIndex
from tests.contracts.valkey_fixture import Valkey
from tests.support.fakes.clock_and_nonces import CountedNonces, ManualClock
from tests.support.fakes.pull_index import MemoryPullIndex

NOVA, ADA, BO = (Subject.parse(f"mention:{name}") for name in ("nova", "ada", "bo"))
SUBJECTS = (NOVA, ADA, BO)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
BEFORE = NOON - timedelta(days=7)
BEGINNING_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    index: PullIndex
    wipe: Callable[[], None]
    read_newest: Callable[[Collection[Subject]], NewestPositions]
    clock: ManualClock

    def rebuild(self, bursts: Sequence[Burst], since: datetime = BEFORE) -> None:
        """Read the generation, and rebuild."""
        self.index.generation()
        self.finish_rebuild(bursts, since)

    def finish_rebuild(self, bursts: Sequence[Burst], since: datetime = BEFORE, *, page: int = 1_000) -> None:
        """Rebuild the index from bursts that were read after the last call of `generation`."""
        newest = sorted(bursts, key=lambda burst: (burst.opened_at, burst.key), reverse=True)
        pages = [newest[at : at + page] for at in range(0, len(newest), page)]
        self.index.rebuild(pages, since, self.clock.now())


def memory() -> Backend:
    clock = ManualClock(NOON)
    index = MemoryPullIndex(clock)
    return Backend(
        index=index, wipe=index.wipe, clock=clock, read_newest=lambda subjects: asyncio.run(index.read_newest(subjects))
    )


def on_valkey(valkey: Valkey) -> Backend:
    clock = ManualClock(NOON)

    async def read_newest(subjects: Collection[Subject]) -> NewestPositions:
        async with connect_async(valkey.patient_url) as client:
            return await RedisPullReader(client, clock).read_newest(subjects)

    return Backend(
        index=RedisPullIndex(valkey.client, CountedNonces()),
        wipe=valkey.wipe,
        clock=clock,
        read_newest=lambda subjects: asyncio.run(read_newest(subjects)),
    )


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return _backend(request.param, request)


@pytest.fixture(params=["memory", "valkey"])
def fast_backend(request: pytest.FixtureRequest) -> Backend:
    """A backend for thousands of reads: a cluster client would load its map each time, and the scripts are the same."""
    return _backend(request.param, request)


def _backend(name: str, request: pytest.FixtureRequest) -> Backend:
    if name == "memory":
        return memory()
    return on_valkey(cast(Valkey, request.getfixturevalue(name)))


def burst(seq: int, subject: Subject = NOVA, *, opened_at: datetime | None = None) -> Burst:
    time = opened_at or NOON + timedelta(minutes=seq)
    return Burst(
        key=BurstKey(subject, seq),
        version=1,
        opened_at=time,
        accepted_at=time,
        lane=Lane.CELEBRITY,
        verdict=Verdict.ALL,
        mentioners=(UserId("zoe"),),
        more_mentioners=False,
        count=1,
        first_of_day=False,
        restricted_to=None,
        tweet="t",
        text="",
    )


def seqs(pulled: NewestPositions) -> list[int]:
    return [place.burst.seq for place in pulled.positions]
