"""Account indexer: flag rows, entries and bitmaps, with crashes and concurrent writers."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import UserId
from notifier.domain.push.device import FirebaseToken
from notifier.ports.audience import ShardBitmap
from tests.flow.in_memory_account_indexer import AccountWorld
from tests.flow.in_memory_graph_indexer import Corrupt, Fuse
from tests.flow.port_with_callback import RunsAfterCall


def test_vip_bitmap_follows_the_flags() -> None:
    world = AccountWorld()
    world.account_indexer()(
        [world.change("ada", vip=True), world.change("bea", vip=True), world.change("cleo", vip=True)]
    )
    world.account_indexer()([world.change("bea", vip=False)])
    assert world.vips() == {"ada", "cleo"}


def test_verified_and_deleted_flags_are_in_the_directory_entry() -> None:
    world = AccountWorld()
    [member] = world.directory.assign_numbers([UserId("ada")]).values()
    world.account_indexer()([world.change("ada", verified=True), world.change("bea", deleted=True)])
    assert world.entries() == {"ada": (True, False), "bea": (False, True)}
    assert world.directory.accounts([UserId("ada")])[UserId("ada")].member == member
    world.account_indexer()([world.change("bea", deleted=False), world.change("ada", vip=True)])
    assert world.entries() == {"ada": (True, False), "bea": (False, False)}


def test_late_account_change_has_no_effect() -> None:
    world = AccountWorld()
    world.account_indexer()([world.change("ada", sequence=9, vip=False, verified=True)])
    world.account_indexer()([world.change("ada", sequence=8, vip=True, verified=False, deleted=True)])
    assert (world.vips(), world.entries()) == (set(), {"ada": (True, True)})


def test_unreadable_bitmap_is_rebuilt_from_the_rows() -> None:
    world = AccountWorld()
    world.account_indexer()([world.change("ada", vip=True), world.change("bea", vip=True)])
    world.account_indexer(sets=Corrupt(world.sets))([world.change("cleo", vip=True)])
    assert world.vips() == {"ada", "bea", "cleo"}
    assert (world.counted("rebuilt"), world.counted("drift")) == (1, 3)


def test_bitmap_is_rebuilt_on_request() -> None:
    world = AccountWorld()
    world.account_indexer()([world.change("ada", vip=True), world.change("bea", vip=True)])
    corrupt = ShardBitmap(kind=SetKind.VIP, owner=None, shard=0, bits=from_offsets([1, 7, 9]))
    world.sets.put([corrupt], fencing_token(1))
    world.account_indexer()([world.rebuild(0), world.change("cleo", vip=True)])
    assert world.vips() == {"ada", "bea", "cleo"}


def test_stalled_indexer_does_not_overwrite_newer_bitmap() -> None:
    world = AccountWorld()
    first, second = world.change("ada", vip=True), world.change("ada", vip=False)
    newer_records = [first, second, world.change("bea", vip=True)]
    stalled = world.account_indexer(
        sets=RunsAfterCall(world.sets, "read", lambda: world.account_indexer()(newer_records))
    )
    stalled([first])
    assert world.vips() == {"bea"}


def test_stalled_indexer_does_not_leave_an_outdated_entry() -> None:
    world = AccountWorld()
    first, second = world.change("ada", verified=True), world.change("ada", verified=False)
    stalled = world.account_indexer(
        flags=RunsAfterCall(world.flags, "read_current", lambda: world.account_indexer()([second]))
    )
    stalled([first])
    assert world.entries() == {"ada": (False, False)}


def test_indexer_without_its_partition_writes_nothing() -> None:
    world = AccountWorld(lost_partition=True)
    with pytest.raises(LogUnavailable):
        world.account_indexer()([world.change("ada", vip=True)])
    assert (world.vips(), world.flags.kept) == (set(), {})


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
    world, undisturbed = AccountWorld(), AccountWorld()
    for user, flags, sequence in changes:
        for copy in (world, undisturbed):
            copy.change(user, sequence=sequence, **flags)
    done = 0
    for calls, size in crashes:
        fuse = Fuse(calls)
        ports = {name: fuse.on(getattr(world, name)) for name in ("directory", "flags", "sets", "epochs")}
        crashing = world.account_indexer(**ports)
        try:
            while done < len(world.records):
                crashing(world.records[done : done + size])
                done += size  # committed: never read again
        except StoreUnavailable:
            continue
    world.account_indexer()(world.records[done:])
    undisturbed.account_indexer()(undisturbed.records)
    assert (world.vips(), world.entries()) == (undisturbed.vips(), undisturbed.entries())


@pytest.mark.parametrize("calls", range(16))
def test_deleted_account_loses_its_devices_despite_crashes(calls: int) -> None:
    world, fuse = AccountWorld(), Fuse(calls)
    [member] = world.directory.assign_numbers([UserId("ada")]).values()
    device_registry = world.device_registry
    device_registry.register(member, FirebaseToken(token="t" * 140), locale="en", time_zone="UTC")
    records = [world.change("ada", deleted=True), world.change("bea", deleted=False)]
    ports = {name: fuse.on(getattr(world, name)) for name in ("directory", "flags", "sets", "epochs")}
    crashing_registry = replace(
        device_registry, devices=fuse.on(device_registry.devices), log=fuse.on(device_registry.log)
    )
    with suppress(StoreUnavailable):
        world.account_indexer(**ports, device_registry=crashing_registry)(records)
    world.account_indexer()(records)
    assert (device_registry.list_devices(member), world.entries()["ada"]) == ([], (False, True))
