"""The registrar: rows, then entries and bitmaps; the same again wherever it was cut off, whoever writes beside it."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.fencing import stamp
from notifier.domain.ids import UserId
from notifier.domain.push.device import FirebaseToken
from notifier.ports.audience import ShardBlob
from tests.flow.accounts import Registry
from tests.flow.graph import Corrupt, Fuse
from tests.flow.stalling import Stalling


def test_who_is_flagged_is_in_the_bitmap_and_whose_flag_is_taken_is_not() -> None:
    registry = Registry()
    registry.registrar()(
        [registry.change("ada", vip=True), registry.change("bea", vip=True), registry.change("cleo", vip=True)]
    )
    registry.registrar()([registry.change("bea", vip=False)])
    assert registry.vips() == {"ada", "cleo"}


def test_verified_and_deleted_are_in_the_directory_and_leave_the_rest_of_an_entry_alone() -> None:
    registry = Registry()
    [member] = registry.directory.number([UserId("ada")]).values()
    registry.registrar()([registry.change("ada", verified=True), registry.change("bea", deleted=True)])
    assert registry.entries() == {"ada": (True, False), "bea": (False, True)}
    assert registry.directory.accounts([UserId("ada")])[UserId("ada")].member == member
    registry.registrar()([registry.change("bea", deleted=False), registry.change("ada", vip=True)])
    assert registry.entries() == {"ada": (True, False), "bea": (False, False)}


def test_what_comes_late_changes_nothing() -> None:
    registry = Registry()
    registry.registrar()([registry.change("ada", sequence=9, vip=False, verified=True)])
    registry.registrar()([registry.change("ada", sequence=8, vip=True, verified=False, deleted=True)])
    assert (registry.vips(), registry.entries()) == (set(), {"ada": (True, True)})


def test_a_bitmap_that_can_t_be_read_is_made_again_from_the_rows() -> None:
    registry = Registry()
    registry.registrar()([registry.change("ada", vip=True), registry.change("bea", vip=True)])
    registry.registrar(sets=Corrupt(registry.sets))([registry.change("cleo", vip=True)])
    assert registry.vips() == {"ada", "bea", "cleo"}
    assert (registry.counted("rebuilt"), registry.counted("drift")) == (1, 3)


def test_a_bitmap_is_made_again_when_that_is_asked_for() -> None:
    registry = Registry()
    registry.registrar()([registry.change("ada", vip=True), registry.change("bea", vip=True)])
    spoilt = ShardBlob(kind=SetKind.VIP, owner=None, shard=0, bits=from_offsets([1, 7, 9]))
    registry.sets.put([spoilt], stamp(1))
    registry.registrar()([registry.rebuild(0), registry.change("cleo", vip=True)])
    assert registry.vips() == {"ada", "bea", "cleo"}


def test_a_zombie_that_awakes_before_its_bitmap_loses_and_nothing_is_lost_with_it() -> None:
    registry = Registry()
    first, second = registry.change("ada", vip=True), registry.change("ada", vip=False)
    heir = [first, second, registry.change("bea", vip=True)]
    zombie = registry.registrar(sets=Stalling(registry.sets, "read", lambda: registry.registrar()(heir)))
    zombie([first])
    assert registry.vips() == {"bea"}


def test_a_zombie_s_entry_does_not_stay() -> None:
    registry = Registry()
    first, second = registry.change("ada", verified=True), registry.change("ada", verified=False)
    zombie = registry.registrar(flags=Stalling(registry.flags, "standing", lambda: registry.registrar()([second])))
    zombie([first])
    assert registry.entries() == {"ada": (False, False)}


def test_who_has_lost_the_partition_writes_nothing() -> None:
    registry = Registry(others=True)
    with pytest.raises(LogUnavailable):
        registry.registrar()([registry.change("ada", vip=True)])
    assert (registry.vips(), registry.flags.kept) == (set(), {})


WORDS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bea", "cleo"]),
        st.dictionaries(st.sampled_from([str(flag) for flag in Flag]), st.booleans(), min_size=1),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(WORDS, st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_cut_off_anywhere_and_done_again_it_is_as_if_undisturbed(
    words: list[tuple[str, dict[str, bool], int]], cuts: list[tuple[int, int]]
) -> None:
    registry, calm = Registry(), Registry()
    for who, said, sequence in words:
        for each in (registry, calm):
            each.change(who, sequence=sequence, **said)
    done = 0
    for calls, size in cuts:
        fuse = Fuse(calls)
        ports = {name: fuse.on(getattr(registry, name)) for name in ("directory", "flags", "sets", "epochs")}
        cut = registry.registrar(**ports)
        try:
            while done < len(registry.records):
                cut(registry.records[done : done + size])
                done += size  # committed: nobody reads it again
        except StoreUnavailable:
            continue
    registry.registrar()(registry.records[done:])
    calm.registrar()(calm.records)
    assert (registry.vips(), registry.entries()) == (calm.vips(), calm.entries())


@pytest.mark.parametrize("calls", range(16))
def test_an_account_that_is_deleted_loses_its_devices_wherever_that_is_cut_off(calls: int) -> None:
    registry, fuse = Registry(), Fuse(calls)
    [member] = registry.directory.number([UserId("ada")]).values()
    book = registry.phonebook
    book.register(member, FirebaseToken(token="t" * 140), locale="en", time_zone="UTC")
    said = [registry.change("ada", deleted=True), registry.change("bea", deleted=False)]
    ports = {name: fuse.on(getattr(registry, name)) for name in ("directory", "flags", "sets", "epochs")}
    fused = replace(book, devices=fuse.on(book.devices), log=fuse.on(book.log))
    with suppress(StoreUnavailable):
        registry.registrar(**ports, phonebook=fused)(said)
    registry.registrar()(said)
    assert (book.of(member), registry.entries()["ada"]) == ([], (False, True))
