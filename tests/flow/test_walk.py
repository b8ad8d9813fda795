"""The walk behind a page while the pull index lacks bursts that nobody could announce to it."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBLE_WITHIN
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import UserId
from notifier.domain.users.visibility import SETTLED_AFTER
from notifier.flow.inbox.audit import Audit
from notifier.flow.inbox.burst_walk import RUN, YOUNG
from notifier.flow.inbox.page import OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.pull_index import FRESH_FOR
from notifier.wiring.delivery import build_reconciler
from tests.support.failing_ports import Refusing
from tests.support.fakes.inbox import MemoryTimeline
from tests.support.in_memory_system import Openings, Stage
from tests.support.simulator.inbox_visits import driven

KIM = UserId("kim")
STEP = timedelta(milliseconds=100)


@dataclass(frozen=True)
class Counted:
    """A timeline, and since when it was asked for bursts."""

    port: MemoryTimeline
    asked: list[datetime | None] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def before(self, *given: Any) -> Any:
        self.asked.append(given[4] if len(given) > 4 else None)
        return await self.port.before(*given)


def unannounced(stage: Stage, mentioned: str = "nova", mentions: int = 1) -> list[Burst]:
    """Their publisher could neither announce them nor take the index's claim away."""
    for _ in range(mentions):
        stage.tweet(mentioned)
    for stream in topics.PARTITIONS:
        pump = stage.pump(stream, pull=Refusing(stage.ground.pull, CacheUnavailable))
        while pump.step():
            pass
        pump.consumer.close()
    return [burst for key, burst in stage.ground.bursts.by_key.items() if key.subject.owner == mentioned]


def compared(stage: Stage) -> Stage:
    build_reconciler(stage.system())()
    return stage


def opened(stage: Stage) -> OpenedInbox:
    found = Openings()
    driven(replace(stage.tab(), observers=[found]).open(KIM))
    return found[0]


def drifts(stage: Stage, answer: OpenedInbox) -> float:
    async def nothing(_: float) -> None:
        return

    metrics, g = Metrics(), stage.ground
    driven(Audit(people=g.people, timeline=g.timeline, metrics=metrics, pause=nothing).compare(answer))
    return metrics.registry.get_sample_value("notifier_badge_drift_total") or 0.0


@pytest.mark.parametrize("before", [timedelta(0), timedelta(milliseconds=1), STEP, VISIBLE_WITHIN])
def test_at_no_moment_a_page_lacks_what_is_settled_or_a_token_covers_what_it_lacks(before: timedelta) -> None:
    stage = compared(Stage())
    stage.pass_time(seconds=100)
    missing = max(unannounced(stage), key=lambda burst: burst.opened_at)
    # The worst case: it opened long before the comparison, and became readable right behind it.
    stage.pass_time(seconds=before.total_seconds())
    stage.ground.pull.as_of = stage.ground.clock.now()
    for _ in range(2 * FRESH_FOR // STEP):
        answer, now = opened(stage), stage.ground.clock.now()
        assert answer.page is not None
        assert answer.page.seen is not None
        assert answer.badge is not None
        lacks = [str(item.entry.key) for item in answer.page.items] != ["mention:nova#1"]
        assert not (lacks and missing.opened_at <= now - YOUNG)
        assert not (lacks and missing.opened_at <= answer.page.seen.as_of)
        assert answer.page.seen.as_of == now - SETTLED_AFTER
        assert answer.badge.count == (not lacks)
        assert drifts(stage, answer) == 0
        stage.pass_time(seconds=STEP.total_seconds())


def test_an_index_compared_within_the_last_second_saves_the_read() -> None:
    stage = compared(Stage())
    timeline, now = Counted(stage.ground.timeline), stage.ground.clock.now()
    tab = replace(stage.tab(), timeline=timeline)
    for age in (timedelta(0), YOUNG - VISIBLE_WITHIN - timedelta(milliseconds=1)):
        stage.ground.pull.as_of = now - age
        driven(tab.badge(KIM))
        assert [since for since in timeline.asked if since] == []
    stage.ground.pull.as_of = now - timedelta(seconds=1.5)
    driven(tab.badge(KIM))
    assert [since for since in timeline.asked if since] == [now - timedelta(seconds=2.5)]


def test_more_than_a_run_that_the_index_lacks_is_walked_through_whole() -> None:
    stage = compared(Stage(collapse=timedelta(0)))
    stage.mention("lyra")
    stage.pass_time(seconds=1)
    unannounced(stage, "lyra", RUN + 5)
    stage.pass_time(seconds=2)
    for limit in (10, RUN + 10):
        assert seqs(stage, limit) == list(range(RUN + 6, 0, -1))
    assert driven(stage.tab().badge(UserId("lee"))).count == RUN + 6


def seqs(stage: Stage, limit: int) -> list[int]:
    """On all of lee's pages."""
    found, page = list[int](), driven(stage.tab().page(UserId("lee"), limit=limit))
    while True:
        found += [item.entry.key.seq for item in page.items]
        if page.next is None:
            return found
        page = driven(stage.tab().page(UserId("lee"), after=page.next, limit=limit))
