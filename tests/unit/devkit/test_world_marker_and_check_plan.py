"""World markers of data folders, and collapse windows and fan-outs of a check."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from notifier.devkit.check.check_run import CheckPlan
from notifier.devkit.fixture import sample_users_and_devices as fixture_users
from notifier.devkit.fixture.world import World
from notifier.devkit.fixture.world_loader_and_markers import WORLD_MARKERS, require_same_world, write_world_marker
from notifier.domain.errors import OtherWorld
from notifier.domain.ids import UserId

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
    plan = CheckPlan(data=tmp_path, world=WORLD, mentions=1, threshold=1, collapse=collapse, seed=1)
    assert list(plan.collapsing_celebrities) == names


@pytest.mark.parametrize(
    ("collapse", "mentioned", "seconds"),
    [(0.0, "nova", 60.0), (0.0, "orion", 0.0), (20.0, "nova", 20.0), (None, "orion", 60.0)],
)
def test_collapse_window_of_a_large_celebrity_is_never_zero(
    collapse: float | None, mentioned: str, seconds: float, tmp_path: Path
) -> None:
    plan = CheckPlan(data=tmp_path, world=WORLD, mentions=1, threshold=1, collapse=collapse, seed=1)
    assert plan.collapse_seconds([(UserId(mentioned),)]) == seconds


@pytest.mark.parametrize(("collapse", "small", "large"), [(None, 3, 3), (30.0, 3, 3), (20.0, 7, 7), (5.0, 13, 7)])
def test_fanout_limit_counts_the_windows_of_small_celebrities(
    collapse: float | None, small: int, large: int, tmp_path: Path
) -> None:
    plan = CheckPlan(data=tmp_path, world=WORLD, mentions=1, threshold=1, collapse=collapse, seed=1)
    assert plan.max_fanouts == small
    assert replace(plan, world=replace(WORLD, celebrities=1)).max_fanouts == large


def test_only_a_world_with_dormant_users_has_any() -> None:
    assert fixture_users.has_dormant_follower(WORLD)
    assert not fixture_users.has_dormant_follower(World(universe=1, followers=1, celebrities=1, seed=1))
