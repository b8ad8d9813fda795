"""An account that crosses the celebrity threshold changes lanes without gaps or duplicates in inboxes."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier.config import Settings
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Lane, Subject, UserId
from notifier.flow.intake.mention_router import FollowerCountCache
from notifier.ports.pull_index import MAX_COMPARISON_AGE
from notifier.profiles import Profile, choose
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.flow.celebrity_threshold_crossing import VERA, Crossing, on_profile, require_no_gap
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync

__all__ = ["valkey", "valkey_server"]


@pytest.fixture
def embedded(tmp_path: Path, valkey: Valkey) -> Iterator[Profile]:
    profile = choose(Settings(data=tmp_path, redis_url=valkey.url))
    profile.migrate()
    with closing(profile):
        yield profile


def in_memory(stage: Stage) -> Crossing:
    def shown(user: UserId) -> list[BurstKey] | None:
        page = run_sync(stage.uncached_inbox().page(user, limit=200))
        return None if page.partial else [item.entry.key for item in page.items]

    def listed() -> set[BurstKey] | None:
        pulled = run_sync(stage.state.pull.read_newest([VERA]))
        return None if pulled.complete_since is None else {place.burst for place in pulled.positions}

    return Crossing(ports=stage.ports, shown=shown, listed=listed)


def test_crossing_leaves_no_gap() -> None:
    crossing = in_memory(Stage())
    crossing.run(rounds=3)
    require_no_gap(crossing)


def test_crossing_leaves_no_gap_when_the_index_proof_expires() -> None:
    stage = Stage()
    crossing = in_memory(stage)
    crossing.run(rounds=3)
    listed, delays = crossing.listed, iter([2 * MAX_COMPARISON_AGE])

    def listed_late() -> set[BurstKey] | None:
        stage.state.clock.advance(next(delays, timedelta(0)))
        return listed()

    crossing.listed = listed_late
    require_no_gap(crossing)


def test_crossing_leaves_no_gap_on_sqlite_and_valkey(embedded: Profile) -> None:
    crossing = on_profile(embedded)
    crossing.run(rounds=2)
    require_no_gap(crossing)


def test_event_routed_to_both_lanes_is_in_one_burst() -> None:
    """The router crashed before its commit, and its successor read another follower count."""
    stage = Stage()
    for total in (2_000, 500):
        stage.state.sets.put_follower_counts({NOVA: FollowerCounts(total=total, by_shard=[total])})
        routing = stage.pump("mentions").stage
        if total == 2_000:
            stage.tweet("nova", id="e1")
        routing(list(stage.state.log.read_uncommitted("mentions", "router", 9)))
    stage.sequence()
    bursts = [burst for key, burst in stage.state.bursts.by_key.items() if key.subject == NOVA]
    assert [(burst.count, burst.key.seq) for burst in bursts] == [(1, 1)]


def test_fanout_budget_is_shared_by_both_lanes() -> None:
    """Six fan-outs at once and one more an hour, in any lane."""
    stage = Stage()
    for n in range(20):
        total = (800, 1_200)[n % 2] * 1_000
        stage.state.sets.put_follower_counts({NOVA: FollowerCounts(total=total, by_shard=[total // 2] * 2)})
        stage.mention("nova", author=("ada", "bob")[n % 2])
        stage.pass_time(seconds=301)
    opened = [stage.state.bursts.by_key[key].opened_at for key in stage.bursts()]
    assert 6 < len(opened) <= 7 + (opened[-1] - opened[0]) / timedelta(hours=1)


class Heads:
    """Sequence heads that are readable, or raise Poison."""

    def __init__(self, stage: Stage, *, corrupt: bool = False) -> None:
        self._heads, self._corrupt = stage.state.heads, corrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._heads, name)

    def load(self, subjects: list[Subject]) -> Any:
        if self._corrupt:
            raise Poison("A bit has flipped.")
        return self._heads.load(subjects)


def test_new_router_between_the_thresholds_keeps_the_lane_of_the_last_burst() -> None:
    stage = Stage()

    def resize(total: int) -> None:
        stage.state.sets.put_follower_counts({NOVA: FollowerCounts(total=total, by_shard=[total])})

    def lane(*, corrupt: bool = False) -> Lane:
        """Return the lane that a router chooses right after its start."""
        heads: Any = Heads(stage, corrupt=corrupt)
        return FollowerCountCache(sets=stage.state.sets, heads=heads, clock=stage.state.clock, threshold=1_000)(NOVA)[1]

    resize(950)
    assert lane() is Lane.STANDARD
    resize(1_000)
    stage.mention("nova")
    resize(950)
    assert lane() is Lane.CELEBRITY
    assert lane(corrupt=True) is Lane.STANDARD
    resize(899)
    assert lane() is Lane.STANDARD
    stage.pass_time(minutes=6)
    stage.mention("nova")
    resize(950)
    assert lane() is Lane.STANDARD
