"""Work after an inbox response: recording activity and auditing a sample of pages."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

import httpx
import pytest

from notifier.api.background.activity_recorder import ActivityRecorder, Pause
from notifier.api.background.page_audit_sampler import ANSWERS_PER_AUDIT, AUDIT_DELAY, PageAuditSampler
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import InboxView, OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.pull_index import NewestPositions, SubjectList, SubjectLists
from tests.support.breakable_ports import BreakableActivity, PortErrors
from tests.support.example_event_and_acceptance import accept, event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import MemoryBackend

HOUR = int(START.timestamp()) // 3600


@dataclass(frozen=True, slots=True)
class LyingPullIndex:
    """A pull index that claims to be complete, and lists nothing."""

    since: datetime

    async def read_newest(self, subjects: Collection[Subject]) -> NewestPositions:
        return NewestPositions(positions=(), complete_since=self.since)

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists:
        empty = SubjectList(complete_since=self.since, positions=())
        return SubjectLists(lists=dict.fromkeys(subjects, empty), as_of=self.since + timedelta(days=2))


PAGE, UNREAD = "/v1/inbox", "/v1/inbox/unread"


@pytest.fixture
def backend() -> MemoryBackend:
    """Build a system in which nova was mentioned a minute ago."""
    backend = MemoryBackend()
    accept(backend.system, event())
    backend.sequence()
    backend.clock.advance(timedelta(minutes=1))
    return backend


def test_opening_the_inbox_records_activity(backend: MemoryBackend) -> None:
    statuses = open_inboxes(backend, ("u1", PAGE), ("u2", UNREAD), ("u2", PAGE), ("u1", PAGE))
    assert statuses == [200] * 4
    assert backend.activity.sent == [(HOUR, [Member(1), Member(2)])]


def test_user_without_an_inbox_is_not_recorded(backend: MemoryBackend) -> None:
    assert open_inboxes(backend, ("nobody", PAGE), ("gone", UNREAD)) == [404, 404]
    assert backend.activity.sent == []


def test_inbox_is_answered_without_the_cache(backend: MemoryBackend) -> None:
    backend.port_errors.cache = CacheUnavailable()
    assert open_inboxes(backend, ("u1", PAGE), ("u1", UNREAD)) == [200, 200]
    assert backend.activity.sent == []


def test_audit_of_a_correct_page_finds_no_drift(backend: MemoryBackend) -> None:
    open_inboxes(backend, ("u1", PAGE))
    assert audit_counts(backend) == (1, 0)


def test_audit_finds_an_incomplete_pull_index(backend: MemoryBackend, caplog: pytest.LogCaptureFixture) -> None:
    backend.reads = replace(backend.reads, pull=LyingPullIndex(backend.clock.now() - timedelta(days=1)))
    open_inboxes(backend, ("u1", PAGE))
    assert audit_counts(backend) == (1, 1)
    [line] = [record.getMessage() for record in caplog.records if record.name == "notifier.audit"]
    assert "mention:nova#1" in line
    assert "hello" not in line


@pytest.mark.parametrize(
    ("error", "logged"), [(StoreUnavailable(), []), (ZeroDivisionError(), ["an audit of a page failed"])]
)
def test_failing_audit_does_not_affect_the_response(
    backend: MemoryBackend, error: Exception, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def break_store_after_response(_: float) -> None:
        backend.port_errors.store = error

    assert open_inboxes(backend, ("u1", PAGE), pause=break_store_after_response) == [200]
    assert audit_counts(backend) == (0, 0)
    assert [record.getMessage() for record in caplog.records if record.name == "notifier.api"] == logged


def test_first_opening_and_every_nth_are_audited() -> None:
    assert asyncio.run(audited_openings(2 * ANSWERS_PER_AUDIT + 1, no_pause)) == [
        1,
        ANSWERS_PER_AUDIT + 1,
        2 * ANSWERS_PER_AUDIT + 1,
    ]


def test_only_one_audit_runs_at_a_time() -> None:
    pauses = []

    async def endless_pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.Event().wait()

    assert asyncio.run(audited_openings(3 * ANSWERS_PER_AUDIT, endless_pause)) == []
    assert pauses == [AUDIT_DELAY.total_seconds()]


def test_openings_of_one_second_are_recorded_together_once_an_hour() -> None:
    sent = asyncio.run(recorded_activity([(member, 0) for member in (5, 3, 5)], [(5, 10), (3, 59)]))
    assert sent == [(HOUR, [3, 5])]


def test_activity_is_recorded_again_in_the_next_hour() -> None:
    sent = asyncio.run(recorded_activity([(5, 0)], [(5, 60), (3, 60)], [(5, 61)]))
    assert sent == [(HOUR, [5]), (HOUR + 1, [3, 5])]


def test_opening_is_recorded_in_the_hour_of_its_response() -> None:
    sent = asyncio.run(recorded_activity([(5, 60), (3, 59)]))
    assert sent == [(HOUR + 1, [3, 5])]


def test_activity_lost_in_an_outage_is_recorded_at_the_next_opening() -> None:
    sent = asyncio.run(recorded_activity([(5, 0)], [(3, 1)], [(5, 2)], outages=1))
    assert sent == [(HOUR, [3]), (HOUR, [5])]


def open_inboxes(backend: MemoryBackend, *requests: tuple[str, str], pause: Pause | None = None) -> list[int]:
    """Return the statuses of sequential requests, once all deferred work is done."""

    async def run() -> list[int]:
        responded = asyncio.Event()
        app = cast(Any, backend.app(pause or (lambda _: responded.wait())))  # the two libraries spell ASGI differently
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://backend") as client:
            responses = [
                await client.get(path, headers={"Authorization": f"Bearer {backend.token(user)}"})
                for user, path in requests
            ]
        responded.set()
        await finish_tasks()
        return [response.status_code for response in responses]

    return asyncio.run(run())


@dataclass(slots=True)
class RecordingAudit:
    members: list[int] = field(default_factory=list)

    async def compare(self, opened: OpenedInbox) -> None:
        self.members.append(opened.view.member)


async def audited_openings(openings: int, pause: Pause) -> list[int]:
    """Return the numbers of the openings that were audited, of so many sequential ones."""
    audit = RecordingAudit()
    sampler = PageAuditSampler(audit=audit, pause=pause)
    for number in range(1, openings + 1):
        sampler.observe(opened_inbox(number))
        for _ in range(5):
            await asyncio.sleep(0)
    return audit.members


async def recorded_activity(*batches: Sequence[tuple[int, int]], outages: int = 0) -> list[tuple[int, list[Member]]]:
    """Return what was recorded for openings at these minutes, with Redis down for the first `outages` batches."""
    errors = PortErrors()
    activity = BreakableActivity(errors=errors)
    recorder = ActivityRecorder(activity=activity, metrics=Metrics(), pause=no_pause)
    for number, batch in enumerate(batches):
        errors.cache = CacheUnavailable() if number < outages else None
        for member, minutes in batch:
            recorder.observe(opened_inbox(member, timedelta(minutes=minutes)))
        await finish_tasks()
    return activity.sent


def opened_inbox(member: int, after: timedelta = timedelta(0)) -> OpenedInbox:
    viewer = Viewer(user=UserId("u"), follows={}, blocked=(), volume={}, marks=Marks())
    view = InboxView(viewer=viewer, member=Member(member), now=START + after)
    return OpenedInbox(view=view, after=None, page=None, badge=None)


def audit_counts(backend: MemoryBackend) -> tuple[float | None, float | None]:
    registry = backend.system.metrics.registry
    audits, drifts = (registry.get_sample_value(f"notifier_badge_{name}_total") for name in ("audits", "drift"))
    return audits, drifts


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


async def finish_tasks() -> None:
    """Wait until no task but the test's own is left."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks)
