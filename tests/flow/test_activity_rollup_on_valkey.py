"""From opened inboxes to tiers on Valkey and SQLite: visitors become active."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.adapters.redis import RedisActiveHours, RedisActivity
from notifier.adapters.redis.connect import connect_async
from notifier.adapters.sqlite import SqliteActiveSets, SqliteDirectory, SqliteEpochs, SqliteLeases, SqliteMemberSets
from notifier.api.background.activity_recorder import ActivityRecorder
from notifier.config import Settings
from notifier.domain.audience.activity import FOREVER
from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier, divide
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import InboxView, OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.audience import ActiveSetEntry, ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.wiring.indexers_and_device_registry import build_activity_roll_up
from notifier.wiring.shared_parts import System, build_system
from tests.contracts.memory_and_sqlite_backends import migrated
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.in_memory_system import Stage

__all__ = ["valkey", "valkey_server"]

NOVA = Subject(Kind.MENTION, UserId("nova"))
LOADED, IDLE = 1, 2
"""Both follow nova; the first was active by an import."""


@dataclass(frozen=True)
class ValkeyWorld:
    stage: Stage
    system: System
    valkey: Valkey

    def visit(self, member: int) -> None:
        """Record a visit like the API does when the inbox is opened."""
        viewer = Viewer(user=UserId("u"), follows={}, blocked=(), volume={}, marks=Marks())
        view = InboxView(viewer=viewer, member=Member(member), now=self.stage.state.clock.now())

        async def record() -> None:
            async with connect_async(self.valkey.patient_url) as client:
                recorder = ActivityRecorder(activity=RedisActivity(client), metrics=Metrics(), pause=_at_once)
                recorder.observe(OpenedInbox(view=view, after=None, page=None, badge=None))
                assert recorder.send_task is not None
                await recorder.send_task

        asyncio.run(record())

    def tiers(self) -> dict[Tier, list[Member]]:
        live = self.system.ports.sets.live(NOVA, [0])[0]
        audience = divide(live, first_of_day=False, rows_for_dormant=False)
        return {tier: members(bits, 0) for tier, bits in audience.tiers.items() if bits.any()}


async def _at_once(_: float) -> None: ...


@pytest.fixture
def world(tmp_path: Path, valkey: Valkey) -> Iterator[ValkeyWorld]:
    files, stage = migrated(tmp_path), Stage()
    core = files.core
    ports = replace(
        stage.ports,
        directory=SqliteDirectory(core),
        sets=SqliteMemberSets(core),
        active_sets=SqliteActiveSets(core),
        epochs=SqliteEpochs(core),
        leases=SqliteLeases(core),
        active_hours=RedisActiveHours(valkey.client),
    )
    ports.directory.enrol(
        [DirectoryEntry(user=UserId(f"u{member}"), member=Member(member)) for member in (LOADED, IDLE)]
    )
    ports.sets.put([ShardBitmap(kind=SetKind.FOLLOWERS, owner=NOVA, shard=0, bits=from_offsets([LOADED, IDLE]))])
    ports.active_sets.put(
        [ActiveSetEntry(kind=SetKind.ACTIVE_30D, last_hour=FOREVER, shard=0, bits=from_offsets([LOADED]))]
    )
    yield ValkeyWorld(stage, build_system(ports=ports, settings=Settings(), metrics=Metrics(), owner="a"), valkey)
    files.close()


def test_visitor_is_in_p1_a_round_later_and_idle_after_a_day(world: ValkeyWorld) -> None:
    roll_up = build_activity_roll_up(world.system)
    roll_up.run()
    assert world.tiers() == {Tier.P2: [LOADED], Tier.DORMANT: [IDLE]}
    world.visit(IDLE)
    world.stage.pass_time(minutes=1)
    roll_up.run()
    assert world.tiers() == {Tier.P2: [LOADED], Tier.P1: [IDLE]}
    world.stage.pass_time(hours=25)
    roll_up.run()
    assert world.tiers() == {Tier.P2: [LOADED, IDLE]}
    world.stage.pass_time(days=31)
    roll_up.run()
    assert world.tiers() == {Tier.P2: [LOADED], Tier.DORMANT: [IDLE]}


def test_valkey_wipe_changes_no_tiers(world: ValkeyWorld) -> None:
    roll_up = build_activity_roll_up(world.system)
    world.visit(IDLE)
    roll_up.run()
    world.valkey.wipe()
    world.stage.pass_time(hours=2)
    roll_up.run()
    world.stage.pass_time(minutes=3)
    build_activity_roll_up(replace(world.system, owner="b")).run()
    assert world.tiers() == {Tier.P2: [LOADED], Tier.P1: [IDLE]}
    assert world.system.ports.active_hours.last_roll_up() == world.stage.state.clock.now()


def test_restarted_process_knows_active_members(world: ValkeyWorld) -> None:
    world.visit(IDLE)
    build_activity_roll_up(world.system).run()
    world.stage.pass_time(hours=5)
    world.valkey.wipe()
    for owner in ("b", "c"):
        world.stage.pass_time(minutes=3)
        build_activity_roll_up(replace(world.system, owner=owner)).run()
    assert world.tiers() == {Tier.P2: [LOADED], Tier.P1: [IDLE]}
    assert timedelta(0) < world.system.settings.roll_up_every <= timedelta(minutes=1)
