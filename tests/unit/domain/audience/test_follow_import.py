"""Follow import: sorting, joining and cutting keep every edge exactly once."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.imports.sources_and_spilled_edges import SpilledEdges
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.import_keys_and_follow_rows import (
    HALF_KEY_BITS,
    FollowRowChunk,
    ImportKeys,
    cut_follow_rows,
    edge_keys,
    merge_limit,
    merge_runs,
)
from notifier.domain.errors import DiskFull
from notifier.domain.ids import Member
from tests.support.full_disk import limited_file_size

Pair = tuple[int, int]

PAIRS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5_000) | st.integers(0, 40) | st.integers(2**32 - 99, 2**32 - 1)),
    max_size=300,
)


def keys_of(pairs: Iterable[Pair]) -> ImportKeys:
    edges = list(pairs)
    return edge_keys((Member(followed) for followed, _ in edges), (Member(follower) for _, follower in edges))


def pairs_of(row_chunks: Iterable[FollowRowChunk]) -> list[Pair]:
    pairs: list[Pair] = []
    for row_chunk in row_chunks:
        pairs += row_chunk.member_rows
        for followed, block, members in row_chunk.block_rows:
            slots = [n for n in range(BLOCK_MEMBERS) if members[n // 8] >> n % 8 & 1]
            assert len(slots) >= 8
            pairs += [(followed, block * BLOCK_MEMBERS + slot) for slot in slots]
    return sorted(pairs)


@given(PAIRS)
def test_cut_keeps_all_edges_except_self_follows(pairs: list[Pair]) -> None:
    assert pairs_of(cut_follow_rows(keys_of(pairs))) == sorted({(a, b) for a, b in pairs if a != b})


def test_many_followers_of_a_block_share_a_row() -> None:
    many = [(7, BLOCK_MEMBERS * 3 + n) for n in range(8)]
    [row_chunks] = cut_follow_rows(keys_of([*many, (7, 12), (9, 12)]))
    assert [(followed, block) for followed, block, _ in row_chunks.block_rows] == [(7, 3)]
    assert row_chunks.member_rows == [(Member(7), Member(12)), (Member(9), Member(12))]


def test_no_edges_give_no_rows() -> None:
    assert list(cut_follow_rows(keys_of([]))) == []
    assert merge_runs([]).tolist() == []
    assert merge_limit([]) == 1 << 2 * HALF_KEY_BITS


@given(st.lists(PAIRS, min_size=1, max_size=5), st.integers(1, 3), st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_runs_are_read_as_one_sorted_sequence_without_split_blocks(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[Pair]], chunk_size: int, runs_per_merge: int
) -> None:
    edges = SpilledEdges(tmp_path_factory.mktemp("runs"), chunk_size, runs_per_merge)
    for n, pairs in enumerate(runs, 1):
        edges.add(keys_of(pairs), n * 100)
    assert edges.rows_read() == 100 * len(runs)
    chunks = list(edges.remaining_chunks())
    assert (
        np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in chunks)]).tolist()
        == merge_runs([keys_of(pairs) for pairs in runs]).tolist()
    )
    assert all(done_below % BLOCK_MEMBERS == 0 and int(keys[-1]) < done_below for keys, done_below in chunks)


def test_taken_edges_are_not_read_again(tmp_path: Path) -> None:
    pairs = [(owner, member) for owner in range(4) for member in range(0, 90_000, 7)]
    edges = SpilledEdges(tmp_path, 1)
    edges.add(keys_of(pairs[::2]), 1)
    edges.add(keys_of(pairs[1::2]), 2)
    taken: list[int] = []
    for number, (keys, done_below) in enumerate(edges.remaining_chunks()):
        if number == 5:
            break
        taken += keys.tolist()
        edges.mark_done(done_below)
    remaining = [key for keys, _ in SpilledEdges(tmp_path, 1).remaining_chunks() for key in keys.tolist()]
    assert taken + remaining == keys_of(pairs).tolist()
    edges.clear()
    assert (edges.rows_read(), list(edges.remaining_chunks()), list(tmp_path.iterdir())) == (0, [], [])


def test_half_written_run_is_ignored(tmp_path: Path) -> None:
    edges = SpilledEdges(tmp_path)
    edges.add(keys_of([(1, 2)]), 10)
    (tmp_path / "20.run.new").write_bytes(b"half")
    assert SpilledEdges(tmp_path).rows_read() == 10
    assert [keys.tolist() for keys, _ in SpilledEdges(tmp_path).remaining_chunks()] == [keys_of([(1, 2)]).tolist()]


def test_full_disk_refuses_a_run_and_keeps_no_part_of_it(tmp_path: Path) -> None:
    edges = SpilledEdges(tmp_path)
    edges.add(keys_of([(1, 2)]), 10)
    with limited_file_size(16), pytest.raises(DiskFull):
        edges.add(keys_of([(1, n) for n in range(2, 99)]), 20)
    assert (edges.rows_read(), edges.count(), [path.name for path in tmp_path.iterdir()]) == (10, 1, ["10.run"])
    edges.add(keys_of([(1, 3)]), 20)
    assert edges.count() == 2


def test_runs_of_equal_size_are_merged(tmp_path: Path) -> None:
    edges, pairs = SpilledEdges(tmp_path, runs_per_merge=4), [(7, n) for n in range(300)]
    for n in range(100):
        edges.add(keys_of(pairs[n::100]), n + 1)
        assert len(list(tmp_path.glob("*.run"))) <= 8
    assert edges.rows_read() == 100
    assert [key for keys, _ in edges.remaining_chunks() for key in keys.tolist()] == keys_of(pairs).tolist()


def test_crash_while_merging_runs_duplicates_no_edge(tmp_path: Path) -> None:
    edges = SpilledEdges(tmp_path, runs_per_merge=2)
    edges.add(keys_of([(1, 2)]), 10)
    small = (tmp_path / "10.run").read_bytes()
    edges.add(keys_of([(1, 3)]), 20)
    assert [path.name for path in tmp_path.glob("*.run")] == ["20.run"]
    (tmp_path / "10.run").write_bytes(small)
    again = SpilledEdges(tmp_path, runs_per_merge=2)
    assert again.rows_read() == 20
    assert [keys.tolist() for keys, _ in again.remaining_chunks()] == [keys_of([(1, 2), (1, 3)]).tolist()]
