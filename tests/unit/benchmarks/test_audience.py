"""The bench of audiences measures what it says: everybody is found, and the ways of others find the same."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.audience import directory as naming
from benchmarks.audience.alternatives import BloomFilter, BloomFilters, FollowerTable
from benchmarks.audience.compare import BitmapSource
from benchmarks.audience.large_universe import UniverseCase, figures, measure_case
from benchmarks.fanout.slices import GROWTH_MB, LOOKS
from benchmarks.fanout.slices import figures as of_slices
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.member_sets import SqliteMemberSets
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import no_members
from notifier.domain.audience.tiers import SetKind, Tier
from notifier.ports.audience import ShardBlob

WORLD = World(universe=20_000, followers=10_000, celebrities=1, seed=1)


@pytest.fixture
def sets(tmp_path: Path) -> Iterator[SqliteMemberSets]:
    files = Files.at(tmp_path)
    files.migrate()
    yield SqliteMemberSets(files.core)
    files.close()


def test_all_followers_of_a_universe_are_found(tmp_path: Path) -> None:
    found = measure_case(tmp_path / "store", UniverseCase(followers=1, universe=2), 1)
    assert found.shards == 16
    assert [one.finding.name for one in figures(found)] == [
        f"{name}{{1m_of_2m}}" for name in ("plan_s", "audience_algebra_s", "audience_s", "audience_mb")
    ]


def test_the_table_finds_whom_the_bitmaps_find_and_a_lost_bitmap_is_noticed(
    sets: SqliteMemberSets, tmp_path: Path
) -> None:
    ours, table = BitmapSource.filled(sets, WORLD), FollowerTable.filled(tmp_path / "table.db", WORLD)
    with closing(table.db):
        assert sum(table.tiers().values()) == WORLD.followers
        assert ours.tiers() == table.tiers()
        sets.put([ShardBlob(kind=SetKind.FOLLOWERS, owner=WORLD.subject(0), shard=0, bits=no_members())])
        assert ours.tiers() != table.tiers()


def test_a_filter_forgets_nobody_and_takes_one_stranger_in_a_hundred_for_a_member() -> None:
    everybody = np.arange(200_000, dtype=np.int64)
    found = BloomFilter.of(everybody[::10]).may_have(everybody)
    assert found[::10].all()
    strangers = np.delete(found, np.s_[::10])
    assert 0.003 < strangers.mean() < 0.02


def test_filters_put_people_into_higher_tiers_alone(tmp_path: Path) -> None:
    table = FollowerTable.filled(tmp_path / "table.db", WORLD)
    with closing(table.db):
        right, found = table.tiers(), BloomFilters.filled(table, WORLD).tiers()
    assert sum(found.values()) == WORLD.followers
    assert found[Tier.DORMANT] < right[Tier.DORMANT]


@pytest.mark.parametrize(("last", "ok"), [(100.0, True), (100.0 + 2 * GROWTH_MB, False)], ids=["flat", "grows"])
def test_memory_that_grows_with_the_slices_is_no_flat_one(last: float, ok: bool) -> None:
    rss, flat = of_slices([80.0, *[100.0] * (LOOKS - 2), last], 10_000)
    assert rss.finding.ok
    assert flat.finding.ok is ok


def test_the_directory_is_asked_for_people_who_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PEOPLE_QUICK": 3_000, "BATCHES_QUICK": 1, "BATCH": 256, "ROUNDS": 1}.items():
        monkeypatch.setattr(naming, name, value)
    found = {figure.finding.name: figure.finding for figure in naming.run(tmp_path, quick=True, tell=lambda _: None)}
    assert [*found] == [*naming.PARTS["directory"][1]]
    assert 20 < float(found["directory_bytes_per_user"].value or 0) < 500
    with pytest.raises(AssertionError, match="not all were found"):
        naming._rate(lambda lot: {lot[0]: None}, [["ann", "bob"]])
