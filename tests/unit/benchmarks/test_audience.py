"""Audience benchmark: it finds every follower, and alternatives find the same."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.audience import user_directory
from benchmarks.audience.alternative_audiences import BloomFilter, BloomFilters, FollowerTable
from benchmarks.audience.audience_design_comparison import BitmapSource
from benchmarks.audience.plans_and_snapshots_by_size import UniverseCase, figures, measure_case
from benchmarks.fanout.worker_memory import GROWTH_MB, SAMPLES
from benchmarks.fanout.worker_memory import figures as memory_figures
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.member_sets_and_active_sets import SqliteMemberSets
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import no_members
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier
from notifier.ports.audience import ShardBitmap

WORLD = World(universe=20_000, followers=10_000, celebrities=1, seed=1)


@pytest.fixture
def sets(tmp_path: Path) -> Iterator[SqliteMemberSets]:
    files = Files.at(tmp_path)
    files.migrate()
    yield SqliteMemberSets(files.core)
    files.close()


def test_all_followers_of_universe_are_found(tmp_path: Path) -> None:
    audience = measure_case(tmp_path / "store", UniverseCase(followers=1, universe=2), 1)
    assert audience.shards == 16
    assert [figure.finding.name for figure in figures(audience)] == [
        f"{name}{{1m_of_2m}}" for name in ("plan_s", "audience_algebra_s", "audience_s", "audience_mb")
    ]


def test_table_and_bitmaps_agree_until_bitmap_is_lost(sets: SqliteMemberSets, tmp_path: Path) -> None:
    bitmaps, table = BitmapSource.filled(sets, WORLD), FollowerTable.filled(tmp_path / "table.db", WORLD)
    with closing(table.db):
        assert sum(table.tiers().values()) == WORLD.followers
        assert bitmaps.tiers() == table.tiers()
        sets.put([ShardBitmap(kind=SetKind.FOLLOWERS, owner=WORLD.subject(0), shard=0, bits=no_members())])
        assert bitmaps.tiers() != table.tiers()


def test_bloom_filter_has_no_misses_and_one_percent_false_hits() -> None:
    users = np.arange(200_000, dtype=np.int64)
    hits = BloomFilter.of(users[::10]).may_have(users)
    assert hits[::10].all()
    false_hits = np.delete(hits, np.s_[::10])
    assert 0.003 < false_hits.mean() < 0.02


def test_bloom_filters_find_fewer_dormant_members(tmp_path: Path) -> None:
    table = FollowerTable.filled(tmp_path / "table.db", WORLD)
    with closing(table.db):
        expected, actual = table.tiers(), BloomFilters.filled(table, WORLD).tiers()
    assert sum(actual.values()) == WORLD.followers
    assert actual[Tier.DORMANT] < expected[Tier.DORMANT]


@pytest.mark.parametrize(("last", "ok"), [(100.0, True), (100.0 + 2 * GROWTH_MB, False)], ids=["flat", "grows"])
def test_memory_growing_with_slices_is_not_flat(last: float, ok: bool) -> None:
    rss, flat = memory_figures([80.0, *[100.0] * (SAMPLES - 2), last], 10_000)
    assert rss.finding.ok
    assert flat.finding.ok is ok


def test_directory_benchmark_looks_up_existing_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PEOPLE_QUICK": 3_000, "BATCHES_QUICK": 1, "USERS_PER_LOOKUP": 256, "ROUNDS": 1}.items():
        monkeypatch.setattr(user_directory, name, value)
    findings = {
        figure.finding.name: figure.finding for figure in user_directory.run(tmp_path, quick=True, tell=lambda _: None)
    }
    assert [*findings] == [*user_directory.PARTS["directory"][1]]
    assert 20 < float(findings["directory_bytes_per_user"].value or 0) < 500
    with pytest.raises(AssertionError, match="were not found"):
        user_directory._rate(lambda ids: {ids[0]: None}, [["ann", "bob"]])
