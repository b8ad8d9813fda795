"""Follow import: every follower of the file follows, despite earlier state and crashes."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_BYTES
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_stream_records import FollowAction
from notifier.domain.users.subject_preferences import ALWAYS
from notifier.flow.imports.follower_import import FollowerImport
from notifier.flow.imports.import_runner_accounts_preferences import Import
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.import_batches_and_key_sort import FollowEdges, NumericIdFollowEdges
from tests.flow.in_memory_graph_indexer import LYRA, NOVA, Fuse, Graph
from tests.support.fakes.follow_import import MemoryFollowRuns

Pair = tuple[str, str]
"""The follower and the followed account."""


class IndexedLog:
    """The log that the graph indexer reads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            self.graph.records.append(Logged(partition="follows/0", offset=len(self.graph.records), record=record))


def importer(
    graph: Graph, runs: MemoryFollowRuns, fuse: Fuse | None = None
) -> Import[FollowEdges | NumericIdFollowEdges]:
    on = fuse.on if fuse else lambda port: port
    followers = FollowerImport(
        directory=on(graph.directory), follows=on(graph.follows), log=on(IndexedLog(graph)), visible_from=ALWAYS
    )
    return Import(kind=followers, key_sort=on(runs))


def batches(pairs: Sequence[Pair], batch_size: int = 3) -> list[FollowEdges]:
    return [
        FollowEdges(
            followers=[UserId(follower) for follower, _ in pairs[n : n + batch_size]],
            followed=[UserId(followed) for _, followed in pairs[n : n + batch_size]],
            rows_read=min(n + batch_size, len(pairs)),
        )
        for n in range(0, len(pairs), batch_size)
    ]


def after_read(source: Iterable[FollowEdges], read: int) -> Iterator[FollowEdges]:
    return (batch for batch in source if batch.rows_read > read)


def import_follows(graph: Graph, pairs: Sequence[Pair]) -> None:
    runs = MemoryFollowRuns()
    importing = importer(graph, runs)
    importing.read(batches(pairs))
    importing.write()
    graph.indexer()(graph.records)
    runs.clear()
    assert runs.rows_read() == 0


def pairs_to(count: int, followed: str = "nova") -> list[Pair]:
    return [(f"u{n}", followed) for n in range(count)]


def test_imported_followers_are_in_shared_and_own_rows() -> None:
    graph = Graph()
    import_follows(graph, [*pairs_to(20), ("u3", "lyra"), ("u3", "lyra"), ("nova", "nova")])
    assert graph.followers() == {f"u{n}" for n in range(20)}
    assert graph.followers(LYRA) == {"u3"}
    assert [len(row.members) for row in graph.people.blocks.values()] == [BLOCK_BYTES]
    members = graph.directory.assign_numbers([UserId("u3")])
    assert graph.people.own[members[UserId("u3")]] == {Subject(Kind.MENTION, LYRA): ALWAYS}


def test_second_import_only_adds_followers() -> None:
    graph = Graph()
    import_follows(graph, pairs_to(20))
    import_follows(graph, [(f"u{n}", "nova") for n in range(10, 40)])
    assert graph.followers() == {f"u{n}" for n in range(40)}


def test_import_does_not_undo_an_unfollow() -> None:
    graph = Graph()
    graph.indexer()(
        [graph.change_follow("u3", FollowAction.UNFOLLOW, sequence=1), graph.change_follow("u30", sequence=1)]
    )
    import_follows(graph, pairs_to(20))
    assert graph.followers() == {f"u{n}" for n in range(20) if n != 3} | {"u30"}


def test_numeric_ids_are_resolved_by_range_and_others_by_name() -> None:
    graph = Graph()
    for first, member in ((1, 5_000), (100, 9_000)):
        graph.directory.enrol_range(IdRange(prefix="", first=first, count=50, first_member=Member(member)))
    followers = np.array([1, 50, 51, 100, 149, 150, 7], dtype=np.int64)
    followed = np.array([9, 9, 9, 9, 9, 9, 7_000_000], dtype=np.int64)
    runs = MemoryFollowRuns()
    importing = importer(graph, runs)
    importing.read([NumericIdFollowEdges(followers=followers, followed=followed, rows_read=7)])
    importing.write()
    graph.indexer()(graph.records)
    assert graph.followers(UserId("9")) == {"1", "50", "51", "100", "149", "150"}
    assert graph.followers(UserId("7000000")) == {"7"}
    members = graph.directory.assign_numbers([UserId(user) for user in ("50", "100", "51")])
    assert (members[UserId("50")], members[UserId("100")]) == (5_049, 9_000)
    assert graph.follows.read_current([(Subject(Kind.MENTION, UserId("9")), members[UserId("51")])])


PAIRS = st.lists(st.tuples(st.integers(0, 30).map("u{}".format), st.sampled_from(["nova", "lyra", "u1"])), max_size=60)


@given(PAIRS, st.lists(st.integers(0, 12), max_size=8))
@settings(max_examples=150, deadline=None)
def test_import_after_crashes_equals_import_without_crashes(pairs: list[Pair], crashes: list[int]) -> None:
    graph, undisturbed, runs = Graph(), Graph(), MemoryFollowRuns()
    for calls in (*crashes, 10_000):
        crashing = importer(graph, runs, Fuse(calls))
        try:
            crashing.read(after_read(batches(pairs), runs.rows_read()))
            crashing.write()
            break
        except StoreUnavailable:
            continue
    graph.indexer()(graph.records)
    import_follows(undisturbed, pairs)
    for followed in (NOVA, LYRA, UserId("u1")):
        assert (
            graph.followers(followed)
            == undisturbed.followers(followed)
            == {a for a, b in pairs if (b == followed) and a != b}
        )
