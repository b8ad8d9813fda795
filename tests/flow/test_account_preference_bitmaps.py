"""Graph indexer: account-wide preferences are in the account bitmaps and in no others."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import StoreUnavailable
from notifier.domain.users.subject_preferences import Volume
from notifier.ports.audience import ShardBitmap
from tests.flow.in_memory_graph_indexer import Corrupt, Fuse, Graph, StallsBeforeWrite


def test_account_preference_is_in_its_bitmap_and_in_no_other() -> None:
    graph = Graph()
    graph.indexer()(
        [
            graph.change_account_preferences("ada", volume=Volume.OFF),
            graph.change_account_preferences("bea", volume=Volume.FIRST, push=False),
        ]
    )
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "overall_first": {"bea"}, "no_push": {"bea"}}
    graph.indexer()(
        [
            graph.change_account_preferences("ada", volume=Volume.ALL),
            graph.change_account_preferences("bea", volume=Volume.OFF),
        ]
    )
    assert graph.account_bitmaps() == {"overall_off": {"bea"}, "no_push": {"bea"}}
    assert graph.preference_bitmaps() == {}


def test_late_account_preference_loses_to_newer_one() -> None:
    graph = Graph()
    graph.indexer()([graph.change_account_preferences("ada", volume=Volume.OFF, at=9)])
    graph.indexer()([graph.change_account_preferences("ada", volume=Volume.FIRST, push=False, at=8)])
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "no_push": {"ada"}}


def test_account_bitmaps_are_rebuilt_like_those_of_a_subject() -> None:
    graph = Graph()
    graph.indexer()([graph.change_account_preferences("ada", volume=Volume.OFF)])
    graph.indexer(sets=Corrupt(graph.sets))([graph.change_account_preferences("bea", push=False)])
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "no_push": {"bea"}}
    corrupt = ShardBitmap(kind=SetKind.OVERALL_FIRST, owner=None, shard=0, bits=from_offsets([1, 7, 9]))
    graph.sets.force(corrupt)
    drift_before = graph.counted("drift")
    graph.indexer()([graph.rebuild_account_preferences(0)])
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "no_push": {"bea"}}
    assert graph.counted("drift") == drift_before + 3


def test_stalled_indexer_does_not_restore_a_revoked_preference() -> None:
    graph = Graph()
    first = graph.change_account_preferences("ada", volume=Volume.OFF)
    successor = graph.indexer()
    second = graph.change_account_preferences("ada", volume=Volume.ALL)
    stalled = graph.indexer(sets=StallsBeforeWrite(graph.sets, lambda: successor([first, second])))
    stalled([first])
    assert graph.account_bitmaps() == {}


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bea", "cleo"]),
        st.sampled_from([*({"volume": v} for v in Volume if v is not Volume.DEFAULT), {"push": False}, {"push": True}]),
        st.integers(1, 5),
    ),
    max_size=10,
)


@given(CHANGES, st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=6))
@settings(max_examples=100, deadline=None)
def test_indexing_after_crashes_equals_indexing_without_crashes(
    changes: list[tuple[str, dict[str, Any], int]], crashes: list[tuple[int, int]]
) -> None:
    graph, undisturbed = Graph(), Graph()
    for user, fields, at in changes:
        for copy in (graph, undisturbed):
            copy.change_account_preferences(user, at=at, **fields)
    done = 0
    for calls, size in crashes:
        fuse = Fuse(calls)
        crashing = graph.indexer(
            account_preferences=fuse.on(graph.account_preferences),
            sets=fuse.on(graph.sets),
            epochs=fuse.on(graph.epochs),
        )
        try:
            while done < len(graph.records):
                crashing(graph.records[done : done + size])
                done += size  # committed: never read again
        except StoreUnavailable:
            continue
    graph.indexer()(graph.records[done:])
    undisturbed.indexer()(undisturbed.records)
    assert graph.account_bitmaps() == undisturbed.account_bitmaps()
