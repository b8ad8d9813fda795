"""The switchboard: rows, then bitmaps of who has a device; the same again wherever it was cut off."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.fencing import stamp
from notifier.domain.ids import UserId
from notifier.domain.push.device import MOST_DEVICES
from notifier.ports.audience import ShardBlob
from notifier.ports.directory import DirectoryEntry
from tests.flow.device_world import PEOPLE, DeviceWorld
from tests.flow.graph import Corrupt, Fuse
from tests.flow.stalling import Stalling


def test_who_has_a_device_is_in_the_bitmap_and_whose_last_one_is_gone_is_not() -> None:
    exchange = DeviceWorld()
    first, second = exchange.register("ada", 1), exchange.register("ada", 2)
    exchange.register("cleo", 3)
    exchange.index_all()
    assert exchange.alertable() == {"ada", "cleo"}
    exchange.unregister("ada", first)
    exchange.index_all()
    assert exchange.alertable() == {"ada", "cleo"}
    exchange.unregister("ada", second)
    exchange.index_all()
    assert exchange.alertable() == {"cleo"}


def test_the_log_alone_is_enough_for_the_rows() -> None:
    exchange = DeviceWorld()
    for n in range(MOST_DEVICES + 5):
        exchange.register("ada", n)
    exchange.register("bea", 99)
    exchange.register("cleo", 99)
    rows = exchange.devices.kept
    exchange.devices.kept = {}
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({"ada": MOST_DEVICES, "cleo": 1}, {"ada", "cleo"})
    assert {id: word.rank for id, word in exchange.devices.kept.items()} == {id: word.rank for id, word in rows.items()}


def test_whoever_was_put_into_the_bitmap_without_rows_stays_there() -> None:
    """By a fixture, say, or a demo: only of whom something is said is looked at."""
    exchange = DeviceWorld()
    loaded = ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([PEOPLE["bea"]]))
    exchange.sets.put([loaded])
    exchange.register("ada")
    exchange.index_all()
    assert exchange.alertable() == {"ada", "bea"}


def test_a_bitmap_that_can_t_be_read_is_made_again_from_the_rows() -> None:
    exchange = DeviceWorld()
    exchange.register("ada", 1)
    exchange.index_all()
    exchange.register("bea", 2)
    exchange.indexer(sets=Corrupt(exchange.sets))(exchange.device_records())
    assert exchange.alertable() == {"ada", "bea"}
    assert (exchange.counted("rebuilt"), exchange.counted("drift")) == (1, 2)


def test_a_bitmap_is_made_again_when_that_is_asked_for() -> None:
    exchange = DeviceWorld()
    exchange.register("ada")
    exchange.index_all()
    spoilt = ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([1, PEOPLE["bea"]]))
    exchange.sets.put([spoilt], stamp(1))
    exchange.indexer()([*exchange.device_records(), exchange.rebuild_order(0)])
    assert exchange.alertable() == {"ada"}


def test_a_refresh_writes_no_bitmap_unless_it_is_wrong() -> None:
    exchange = DeviceWorld()
    exchange.register("ada")
    exchange.index_all()
    exchange.register("ada")
    put = Fuse(0).on(exchange.sets).put

    class Sealed:
        def __getattr__(self, name: str) -> object:
            return put if name == "put" else getattr(exchange.sets, name)

    refresh = exchange.device_records()[-1:]
    exchange.indexer(sets=Sealed())(refresh)
    exchange.sets.put([ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([]))], stamp(9))
    exchange.epochs.begin("switchboard")
    with pytest.raises(StoreUnavailable):
        exchange.indexer(sets=Sealed())(refresh)


def test_a_refresh_beside_a_drop_leaves_its_holder_in_the_bitmap() -> None:
    """The drop's record is read when the drop stands, and before the refresh does."""
    exchange = DeviceWorld()
    device = exchange.register("ada")
    exchange.index_all()

    def dropped() -> None:
        assert exchange.registry().drop({device: None})
        exchange.index_all()
        assert exchange.alertable() == set()

    exchange.register("ada", book=exchange.registry(devices=Stalling(exchange.devices, "standing", dropped)))
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({"ada": 1}, {"ada"})


def test_a_zombie_that_awakes_before_its_bitmap_loses_and_nothing_is_lost_with_it() -> None:
    exchange = DeviceWorld()
    device = exchange.register("ada")
    first = exchange.device_records()

    def others_go_on() -> None:
        exchange.unregister("ada", device)
        exchange.register("bea", 2)
        exchange.index_all()

    zombie = exchange.indexer(sets=Stalling(exchange.sets, "read", others_go_on))
    zombie(first)
    assert exchange.alertable() == {"bea"}


def test_who_has_lost_the_partition_writes_nothing() -> None:
    exchange = DeviceWorld()
    exchange.register("ada")
    exchange.devices.kept.clear()
    exchange.others = True
    with pytest.raises(LogUnavailable):
        exchange.index_all()
    assert (exchange.alertable(), exchange.device_counts()) == (set(), {})


def test_an_account_that_was_deleted_meanwhile_keeps_no_device() -> None:
    """Who registers and dies behind the log; who deletes finds no rows; then the record is read."""
    exchange = DeviceWorld()
    exchange.register("ada")
    exchange.register("cleo", 2)
    exchange.devices.kept.clear()
    exchange.directory.enrol([DirectoryEntry(user=UserId("ada"), member=PEOPLE["ada"], deleted=True)])
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({"cleo": 1}, {"cleo"})


def test_an_account_that_was_erased_keeps_what_it_has_registered_since() -> None:
    exchange = DeviceWorld()
    exchange.register("ada", 1)
    exchange.register("bea", 2)
    erased = exchange.clock.now() + timedelta(milliseconds=500)
    words = [
        Retraction(id=EventId("accounts", who), cause=RetractionCause.ERASE, author=UserId(who), at=erased)
        for who in ("ada", "bea")
    ]
    exchange.retractions.write(words)
    exchange.register("ada", 3)
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({"ada": 1}, {"ada"})


SAID = st.lists(st.tuples(st.sampled_from(sorted(PEOPLE)), st.integers(0, 2), st.booleans()), max_size=12)


@given(SAID, st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_cut_off_anywhere_and_done_again_it_is_as_if_undisturbed(
    said: list[tuple[str, int, bool]], cuts: list[tuple[int, int]]
) -> None:
    exchange, calm = DeviceWorld(), DeviceWorld()
    for who, what, leaves in said:
        for each in (exchange, calm):
            device = each.register(who, what)
            if leaves:
                each.unregister(who, device)
    exchange.devices.kept.clear()
    records, done = exchange.device_records(), 0
    for calls, size in cuts:
        fuse = Fuse(calls)
        cut = exchange.indexer(**{name: fuse.on(getattr(exchange, name)) for name in ("devices", "sets", "epochs")})
        try:
            while done < len(records):
                cut(records[done : done + size])
                done += size  # committed: nobody reads it again
        except StoreUnavailable:
            continue
    exchange.indexer()(records[done:])
    calm.index_all()
    assert (exchange.alertable(), exchange.device_counts()) == (calm.alertable(), calm.device_counts())
    assert exchange.alertable() == set(exchange.device_counts())
