"""Data folders belong to one world, and zero collapse applies only to small accounts."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from notifier.devkit.check.run import CheckPlan
from notifier.devkit.fixture import users as fixture_users
from notifier.devkit.fixture.load import WORLD_MARKERS, require_same_world, write_world_marker
from notifier.devkit.fixture.world import World
from notifier.domain.errors import OtherWorld

WORLD = World(universe=400_000, followers=400_000, celebrities=3, seed=1)


def test_folder_belongs_to_its_first_world(tmp_path: Path) -> None:
    write_world_marker(tmp_path, WORLD)
    write_world_marker(tmp_path, replace(WORLD))
    with pytest.raises(OtherWorld, match="--seed 1"):
        write_world_marker(tmp_path, replace(WORLD, seed=2))
    require_same_world(tmp_path, WORLD)


@pytest.mark.parametrize("marker", WORLD_MARKERS)
@pytest.mark.parametrize("text", [json.dumps(asdict(replace(WORLD, universe=500_000))), "", "[]", "{"])
def test_marker_of_another_or_invalid_world_is_refused(marker: str, text: str, tmp_path: Path) -> None:
    (tmp_path / marker).write_text(text)
    with pytest.raises(OtherWorld):
        write_world_marker(tmp_path, WORLD)
    assert (tmp_path / marker).read_text() == text


@pytest.mark.parametrize(("collapse", "names"), [(0.0, ["nova"]), (20.0, []), (None, [])])
def test_zero_collapse_is_ignored_above_100_000_followers(
    collapse: float | None, names: list[str], tmp_path: Path
) -> None:
    script = CheckPlan(data=tmp_path, world=WORLD, mentions=1, threshold=1, collapse=collapse, seed=1)
    assert list(script.collapsing_celebrities) == names


def test_any_dormant_considers_the_whole_world() -> None:
    assert fixture_users.any_dormant(WORLD)
    assert not fixture_users.any_dormant(World(universe=1, followers=1, celebrities=1, seed=1))
