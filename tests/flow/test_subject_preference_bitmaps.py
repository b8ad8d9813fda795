"""Graph indexer: mutes and volumes are in their own bitmaps and in no others."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import Kind, Subject
from notifier.domain.upstream.graph_stream_records import FollowAction
from notifier.domain.users.subject_preferences import ALWAYS, SUBJECT_PREFERENCE_SETS, PreferencePatch
from notifier.flow.indexing.bitmap_updates_and_repair import SHARDS_PER_WRITE
from notifier.ports.audience import ShardBitmap
from tests.flow.in_memory_graph_indexer import FIRST, LYRA, MUTED, NOVA, OFF, UNMUTED, Corrupt, Graph, StallsBeforeWrite
from tests.support.fakes.clock_and_nonces import START


def test_preference_is_in_its_bitmap_and_in_no_other() -> None:
    graph = Graph()
    graph.indexer()(
        [
            graph.change_follow("ada"),
            graph.change_preference("ada", MUTED),
            graph.change_preference("bea", OFF),
            graph.change_preference("cleo", FIRST),
        ]
    )
    assert graph.preference_bitmaps() == {"muted": {"ada"}, "off": {"bea"}, "first": {"cleo"}}
    graph.indexer()(
        [
            graph.change_preference("ada", PreferencePatch(muted_until=ALWAYS)),
            graph.change_preference("bea", FIRST),
            graph.change_preference("dan", OFF),
        ]
    )
    assert graph.preference_bitmaps() == {"off": {"dan"}, "first": {"bea", "cleo"}}
    assert (graph.followers(), graph.preference_bitmaps(LYRA)) == ({"ada"}, {})


def test_temporary_mute_is_in_no_bitmap() -> None:
    graph = Graph()
    graph.indexer()([graph.change_preference("ada", PreferencePatch(muted_until=START + timedelta(hours=1)))])
    assert graph.preference_bitmaps() == {}


def test_new_follow_does_not_end_a_mute() -> None:
    graph = Graph()
    graph.indexer()([graph.change_follow("ada"), graph.change_preference("ada", MUTED)])
    graph.indexer()(
        [graph.change_follow("ada"), graph.change_follow("ada", FollowAction.UNFOLLOW), graph.change_follow("ada")]
    )
    assert (graph.followers(), graph.preference_bitmaps()) == ({"ada"}, {"muted": {"ada"}})


def test_late_preference_loses_to_newer_one() -> None:
    graph = Graph()
    graph.indexer()([graph.change_preference("ada", OFF, at=9)])
    graph.indexer()([graph.change_preference("ada", FIRST, at=8)])
    assert graph.preference_bitmaps() == {"off": {"ada"}}


def test_preference_bitmaps_are_rebuilt_like_follower_bitmaps() -> None:
    graph = Graph()
    graph.indexer()([graph.change_preference("ada", MUTED), graph.change_preference("bea", OFF)])
    graph.indexer(sets=Corrupt(graph.sets))([graph.change_preference("cleo", MUTED)])
    assert graph.preference_bitmaps() == {"muted": {"ada", "cleo"}, "off": {"bea"}}
    corrupt = ShardBitmap(kind=SetKind.FIRST, owner=Subject(Kind.MENTION, NOVA), shard=0, bits=from_offsets([1, 7, 9]))
    graph.sets.put([corrupt], fencing_token(0))
    graph.indexer()([graph.rebuild(0)])
    assert graph.preference_bitmaps() == {"muted": {"ada", "cleo"}, "off": {"bea"}}


def test_stalled_indexer_does_not_restore_a_revoked_mute() -> None:
    graph = Graph()
    first = graph.change_preference("ada", MUTED)
    successor = graph.indexer()
    stalled = graph.indexer(
        sets=StallsBeforeWrite(graph.sets, lambda: successor([first, graph.change_preference("ada", UNMUTED)]))
    )
    stalled([first])
    assert len(graph.records) == 2
    assert graph.preference_bitmaps() == {}


def test_each_bitmap_is_written_once_a_batch() -> None:
    """Cassandra keeps the larger value of two writes with the same fencing token."""
    graph, put = Graph(), list[tuple[SetKind, int]]()

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(graph.sets, name)

        def put(self, bitmaps: Iterable[ShardBitmap], *args: Any) -> None:
            listed = list(bitmaps)
            put.extend((blob.kind, blob.shard) for blob in listed)
            graph.sets.put(listed, *args)

    graph.indexer(sets=Counting())(
        [graph.change_preference("ada", MUTED), graph.change_follow("ada"), graph.rebuild(0)]
    )
    assert sorted(put) == sorted({*put})
    assert graph.preference_bitmaps() == {"muted": {"ada"}}


def test_rebuild_of_many_shards_holds_few_bitmaps_in_memory() -> None:
    graph, sizes = Graph(), list[int]()

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(graph.sets, name)

        def put(self, bitmaps: Iterable[ShardBitmap], *args: Any) -> None:
            listed = list(bitmaps)
            sizes.append(sum(blob.kind in SUBJECT_PREFERENCE_SETS for blob in listed))
            graph.sets.put(listed, *args)

    graph.indexer(sets=Counting())(
        [graph.change_preference("ada", MUTED), graph.rebuild(*range(2 * SHARDS_PER_WRITE + 22))]
    )
    shards_per_write = (SHARDS_PER_WRITE, SHARDS_PER_WRITE, 22)
    assert sizes[1:] == [shards * len(SUBJECT_PREFERENCE_SETS) for shards in shards_per_write]
    assert graph.preference_bitmaps() == {"muted": {"ada"}}
