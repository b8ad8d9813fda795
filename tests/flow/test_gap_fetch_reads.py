"""Gap fetch on fakes: reads per request, and results when the store fails."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.inbox.gap_fetch import MAX_BURSTS_READ, NO_SUBJECT, GapFetch, GapPage, SeqRange
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryTimeline
from tests.support.in_memory_system import LYRA, NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync

KIM, LEE = UserId("kim"), UserId("lee")
UNKNOWN = Subject(Kind.MENTION, UserId("who-is-this"))
EVERYTHING = SeqRange(first=0)


@dataclass(frozen=True)
class RecordedTimeline:
    """A timeline that records its calls."""

    port: MemoryTimeline
    calls: list[tuple[str, tuple[object, ...], int]] = field(default_factory=list)
    """Method, arguments, and number of bursts or rows returned."""

    async def older_than(self, *arguments: Any) -> Sequence[object]:
        bursts = await self.port.older_than(*arguments)
        self.calls.append(("older_than", arguments, len(bursts)))
        return bursts


@dataclass(frozen=True)
class SlowTimeline:
    """A timeline that reads single bursts and rows, but fails to read a subject's list."""

    port: MemoryTimeline

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def older_than(self, *_: object) -> Sequence[object]:
        raise StoreUnavailable()


def fetch(stage: Stage, timeline: Any, subject: Subject, user: UserId = KIM, limit: int = 50) -> GapPage:
    gaps = GapFetch(people=stage.state.people, timeline=timeline, clock=stage.state.clock)
    return run_sync(gaps.fetch(user, subject, EVERYTHING, limit=limit))


def mentioned(owner: str, times: int) -> Stage:
    stage = Stage(collapse=timedelta(0))
    for _ in range(times):
        stage.tweet(owner)
    stage.sequence()
    stage.pass_time(seconds=2)
    return stage


def calls_for(stage: Stage, subject: Subject, user: UserId = KIM) -> list[tuple[str, tuple[object, ...], int]]:
    timeline = RecordedTimeline(stage.state.timeline)
    assert fetch(stage, timeline, subject, user).items == []
    return timeline.calls


def test_page_is_one_read_of_bounded_size() -> None:
    stage = mentioned("lyra", MAX_BURSTS_READ + 50)
    timeline = RecordedTimeline(stage.state.timeline)
    page = fetch(stage, timeline, LYRA, LEE, limit=100)
    [(method, _, returned)] = timeline.calls
    assert (method, returned, len(page.items)) == ("older_than", MAX_BURSTS_READ, 100)
    assert page.next is not None


def test_subject_not_for_viewer_costs_the_same_read_as_unknown_subject() -> None:
    stage = mentioned("lyra", 3)
    assert len(stage.bursts(LYRA)) == 3
    [(method, arguments, returned)] = calls_for(stage, UNKNOWN)
    assert (method, arguments[0], returned) == ("older_than", [NO_SUBJECT], 0)
    for subject in (LYRA, Subject(Kind.SELF, UserId("lyra")), Subject(Kind.DIGEST, KIM)):
        assert calls_for(stage, subject) == calls_for(stage, UNKNOWN)


@pytest.mark.parametrize("change", ["block", "blocked_by", "mute", "unfollow"])
def test_subject_hidden_by_viewer_facts_costs_the_same_read(change: str) -> None:
    stage = mentioned("lyra", 3)
    people = stage.state.people
    match change:
        case "block":
            people.block(LEE, LYRA.owner)
        case "blocked_by":
            people.block(LYRA.owner, LEE)
        case "mute":
            people.mute(LEE, LYRA)
        case "unfollow":
            people.unfollow(LEE, LYRA)
    assert calls_for(stage, LYRA, LEE) == calls_for(stage, UNKNOWN, LEE)


def test_slow_store_returns_bursts_of_inbox_rows() -> None:
    stage = mentioned("nova", 1)
    stage.mention("orion")
    stage.deliver()
    page = fetch(stage, SlowTimeline(stage.state.timeline), NOVA)
    assert [item.burst.key.subject for item in page.items] == [NOVA]
    assert (page.partial, page.next) == (True, None)


def test_store_outage_raises() -> None:
    stage = mentioned("nova", 1)
    with pytest.raises(StoreUnavailable):
        fetch(stage, FailingPort(stage.state.timeline, StoreUnavailable), NOVA)


def test_unknown_or_deleted_user_raises() -> None:
    stage = mentioned("nova", 1)
    for name in ("nobody", "gone"):
        with pytest.raises(NotFound):
            fetch(stage, stage.state.timeline, NOVA, UserId(name))
