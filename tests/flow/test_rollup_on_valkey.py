"""From a tab that is opened to the tiers, through a real Valkey and SQLite: who looks is active a round later."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.adapters.redis import RedisActiveHours, RedisActivity
from notifier.adapters.redis.connect import connect_async
from notifier.adapters.sqlite import SqliteDirectory, SqliteEpochs, SqliteLeases, SqliteMemberSets, SqliteStays
from notifier.api.background.activity_recorder import Noting
from notifier.config import Settings
from notifier.domain.audience.activity import FOREVER
from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers import SetKind, Tier, divide
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import InboxView, OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.audience import ShardBlob, Stay
from notifier.ports.directory import DirectoryEntry
from notifier.wiring.indexing import build_activity_roll_up
from notifier.wiring.system import System, build_system
from tests.contracts.backends import migrated
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.in_memory_system import Stage

__all__ = ["valkey", "valkey_server"]

NOVA = Subject(Kind.MENTION, UserId("nova"))
LOADED, IDLE = 1, 2
"""Both follow her; one was active by an import."""


@dataclass(frozen=True)
class Place:
    stage: Stage
    system: System
    valkey: Valkey

    def look(self, member: int) -> None:
        """As the API notes it when a tab is opened."""
        viewer = Viewer(user=UserId("u"), follows={}, blocked=(), volume={}, marks=Marks())
        look = InboxView(viewer=viewer, member=Member(member), now=self.stage.ground.clock.now())

        async def noted() -> None:
            async with connect_async(self.valkey.patient) as client:
                noting = Noting(activity=RedisActivity(client), metrics=Metrics(), pause=_at_once)
                noting.observe(OpenedInbox(look=look, after=None, page=None, badge=None))
                assert noting.going is not None
                await noting.going

        asyncio.run(noted())

    def tiers(self) -> dict[Tier, list[Member]]:
        live = self.system.ports.sets.live(NOVA, [0])[0]
        found = divide(live, first_of_day=False, rows_for_dormant=False)
        return {tier: members(bits, 0) for tier, bits in found.tiers.items() if bits.any()}


async def _at_once(_: float) -> None: ...


@pytest.fixture
def place(tmp_path: Path, valkey: Valkey) -> Iterator[Place]:
    files, stage = migrated(tmp_path), Stage()
    core = files.core
    ports = replace(
        stage.ports,
        directory=SqliteDirectory(core),
        sets=SqliteMemberSets(core),
        stays=SqliteStays(core),
        epochs=SqliteEpochs(core),
        leases=SqliteLeases(core),
        active_hours=RedisActiveHours(valkey.client),
    )
    ports.directory.enrol(
        [DirectoryEntry(user=UserId(f"u{member}"), member=Member(member)) for member in (LOADED, IDLE)]
    )
    ports.sets.put([ShardBlob(kind=SetKind.FOLLOWERS, owner=NOVA, shard=0, bits=from_offsets([LOADED, IDLE]))])
    ports.stays.put([Stay(kind=SetKind.ACTIVE_30D, until=FOREVER, shard=0, bits=from_offsets([LOADED]))])
    yield Place(stage, build_system(ports=ports, settings=Settings(), metrics=Metrics(), owner="a"), valkey)
    files.close()


def test_who_opens_the_tab_is_in_the_first_bulk_a_round_later_and_idle_again_after_a_day(place: Place) -> None:
    job = build_activity_roll_up(place.system)
    job.run()
    assert place.tiers() == {Tier.P2: [LOADED], Tier.DORMANT: [IDLE]}
    place.look(IDLE)
    place.stage.pass_time(minutes=1)
    job.run()
    assert place.tiers() == {Tier.P2: [LOADED], Tier.P1: [IDLE]}
    place.stage.pass_time(hours=25)
    job.run()
    assert place.tiers() == {Tier.P2: [LOADED, IDLE]}
    place.stage.pass_time(days=31)
    job.run()
    assert place.tiers() == {Tier.P2: [LOADED], Tier.DORMANT: [IDLE]}


def test_a_valkey_that_is_emptied_in_between_takes_nobody_s_tier(place: Place) -> None:
    job = build_activity_roll_up(place.system)
    place.look(IDLE)
    job.run()
    place.valkey.wipe()
    place.stage.pass_time(hours=2)
    job.run()
    place.stage.pass_time(minutes=3)
    build_activity_roll_up(replace(place.system, owner="b")).run()
    assert place.tiers() == {Tier.P2: [LOADED], Tier.P1: [IDLE]}
    assert place.system.ports.active_hours.last_rolled_up() == place.stage.ground.clock.now()


def test_a_process_that_starts_again_knows_who_is_active(place: Place) -> None:
    place.look(IDLE)
    build_activity_roll_up(place.system).run()
    place.stage.pass_time(hours=5)
    place.valkey.wipe()
    for owner in ("b", "c"):
        place.stage.pass_time(minutes=3)
        build_activity_roll_up(replace(place.system, owner=owner)).run()
    assert place.tiers() == {Tier.P2: [LOADED], Tier.P1: [IDLE]}
    assert timedelta(0) < place.system.settings.roll_up_every <= timedelta(minutes=1)
