"""Graph indexer: rows, then bitmaps, with the same result after crashes and concurrent writers."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.upstream.graph_stream_records import FollowAction
from notifier.domain.users.subject_preferences import SUBJECT_PREFERENCE_SETS, PreferencePatch
from notifier.ports.audience import ShardBitmap
from tests.flow.in_memory_graph_indexer import FIRST, LYRA, MUTED, NOVA, OFF, UNMUTED, Corrupt, Fuse, Graph
from tests.support.fakes.activity_member_sets_and_follows import MemoryMemberSets


def test_bitmap_has_followers_and_no_unfollowed_users() -> None:
    graph = Graph()
    graph.indexer()([graph.change_follow("ada"), graph.change_follow("bea"), graph.change_follow("ada", of=LYRA)])
    graph.indexer()(
        [graph.change_follow("bea", FollowAction.UNFOLLOW), graph.change_follow("cleo", FollowAction.UNFOLLOW)]
    )
    assert (graph.followers(), graph.followers(LYRA)) == ({"ada"}, {"ada"})


def test_follower_and_followed_account_get_directory_entries() -> None:
    graph = Graph()
    graph.indexer()([graph.change_follow("newcomer", of=UserId("newly_followed"))])
    assert graph.directory.accounts([UserId("newcomer"), UserId("newly_followed")]).keys() == {
        UserId("newcomer"),
        UserId("newly_followed"),
    }


def test_late_follow_does_not_undo_an_unfollow() -> None:
    graph = Graph()
    graph.indexer()([graph.change_follow("ada", FollowAction.UNFOLLOW, sequence=9)])
    graph.indexer()([graph.change_follow("ada", sequence=8), graph.change_follow("bea", sequence=1)])
    assert graph.followers() == {"bea"}


def test_unreadable_bitmap_is_rebuilt() -> None:
    """An unreadable bitmap is rebuilt from the rows and never treated as empty."""
    graph = Graph()
    graph.indexer()([graph.change_follow("ada"), graph.change_follow("bea")])
    graph.indexer(sets=Corrupt(graph.sets))([graph.change_follow("cleo")])
    assert graph.followers() == {"ada", "bea", "cleo"}
    assert (graph.counted("rebuilt"), graph.counted("drift")) == (1, 3)


def test_bitmap_is_rebuilt_from_the_rows_on_request() -> None:
    graph = Graph()
    graph.indexer()([graph.change_follow("ada"), graph.change_follow("bea")])
    subject = Subject(Kind.MENTION, NOVA)
    [ada] = graph.directory.assign_numbers([UserId("ada")]).values()
    # drift: bea and cleo are missing, and two bits belong to no member
    corrupt = ShardBitmap(kind=SetKind.FOLLOWERS, owner=subject, shard=0, bits=from_offsets([ada, 107, 109]))
    graph.sets.put([corrupt], fencing_token(0))
    graph.indexer()([graph.rebuild(0), graph.change_follow("cleo"), graph.change_follow("dan", of=LYRA)])
    assert (graph.followers(), graph.followers(LYRA)) == ({"ada", "bea", "cleo"}, {"dan"})
    assert (graph.counted("rebuilt"), graph.counted("drift")) == (1 + len(SUBJECT_PREFERENCE_SETS), 4)


def test_stalled_indexer_does_not_overwrite_newer_bitmaps() -> None:
    graph = Graph()
    first, second = graph.change_follow("ada"), graph.change_follow("bea")
    stalled = graph.indexer(
        sets=StallsBeforeHeads(graph.sets, lambda: graph.indexer()([first, second, graph.change_follow("cleo")]))
    )
    stalled([first])
    assert graph.followers() == {"ada", "bea", "cleo"}


def test_stalled_indexer_does_not_restore_an_unfollowed_user() -> None:
    graph = Graph()
    first = graph.change_follow("ada")
    graph.indexer()([graph.change_follow("bea")])
    successor = graph.indexer()
    stalled = graph.indexer(
        sets=StallsBeforeHeads(
            graph.sets, lambda: successor([first, graph.change_follow("ada", FollowAction.UNFOLLOW)])
        )
    )
    stalled([first])
    assert graph.followers() == {"bea"}


def test_indexer_without_its_partition_writes_nothing() -> None:
    graph = Graph(lost_partition=True)
    with pytest.raises(LogUnavailable):
        graph.indexer()([graph.change_follow("ada")])
    assert graph.followers() == set()


def test_block_is_stored_on_both_sides_and_in_no_bitmap() -> None:
    graph = Graph()
    graph.indexer()([graph.change_follow("ada"), graph.change_block("nova", "ada"), graph.change_block("bea", "cleo")])
    assert graph.blocked_users() == {"nova": {"ada"}, "ada": {"nova"}, "bea": {"cleo"}, "cleo": {"bea"}}
    assert graph.followers() == {"ada"}
    graph.indexer()([graph.change_block("nova", "ada", blocks=False)])
    assert graph.blocked_users() == {"bea": {"cleo"}, "cleo": {"bea"}}


def test_late_block_does_not_undo_an_unblock() -> None:
    graph = Graph()
    graph.indexer()([graph.change_block("ada", "bea", blocks=False, sequence=9)])
    graph.indexer()([graph.change_block("ada", "bea", sequence=8), graph.change_block("bea", "ada", sequence=1)])
    graph.indexer()(
        [graph.change_block("bea", "ada", blocks=False, sequence=2), graph.change_block("ada", "cleo", sequence=1)]
    )
    assert graph.blocked_users() == {"ada": {"cleo"}, "cleo": {"ada"}}


BLOCK_CHANGES = st.lists(
    st.tuples(st.permutations(["ada", "bea", "cleo"]), st.booleans(), st.integers(1, 4)), min_size=1, max_size=10
)


@given(BLOCK_CHANGES, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6), st.randoms())
@settings(max_examples=150, deadline=None)
def test_crashed_and_reordered_blocks_equal_blocks_in_order(
    block_changes: list[tuple[list[str], bool, int]], crashes: list[tuple[int, int]], random: Random
) -> None:
    graph, undisturbed = Graph(), Graph()
    for (blocker, blocked, _), blocks, sequence in block_changes:
        for copy in (graph, undisturbed):
            copy.change_block(blocker, blocked, blocks=blocks, sequence=sequence)
    for calls, size in crashes:
        fuse = Fuse(calls)
        crashing = graph.indexer(
            directory=fuse.on(graph.directory), user_blocks=fuse.on(graph.user_blocks), epochs=fuse.on(graph.epochs)
        )
        with suppress(StoreUnavailable):
            crashing(random.sample(graph.records, min(size, len(graph.records))))
    # Records of crashed batches are read again, in any order of the partitions.
    graph.indexer()(random.sample(graph.records, len(graph.records)))
    undisturbed.indexer()(undisturbed.records)
    assert graph.blocked_users() == undisturbed.blocked_users()


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bea", "cleo"]),
        st.sampled_from([*FollowAction, MUTED, UNMUTED, OFF, FIRST]),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(CHANGES, st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=6))
@settings(max_examples=150, deadline=None)
def test_indexing_after_crashes_equals_indexing_without_crashes(
    changes: list[tuple[str, FollowAction | PreferencePatch, int]], crashes: list[tuple[int, int]]
) -> None:
    graph, undisturbed = Graph(), Graph()
    for user, change, sequence in changes:
        for copy in (graph, undisturbed):
            if isinstance(change, FollowAction):
                copy.change_follow(user, change, sequence=sequence)
            else:
                copy.change_preference(user, change, at=sequence)
    done = 0
    for calls, size in crashes:
        fuse = Fuse(calls)
        crashing = graph.indexer(
            directory=fuse.on(graph.directory),
            follows=fuse.on(graph.follows),
            subject_preferences=fuse.on(graph.subject_preferences),
            sets=fuse.on(graph.sets),
            epochs=fuse.on(graph.epochs),
        )
        try:
            while done < len(graph.records):
                crashing(graph.records[done : done + size])
                done += size  # committed: never read again
        except StoreUnavailable:
            assert graph.shards_missing_in_head() == []
    graph.indexer()(graph.records[done:])
    undisturbed.indexer()(undisturbed.records)
    assert (graph.followers(), graph.preference_bitmaps()) == (
        undisturbed.followers(),
        undisturbed.preference_bitmaps(),
    )


@dataclass(frozen=True)
class StallsBeforeHeads:
    """Runs other code before it writes the heads."""

    port: MemoryMemberSets
    meanwhile: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def put_follower_counts(self, *args: Any) -> None:
        self.meanwhile()
        self.port.put_follower_counts(*args)
