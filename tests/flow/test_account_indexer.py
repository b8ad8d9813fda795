"""Account indexer: flag rows, entries and bitmaps, with crashes and concurrent writers."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import UserId
from notifier.domain.push.device import FirebaseToken
from notifier.ports.audience import ShardBitmap
from tests.flow.in_memory_account_indexer import Registry
from tests.flow.in_memory_graph_indexer import Corrupt, Fuse
from tests.flow.port_with_callback import Stalling


def test_vip_bitmap_follows_the_flags() -> None:
    registry = Registry()
    registry.account_indexer()(
        [registry.change("ada", vip=True), registry.change("bea", vip=True), registry.change("cleo", vip=True)]
    )
    registry.account_indexer()([registry.change("bea", vip=False)])
    assert registry.vips() == {"ada", "cleo"}


def test_verified_and_deleted_flags_are_in_the_directory_entry() -> None:
    registry = Registry()
    [member] = registry.directory.assign_numbers([UserId("ada")]).values()
    registry.account_indexer()([registry.change("ada", verified=True), registry.change("bea", deleted=True)])
    assert registry.entries() == {"ada": (True, False), "bea": (False, True)}
    assert registry.directory.accounts([UserId("ada")])[UserId("ada")].member == member
    registry.account_indexer()([registry.change("bea", deleted=False), registry.change("ada", vip=True)])
    assert registry.entries() == {"ada": (True, False), "bea": (False, False)}


def test_late_account_change_has_no_effect() -> None:
    registry = Registry()
    registry.account_indexer()([registry.change("ada", sequence=9, vip=False, verified=True)])
    registry.account_indexer()([registry.change("ada", sequence=8, vip=True, verified=False, deleted=True)])
    assert (registry.vips(), registry.entries()) == (set(), {"ada": (True, True)})


def test_unreadable_bitmap_is_rebuilt_from_the_rows() -> None:
    registry = Registry()
    registry.account_indexer()([registry.change("ada", vip=True), registry.change("bea", vip=True)])
    registry.account_indexer(sets=Corrupt(registry.sets))([registry.change("cleo", vip=True)])
    assert registry.vips() == {"ada", "bea", "cleo"}
    assert (registry.counted("rebuilt"), registry.counted("drift")) == (1, 3)


def test_bitmap_is_rebuilt_on_request() -> None:
    registry = Registry()
    registry.account_indexer()([registry.change("ada", vip=True), registry.change("bea", vip=True)])
    corrupt = ShardBitmap(kind=SetKind.VIP, owner=None, shard=0, bits=from_offsets([1, 7, 9]))
    registry.sets.put([corrupt], fencing_token(1))
    registry.account_indexer()([registry.rebuild(0), registry.change("cleo", vip=True)])
    assert registry.vips() == {"ada", "bea", "cleo"}


def test_stalled_indexer_does_not_overwrite_newer_bitmap() -> None:
    registry = Registry()
    first, second = registry.change("ada", vip=True), registry.change("ada", vip=False)
    newer_records = [first, second, registry.change("bea", vip=True)]
    stalled = registry.account_indexer(
        sets=Stalling(registry.sets, "read", lambda: registry.account_indexer()(newer_records))
    )
    stalled([first])
    assert registry.vips() == {"bea"}


def test_stalled_indexer_does_not_leave_an_outdated_entry() -> None:
    registry = Registry()
    first, second = registry.change("ada", verified=True), registry.change("ada", verified=False)
    stalled = registry.account_indexer(
        flags=Stalling(registry.flags, "read_current", lambda: registry.account_indexer()([second]))
    )
    stalled([first])
    assert registry.entries() == {"ada": (False, False)}


def test_indexer_without_its_partition_writes_nothing() -> None:
    registry = Registry(lost_partition=True)
    with pytest.raises(LogUnavailable):
        registry.account_indexer()([registry.change("ada", vip=True)])
    assert (registry.vips(), registry.flags.kept) == (set(), {})


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bea", "cleo"]),
        st.dictionaries(st.sampled_from([str(flag) for flag in Flag]), st.booleans(), min_size=1),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(CHANGES, st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_indexing_after_crashes_equals_indexing_without_crashes(
    changes: list[tuple[str, dict[str, bool], int]], crashes: list[tuple[int, int]]
) -> None:
    registry, undisturbed = Registry(), Registry()
    for user, flags, sequence in changes:
        for copy in (registry, undisturbed):
            copy.change(user, sequence=sequence, **flags)
    done = 0
    for calls, size in crashes:
        fuse = Fuse(calls)
        ports = {name: fuse.on(getattr(registry, name)) for name in ("directory", "flags", "sets", "epochs")}
        crashing = registry.account_indexer(**ports)
        try:
            while done < len(registry.records):
                crashing(registry.records[done : done + size])
                done += size  # committed: never read again
        except StoreUnavailable:
            continue
    registry.account_indexer()(registry.records[done:])
    undisturbed.account_indexer()(undisturbed.records)
    assert (registry.vips(), registry.entries()) == (undisturbed.vips(), undisturbed.entries())


@pytest.mark.parametrize("calls", range(16))
def test_deleted_account_loses_its_devices_despite_crashes(calls: int) -> None:
    registry, fuse = Registry(), Fuse(calls)
    [member] = registry.directory.assign_numbers([UserId("ada")]).values()
    device_registry = registry.device_indexer
    device_registry.register(member, FirebaseToken(token="t" * 140), locale="en", time_zone="UTC")
    records = [registry.change("ada", deleted=True), registry.change("bea", deleted=False)]
    ports = {name: fuse.on(getattr(registry, name)) for name in ("directory", "flags", "sets", "epochs")}
    crashing_registry = replace(
        device_registry, devices=fuse.on(device_registry.devices), log=fuse.on(device_registry.log)
    )
    with suppress(StoreUnavailable):
        registry.account_indexer(**ports, device_registry=crashing_registry)(records)
    registry.account_indexer()(records)
    assert (device_registry.list_devices(member), registry.entries()["ada"]) == ([], (False, True))
