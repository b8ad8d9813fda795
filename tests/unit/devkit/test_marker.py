"""A data folder holds one world, and a wish not to be collapsed is heard from small ones alone."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from notifier.devkit.check.run import CheckPlan
from notifier.devkit.fixture import users as people
from notifier.devkit.fixture.load import NOTES, claim, require_same
from notifier.devkit.fixture.world import World
from notifier.domain.errors import OtherWorld

WORLD = World(universe=400_000, followers=400_000, celebrities=3, seed=1)


def test_a_folder_is_the_first_world_s(tmp_path: Path) -> None:
    claim(tmp_path, WORLD)
    claim(tmp_path, replace(WORLD))
    with pytest.raises(OtherWorld, match="--seed 1"):
        claim(tmp_path, replace(WORLD, seed=2))
    require_same(tmp_path, WORLD)


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("text", [json.dumps(asdict(replace(WORLD, universe=500_000))), "", "[]", "{"])
def test_a_note_of_another_world_or_of_none_refuses_every_other(note: str, text: str, tmp_path: Path) -> None:
    (tmp_path / note).write_text(text)
    with pytest.raises(OtherWorld):
        claim(tmp_path, WORLD)
    assert (tmp_path / note).read_text() == text


@pytest.mark.parametrize(("collapse", "names"), [(0.0, ["nova"]), (20.0, []), (None, [])])
def test_a_collapse_of_nothing_is_not_heard_above_100_000_followers(
    collapse: float | None, names: list[str], tmp_path: Path
) -> None:
    script = CheckPlan(data=tmp_path, world=WORLD, mentions=1, threshold=1, collapse=collapse, seed=1)
    assert list(script.unheard) == names


def test_whether_anybody_is_dormant_is_known_of_the_whole_world() -> None:
    assert people.any_dormant(WORLD)
    assert not people.any_dormant(World(universe=1, followers=1, celebrities=1, seed=1))
