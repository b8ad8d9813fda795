"""Device indexer: rows, then bitmaps of users with devices, with the same result after crashes."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import UserId
from notifier.domain.push.device import MAX_DEVICES
from notifier.ports.audience import ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.flow.in_memory_device_indexer import PEOPLE, DeviceWorld
from tests.flow.in_memory_graph_indexer import Corrupt, Fuse
from tests.flow.port_with_callback import RunsAfterCall


def test_bitmap_has_exactly_the_users_with_devices() -> None:
    world = DeviceWorld()
    first, second = world.register("ada", 1), world.register("ada", 2)
    world.register("cleo", 3)
    world.index_all()
    assert world.alertable() == {"ada", "cleo"}
    world.unregister("ada", first)
    world.index_all()
    assert world.alertable() == {"ada", "cleo"}
    world.unregister("ada", second)
    world.index_all()
    assert world.alertable() == {"cleo"}


def test_rows_are_rebuilt_from_the_log() -> None:
    world = DeviceWorld()
    for n in range(MAX_DEVICES + 5):
        world.register("ada", n)
    world.register("bea", 99)
    world.register("cleo", 99)
    rows = world.devices.kept
    world.devices.kept = {}
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({"ada": MAX_DEVICES, "cleo": 1}, {"ada", "cleo"})
    assert {id: device_state.rank for id, device_state in world.devices.kept.items()} == {
        id: device_state.rank for id, device_state in rows.items()
    }


def test_member_in_the_bitmap_without_rows_stays() -> None:
    """A fixture or demo may load such members; the indexer only reads members with records."""
    world = DeviceWorld()
    imported = ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([PEOPLE["bea"]]))
    world.sets.put([imported])
    world.register("ada")
    world.index_all()
    assert world.alertable() == {"ada", "bea"}


def test_unreadable_bitmap_is_rebuilt_from_the_rows() -> None:
    world = DeviceWorld()
    world.register("ada", 1)
    world.index_all()
    world.register("bea", 2)
    world.indexer(sets=Corrupt(world.sets))(world.device_records())
    assert world.alertable() == {"ada", "bea"}
    assert (world.counted("rebuilt"), world.counted("drift")) == (1, 2)


def test_bitmap_is_rebuilt_on_request() -> None:
    world = DeviceWorld()
    world.register("ada")
    world.index_all()
    corrupt = ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([1, PEOPLE["bea"]]))
    world.sets.put([corrupt], fencing_token(1))
    world.indexer()([*world.device_records(), world.rebuild_order(0)])
    assert world.alertable() == {"ada"}


def test_refresh_writes_a_bitmap_only_if_it_is_wrong() -> None:
    world = DeviceWorld()
    world.register("ada")
    world.index_all()
    world.register("ada")
    put = Fuse(0).on(world.sets).put

    class FailsAtPut:
        def __getattr__(self, name: str) -> object:
            return put if name == "put" else getattr(world.sets, name)

    refresh = world.device_records()[-1:]
    world.indexer(sets=FailsAtPut())(refresh)
    world.sets.put(
        [ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([]))], fencing_token(9)
    )
    world.epochs.begin("device_indexer")
    with pytest.raises(StoreUnavailable):
        world.indexer(sets=FailsAtPut())(refresh)


def test_refresh_concurrent_with_a_drop_keeps_the_user_in_the_bitmap() -> None:
    """The drop's record is indexed when the drop is stored and the refresh is not."""
    world = DeviceWorld()
    device = world.register("ada")
    world.index_all()

    def drop_device() -> None:
        assert world.registry().remove_rejected({device: None})
        world.index_all()
        assert world.alertable() == set()

    world.register("ada", registry=world.registry(devices=RunsAfterCall(world.devices, "read_current", drop_device)))
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({"ada": 1}, {"ada"})


def test_stalled_indexer_does_not_overwrite_newer_bitmap() -> None:
    world = DeviceWorld()
    device = world.register("ada")
    first = world.device_records()

    def continue_elsewhere() -> None:
        world.unregister("ada", device)
        world.register("bea", 2)
        world.index_all()

    stalled = world.indexer(sets=RunsAfterCall(world.sets, "read", continue_elsewhere))
    stalled(first)
    assert world.alertable() == {"bea"}


def test_indexer_without_its_partition_writes_nothing() -> None:
    world = DeviceWorld()
    world.register("ada")
    world.devices.kept.clear()
    world.lost_partition = True
    with pytest.raises(LogUnavailable):
        world.index_all()
    assert (world.alertable(), world.device_counts()) == (set(), {})


def test_account_deleted_during_registration_keeps_no_device() -> None:
    """A registration crashed after its log record. The deletion found no rows. Then the record is indexed."""
    world = DeviceWorld()
    world.register("ada")
    world.register("cleo", 2)
    world.devices.kept.clear()
    world.directory.enrol([DirectoryEntry(user=UserId("ada"), member=PEOPLE["ada"], deleted=True)])
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({"cleo": 1}, {"cleo"})


def test_erased_account_keeps_devices_registered_later() -> None:
    world = DeviceWorld()
    world.register("ada", 1)
    world.register("bea", 2)
    erased = world.clock.now() + timedelta(milliseconds=500)
    retractions = [
        Retraction(id=EventId("accounts", user), cause=RetractionCause.ERASE, author=UserId(user), at=erased)
        for user in ("ada", "bea")
    ]
    world.retractions.write(retractions)
    world.register("ada", 3)
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({"ada": 1}, {"ada"})


CHANGES = st.lists(st.tuples(st.sampled_from(sorted(PEOPLE)), st.integers(0, 2), st.booleans()), max_size=12)


@given(CHANGES, st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_indexing_after_crashes_equals_indexing_without_crashes(
    changes: list[tuple[str, int, bool]], crashes: list[tuple[int, int]]
) -> None:
    world, undisturbed = DeviceWorld(), DeviceWorld()
    for user, number, unregisters in changes:
        for copy in (world, undisturbed):
            device = copy.register(user, number)
            if unregisters:
                copy.unregister(user, device)
    world.devices.kept.clear()
    records, done = world.device_records(), 0
    for calls, size in crashes:
        fuse = Fuse(calls)
        crashing = world.indexer(**{name: fuse.on(getattr(world, name)) for name in ("devices", "sets", "epochs")})
        try:
            while done < len(records):
                crashing(records[done : done + size])
                done += size  # committed: never read again
        except StoreUnavailable:
            continue
    world.indexer()(records[done:])
    undisturbed.index_all()
    assert (world.alertable(), world.device_counts()) == (undisturbed.alertable(), undisturbed.device_counts())
    assert world.alertable() == set(world.device_counts())
