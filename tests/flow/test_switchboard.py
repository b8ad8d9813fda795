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
from tests.flow.graph import Fuse, Spoilt
from tests.flow.phones import PEOPLE, Exchange
from tests.flow.stalling import Stalling


def test_who_has_a_device_is_in_the_bitmap_and_whose_last_one_is_gone_is_not() -> None:
    exchange = Exchange()
    first, second = exchange.register("ada", 1), exchange.register("ada", 2)
    exchange.register("cleo", 3)
    exchange.hear()
    assert exchange.ringing() == {"ada", "cleo"}
    exchange.unregister("ada", first)
    exchange.hear()
    assert exchange.ringing() == {"ada", "cleo"}
    exchange.unregister("ada", second)
    exchange.hear()
    assert exchange.ringing() == {"cleo"}


def test_the_log_alone_is_enough_for_the_rows() -> None:
    exchange = Exchange()
    for n in range(MOST_DEVICES + 5):
        exchange.register("ada", n)
    exchange.register("bea", 99)
    exchange.register("cleo", 99)
    rows = exchange.devices.kept
    exchange.devices.kept = {}
    exchange.hear()
    assert (exchange.having(), exchange.ringing()) == ({"ada": MOST_DEVICES, "cleo": 1}, {"ada", "cleo"})
    assert {id: word.rank for id, word in exchange.devices.kept.items()} == {id: word.rank for id, word in rows.items()}


def test_whoever_was_put_into_the_bitmap_without_rows_stays_there() -> None:
    """By a fixture, say, or a demo: only of whom something is said is looked at."""
    exchange = Exchange()
    loaded = ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([PEOPLE["bea"]]))
    exchange.sets.put([loaded])
    exchange.register("ada")
    exchange.hear()
    assert exchange.ringing() == {"ada", "bea"}


def test_a_bitmap_that_can_t_be_read_is_made_again_from_the_rows() -> None:
    exchange = Exchange()
    exchange.register("ada", 1)
    exchange.hear()
    exchange.register("bea", 2)
    exchange.switchboard(sets=Spoilt(exchange.sets))(exchange.said())
    assert exchange.ringing() == {"ada", "bea"}
    assert (exchange.counted("rebuilt"), exchange.counted("drift")) == (1, 2)


def test_a_bitmap_is_made_again_when_that_is_asked_for() -> None:
    exchange = Exchange()
    exchange.register("ada")
    exchange.hear()
    spoilt = ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([1, PEOPLE["bea"]]))
    exchange.sets.put([spoilt], stamp(1))
    exchange.switchboard()([*exchange.said(), exchange.anew(0)])
    assert exchange.ringing() == {"ada"}


def test_a_refresh_writes_no_bitmap_unless_it_is_wrong() -> None:
    exchange = Exchange()
    exchange.register("ada")
    exchange.hear()
    exchange.register("ada")
    put = Fuse(0).on(exchange.sets).put

    class Sealed:
        def __getattr__(self, name: str) -> object:
            return put if name == "put" else getattr(exchange.sets, name)

    refresh = exchange.said()[-1:]
    exchange.switchboard(sets=Sealed())(refresh)
    exchange.sets.put([ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([]))], stamp(9))
    exchange.epochs.begin("switchboard")
    with pytest.raises(StoreUnavailable):
        exchange.switchboard(sets=Sealed())(refresh)


def test_a_refresh_beside_a_drop_leaves_its_holder_in_the_bitmap() -> None:
    """The drop's record is read when the drop stands, and before the refresh does."""
    exchange = Exchange()
    device = exchange.register("ada")
    exchange.hear()

    def dropped() -> None:
        assert exchange.book().drop({device: None})
        exchange.hear()
        assert exchange.ringing() == set()

    exchange.register("ada", book=exchange.book(devices=Stalling(exchange.devices, "standing", dropped)))
    exchange.hear()
    assert (exchange.having(), exchange.ringing()) == ({"ada": 1}, {"ada"})


def test_a_zombie_that_awakes_before_its_bitmap_loses_and_nothing_is_lost_with_it() -> None:
    exchange = Exchange()
    device = exchange.register("ada")
    first = exchange.said()

    def others_go_on() -> None:
        exchange.unregister("ada", device)
        exchange.register("bea", 2)
        exchange.hear()

    zombie = exchange.switchboard(sets=Stalling(exchange.sets, "read", others_go_on))
    zombie(first)
    assert exchange.ringing() == {"bea"}


def test_who_has_lost_the_partition_writes_nothing() -> None:
    exchange = Exchange()
    exchange.register("ada")
    exchange.devices.kept.clear()
    exchange.others = True
    with pytest.raises(LogUnavailable):
        exchange.hear()
    assert (exchange.ringing(), exchange.having()) == (set(), {})


def test_an_account_that_was_deleted_meanwhile_keeps_no_device() -> None:
    """Who registers and dies behind the log; who deletes finds no rows; then the record is read."""
    exchange = Exchange()
    exchange.register("ada")
    exchange.register("cleo", 2)
    exchange.devices.kept.clear()
    exchange.directory.enrol([DirectoryEntry(user=UserId("ada"), member=PEOPLE["ada"], deleted=True)])
    exchange.hear()
    assert (exchange.having(), exchange.ringing()) == ({"cleo": 1}, {"cleo"})


def test_an_account_that_was_erased_keeps_what_it_has_registered_since() -> None:
    exchange = Exchange()
    exchange.register("ada", 1)
    exchange.register("bea", 2)
    erased = exchange.clock.now() + timedelta(milliseconds=500)
    words = [
        Retraction(id=EventId("accounts", who), cause=RetractionCause.ERASE, author=UserId(who), at=erased)
        for who in ("ada", "bea")
    ]
    exchange.retractions.write(words)
    exchange.register("ada", 3)
    exchange.hear()
    assert (exchange.having(), exchange.ringing()) == ({"ada": 1}, {"ada"})


SAID = st.lists(st.tuples(st.sampled_from(sorted(PEOPLE)), st.integers(0, 2), st.booleans()), max_size=12)


@given(SAID, st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_cut_off_anywhere_and_done_again_it_is_as_if_undisturbed(
    said: list[tuple[str, int, bool]], cuts: list[tuple[int, int]]
) -> None:
    exchange, calm = Exchange(), Exchange()
    for who, what, leaves in said:
        for each in (exchange, calm):
            device = each.register(who, what)
            if leaves:
                each.unregister(who, device)
    exchange.devices.kept.clear()
    records, done = exchange.said(), 0
    for calls, size in cuts:
        fuse = Fuse(calls)
        cut = exchange.switchboard(**{name: fuse.on(getattr(exchange, name)) for name in ("devices", "sets", "epochs")})
        try:
            while done < len(records):
                cut(records[done : done + size])
                done += size  # committed: nobody reads it again
        except StoreUnavailable:
            continue
    exchange.switchboard()(records[done:])
    calm.hear()
    assert (exchange.ringing(), exchange.having()) == (calm.ringing(), calm.having())
    assert exchange.ringing() == set(exchange.having())
