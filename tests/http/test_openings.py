"""What opening the tab leaves behind once it is answered: who was around is noted, and a few openings are audited."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

import httpx
import pytest

from notifier.api.background.activity_recorder import Noting, Pause
from notifier.api.background.housekeeping import APART, ONE_IN, Auditing
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import InboxView, OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.pull_index import Pulled, SubjectList, SubjectLists
from tests.support.breakable_ports import BreakableActivity, Broken
from tests.support.example_event import accept, event
from tests.support.fakes.clock import START
from tests.support.http_app import House

HOUR = int(START.timestamp()) // 3600


@dataclass(frozen=True, slots=True)
class Lying:
    """An index that claims to list everything, and lists nothing."""

    since: datetime

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        return Pulled(places=(), complete_since=self.since)

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists:
        nothing = SubjectList(complete_since=self.since, places=())
        return SubjectLists(lists=dict.fromkeys(subjects, nothing), as_of=self.since + timedelta(days=2))


PAGE, UNREAD = "/v1/inbox", "/v1/inbox/unread"


@pytest.fixture
def house() -> House:
    """Nova was mentioned, long enough ago."""
    house = House()
    accept(house.system, event())
    house.sequence()
    house.clock.advance(timedelta(minutes=1))
    return house


def test_opening_the_tab_notes_who_is_around(house: House) -> None:
    statuses = opened(house, ("u1", PAGE), ("u2", UNREAD), ("u2", PAGE), ("u1", PAGE))
    assert statuses == [200] * 4
    assert house.activity.sent == [(HOUR, [Member(1), Member(2)])]


def test_who_has_no_tab_is_not_noted(house: House) -> None:
    assert opened(house, ("nobody", PAGE), ("gone", UNREAD)) == [404, 404]
    assert house.activity.sent == []


def test_without_the_cache_the_tab_is_answered(house: House) -> None:
    house.broken.cache = CacheUnavailable()
    assert opened(house, ("u1", PAGE), ("u1", UNREAD)) == [200, 200]
    assert house.activity.sent == []


def test_a_healthy_opening_is_audited_and_agrees(house: House) -> None:
    opened(house, ("u1", PAGE))
    assert counted(house) == (1, 0)


def test_an_index_that_lies_is_found_out_after_the_answer(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.reads = replace(house.reads, pull=Lying(house.clock.now() - timedelta(days=1)))
    opened(house, ("u1", PAGE))
    assert counted(house) == (1, 1)
    [line] = [one.getMessage() for one in caplog.records if one.name == "notifier.audit"]
    assert "mention:nova#1" in line
    assert "hello" not in line


@pytest.mark.parametrize(("trouble", "logged"), [(StoreUnavailable(), []), (ZeroDivisionError(), ["An audit failed"])])
def test_an_audit_that_fails_touches_no_answer(
    house: House, trouble: Exception, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def answered_and_broken(_: float) -> None:
        house.broken.store = trouble

    assert opened(house, ("u1", PAGE), pause=answered_and_broken) == [200]
    assert counted(house) == (0, 0)
    assert [one.getMessage() for one in caplog.records if one.name == "notifier.api"] == logged


def test_one_opening_in_so_many_is_audited_and_the_first_of_all() -> None:
    assert asyncio.run(audited(2 * ONE_IN + 1, at_once)) == [1, ONE_IN + 1, 2 * ONE_IN + 1]


def test_while_an_audit_goes_on_no_other_begins() -> None:
    begun = []

    async def for_ever(seconds: float) -> None:
        begun.append(seconds)
        await asyncio.Event().wait()

    assert asyncio.run(audited(3 * ONE_IN, for_ever)) == []
    assert begun == [APART.total_seconds()]


def test_many_openings_of_a_second_are_one_touch_an_hour() -> None:
    sent = asyncio.run(noted([(member, 0) for member in (5, 3, 5)], [(5, 10), (3, 59)]))
    assert sent == [(HOUR, [3, 5])]


def test_in_the_next_hour_everybody_is_noted_again() -> None:
    sent = asyncio.run(noted([(5, 0)], [(5, 60), (3, 60)], [(5, 61)]))
    assert sent == [(HOUR, [5]), (HOUR + 1, [3, 5])]


def test_an_opening_answered_across_the_hour_is_noted_in_the_new_one() -> None:
    sent = asyncio.run(noted([(5, 60), (3, 59)]))
    assert sent == [(HOUR + 1, [3, 5])]


def test_who_could_not_be_noted_is_at_the_next_opening() -> None:
    sent = asyncio.run(noted([(5, 0)], [(3, 1)], [(5, 2)], away=1))
    assert sent == [(HOUR, [3]), (HOUR, [5])]


def opened(house: House, *who: tuple[str, str], pause: Pause | None = None) -> list[int]:
    """The statuses, one after another; everything that was left for later is done when it returns."""

    async def run() -> list[int]:
        answered = asyncio.Event()
        app = cast(Any, house.app(pause or (lambda _: answered.wait())))  # the two libraries spell ASGI differently
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
            answers = [
                await client.get(path, headers={"Authorization": f"Bearer {house.token(user)}"}) for user, path in who
            ]
        answered.set()
        await later()
        return [answer.status_code for answer in answers]

    return asyncio.run(run())


@dataclass(slots=True)
class KeptAudit:
    members: list[int] = field(default_factory=list)

    async def compare(self, opened: OpenedInbox) -> None:
        self.members.append(opened.look.member)


async def audited(openings: int, pause: Pause) -> list[int]:
    """Which of so many were, one opening after another."""
    audit = KeptAudit()
    auditing = Auditing(audit=audit, pause=pause)
    for number in range(1, openings + 1):
        auditing.observe(of(number))
        for _ in range(5):
            await asyncio.sleep(0)
    return audit.members


async def noted(*gatherings: Sequence[tuple[int, int]], away: int = 0) -> list[tuple[int, list[Member]]]:
    """What was sent for the members who opened at these minutes, while Redis was away for the first gatherings."""
    broken = Broken()
    activity = BreakableActivity(broken=broken)
    noting = Noting(activity=activity, metrics=Metrics(), pause=at_once)
    for number, gathering in enumerate(gatherings):
        broken.cache = CacheUnavailable() if number < away else None
        for member, minutes in gathering:
            noting.observe(of(member, timedelta(minutes=minutes)))
        await later()
    return activity.sent


def of(member: int, after: timedelta = timedelta(0)) -> OpenedInbox:
    viewer = Viewer(user=UserId("u"), follows={}, blocked=(), volume={}, marks=Marks())
    look = InboxView(viewer=viewer, member=Member(member), now=START + after)
    return OpenedInbox(look=look, after=None, page=None, badge=None)


def counted(house: House) -> tuple[float | None, float | None]:
    registry = house.system.metrics.registry
    audits, drifts = (registry.get_sample_value(f"notifier_badge_{name}_total") for name in ("audits", "drift"))
    return audits, drifts


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


async def later() -> None:
    """Until nothing goes on but the test itself."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
