"""Pages are complete while the pull index lacks bursts that were not announced."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import UserId
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE
from notifier.flow.inbox.burst_walk import MAX_UNLISTED_AGE, RUN_LENGTH
from notifier.flow.inbox.page import OpenedInbox
from notifier.flow.inbox.page_audit import Audit
from notifier.metrics import Metrics
from notifier.ports.pull_index import MAX_COMPARISON_AGE
from notifier.wiring.delivery import build_reconciler
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryTimeline
from tests.support.in_memory_system import Openings, Stage
from tests.support.simulator.inbox_visits import run_sync

KIM = UserId("kim")
STEP = timedelta(milliseconds=100)


@dataclass(frozen=True)
class Counted:
    """A timeline that records the start time of each read of bursts."""

    port: MemoryTimeline
    read_since: list[datetime | None] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def older_than(self, *args: Any) -> Any:
        self.read_since.append(args[4] if len(args) > 4 else None)
        return await self.port.older_than(*args)


def publish_unannounced(stage: Stage, mentioned: str = "nova", mentions: int = 1) -> list[Burst]:
    """Publish bursts without announcing them or invalidating the index."""
    for _ in range(mentions):
        stage.tweet(mentioned)
    for stream in topics.PARTITION_COUNTS:
        pump = stage.pump(stream, pull=FailingPort(stage.state.pull, CacheUnavailable))
        while pump.step():
            pass
        pump.consumer.close()
    return [burst for key, burst in stage.state.bursts.by_key.items() if key.subject.owner == mentioned]


def compared(stage: Stage) -> Stage:
    """Compare the pull index with the store."""
    build_reconciler(stage.system())()
    return stage


def opened(stage: Stage) -> OpenedInbox:
    openings = Openings()
    run_sync(replace(stage.uncached_inbox(), observers=[openings]).open(KIM))
    return openings[0]


def drifts(stage: Stage, opening: OpenedInbox) -> float:
    async def nothing(_: float) -> None:
        return

    metrics, state = Metrics(), stage.state
    run_sync(Audit(people=state.people, timeline=state.timeline, metrics=metrics, pause=nothing).compare(opening))
    return metrics.registry.get_sample_value("notifier_badge_drift_total") or 0.0


@pytest.mark.parametrize("age_at_comparison", [timedelta(0), timedelta(milliseconds=1), STEP, VISIBILITY_DEADLINE])
def test_page_and_token_are_correct_while_the_index_lacks_a_burst(age_at_comparison: timedelta) -> None:
    stage = compared(Stage())
    stage.pass_time(seconds=100)
    missing = max(publish_unannounced(stage), key=lambda burst: burst.opened_at)
    # Worst case: the burst opened long before the comparison and became readable right after it.
    stage.pass_time(seconds=age_at_comparison.total_seconds())
    stage.state.pull.as_of = stage.state.clock.now()
    for _ in range(2 * MAX_COMPARISON_AGE // STEP):
        opening, now = opened(stage), stage.state.clock.now()
        assert opening.page is not None
        assert opening.page.seen is not None
        assert opening.badge is not None
        is_missing = [str(item.entry.key) for item in opening.page.items] != ["mention:nova#1"]
        assert not (is_missing and missing.opened_at <= now - MAX_UNLISTED_AGE)
        assert not (is_missing and missing.opened_at <= opening.page.seen.as_of)
        assert opening.page.seen.as_of == now - CERTAINLY_VISIBLE_AGE
        assert opening.badge.count == (not is_missing)
        assert drifts(stage, opening) == 0
        stage.pass_time(seconds=STEP.total_seconds())


def test_recently_compared_index_saves_a_read() -> None:
    stage = compared(Stage())
    timeline, now = Counted(stage.state.timeline), stage.state.clock.now()
    tab = replace(stage.uncached_inbox(), timeline=timeline)
    for age in (timedelta(0), MAX_UNLISTED_AGE - VISIBILITY_DEADLINE - timedelta(milliseconds=1)):
        stage.state.pull.as_of = now - age
        run_sync(tab.badge(KIM))
        assert [since for since in timeline.read_since if since] == []
    stage.state.pull.as_of = now - timedelta(seconds=1.5)
    run_sync(tab.badge(KIM))
    assert [since for since in timeline.read_since if since] == [now - timedelta(seconds=2.5)]


def test_more_than_a_run_of_missing_bursts_is_listed() -> None:
    stage = compared(Stage(collapse=timedelta(0)))
    stage.mention("lyra")
    stage.pass_time(seconds=1)
    publish_unannounced(stage, "lyra", RUN_LENGTH + 5)
    stage.pass_time(seconds=2)
    for limit in (10, RUN_LENGTH + 10):
        assert seqs(stage, limit) == list(range(RUN_LENGTH + 6, 0, -1))
    assert run_sync(stage.uncached_inbox().badge(UserId("lee"))).count == RUN_LENGTH + 6


def seqs(stage: Stage, limit: int) -> list[int]:
    """Return the sequence numbers on all of lee's pages."""
    numbers, page = list[int](), run_sync(stage.uncached_inbox().page(UserId("lee"), limit=limit))
    while True:
        numbers += [item.entry.key.seq for item in page.items]
        if page.next is None:
            return numbers
        page = run_sync(stage.uncached_inbox().page(UserId("lee"), after=page.next, limit=limit))
