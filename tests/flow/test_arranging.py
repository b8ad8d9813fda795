"""The indexer again: what people want of everything, in the bitmaps of everybody and in no other."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import StoreUnavailable
from notifier.domain.users.subject_preferences import Volume
from notifier.ports.audience import ShardBlob
from tests.flow.graph import Corrupt, Fuse, Graph, StallsBeforeWrite


def test_who_wants_less_of_everything_is_in_the_bitmap_for_it_and_in_no_other() -> None:
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


def test_what_was_said_last_is_in_the_bitmap_whatever_comes_late() -> None:
    graph = Graph()
    graph.indexer()([graph.change_account_preferences("ada", volume=Volume.OFF, at=9)])
    graph.indexer()([graph.change_account_preferences("ada", volume=Volume.FIRST, push=False, at=8)])
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "no_push": {"ada"}}


def test_bitmaps_of_everybody_are_made_again_like_those_of_a_subject() -> None:
    graph = Graph()
    graph.indexer()([graph.change_account_preferences("ada", volume=Volume.OFF)])
    graph.indexer(sets=Corrupt(graph.sets))([graph.change_account_preferences("bea", push=False)])
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "no_push": {"bea"}}
    spoilt = ShardBlob(kind=SetKind.OVERALL_FIRST, owner=None, shard=0, bits=from_offsets([1, 7, 9]))
    graph.sets.force(spoilt)
    drifted = graph.counted("drift")
    graph.indexer()([graph.rebuild_account_preferences(0)])
    assert graph.account_bitmaps() == {"overall_off": {"ada"}, "no_push": {"bea"}}
    assert graph.counted("drift") == drifted + 3


def test_a_zombie_that_read_a_word_which_was_taken_back_since_doesn_t_bring_it_back() -> None:
    graph = Graph()
    first = graph.change_account_preferences("ada", volume=Volume.OFF)
    heir = graph.indexer()
    meant = graph.change_account_preferences("ada", volume=Volume.ALL)
    zombie = graph.indexer(sets=StallsBeforeWrite(graph.sets, lambda: heir([first, meant])))
    zombie([first])
    assert graph.account_bitmaps() == {}


SAID = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bea", "cleo"]),
        st.sampled_from([*({"volume": v} for v in Volume if v is not Volume.DEFAULT), {"push": False}, {"push": True}]),
        st.integers(1, 5),
    ),
    max_size=10,
)


@given(SAID, st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=6))
@settings(max_examples=100, deadline=None)
def test_cut_off_anywhere_and_done_again_it_is_as_if_undisturbed(
    said: list[tuple[str, dict[str, Any], int]], cuts: list[tuple[int, int]]
) -> None:
    graph, calm = Graph(), Graph()
    for who, what, at in said:
        for each in (graph, calm):
            each.change_account_preferences(who, at=at, **what)
    done = 0
    for calls, size in cuts:
        fuse = Fuse(calls)
        cut = graph.indexer(overalls=fuse.on(graph.overalls), sets=fuse.on(graph.sets), epochs=fuse.on(graph.epochs))
        try:
            while done < len(graph.records):
                cut(graph.records[done : done + size])
                done += size  # committed: nobody reads it again
        except StoreUnavailable:
            continue
    graph.indexer()(graph.records[done:])
    calm.indexer()(calm.records)
    assert graph.account_bitmaps() == calm.account_bitmaps()
