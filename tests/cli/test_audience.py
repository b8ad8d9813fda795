"""`notifier audience` agrees with the world that was loaded."""

import json
from pathlib import Path

from notifier.testing.world import World
from tests.cli.conftest import Notifier


def test_an_audience_is_counted_as_the_fixture_made_it(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--seed", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    found = json.loads(notifier("audience", "@nova", "--json", "--data", str(folder)).stdout)
    world = World(universe=4_000, followers=2_000, celebrities=2, seed=1)
    assert (found["followers"], found["followers_by_head"], found["shards"]) == (world.size(0), world.size(0), 1)
    assert sum(one["people"] for one in found["tiers"]) + sum(found["suppressed"].values()) == world.size(0)
    text = notifier("audience", "nova", "--data", str(folder)).stdout
    assert text.startswith("@nova is in the standard lane, with 2,000 followers (shards of them: 1).")
    assert [line.split()[0] for line in text.splitlines()[3:8]] == ["p0", "p1", "p2", "dormant", "muted"]


def test_of_whom_nobody_follows_one_sentence_is_said(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    text = notifier("audience", "u7", "--data", str(folder)).stdout
    assert text.splitlines() == ["@u7 is in the standard lane, with 0 followers (shards of them: 0)."]
