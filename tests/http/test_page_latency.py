"""Page times are reported once a second, and no page waits for the report."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import httpx
import pytest

from notifier.adapters.redis.push_limits_and_reports import RedisInboxLatencyReport
from notifier.api.background.page_latency import MIN_PAGES, REPORT_WINDOW, PageLatency, p99
from notifier.domain.errors import CacheUnavailable
from notifier.metrics import Metrics
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.api_threads import InlineThreads
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.in_memory_http_api import MemoryBackend

__all__ = ["valkey", "valkey_server"]

MS = timedelta(milliseconds=1)


def open_inboxes(backend: MemoryBackend, times: int, user: str = "u1") -> list[int]:
    """Return the statuses, once all deferred work is done."""

    async def run() -> list[int]:
        responded = asyncio.Event()
        app = cast(Any, backend.app(lambda _: responded.wait()))  # the two libraries spell ASGI differently
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://backend") as client:
            bearer = {"Authorization": f"Bearer {backend.token(user)}"}
            responses = [await client.get("/v1/inbox", headers=bearer) for _ in range(times)]
        responded.set()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)
        return [response.status_code for response in responses]

    return asyncio.run(run())


def test_page_times_are_reported_to_a_real_valkey(valkey: Valkey) -> None:
    backend = MemoryBackend()
    latency_report = RedisInboxLatencyReport(valkey.client)
    backend.system = replace(backend.system, ports=replace(backend.ports, inbox_latency=latency_report))
    assert open_inboxes(backend, MIN_PAGES) == [200] * MIN_PAGES
    worst = latency_report.worst()
    assert worst is not None
    assert valkey.client.hkeys("inbox-latency") == [backend.system.owner.encode()]


def test_too_few_pages_report_nothing() -> None:
    backend = MemoryBackend()
    open_inboxes(backend, MIN_PAGES - 1)
    assert backend.latency_report.worst() is None


def test_failed_pages_are_reported() -> None:
    backend = MemoryBackend()
    assert open_inboxes(backend, MIN_PAGES, user="gone") == [404] * MIN_PAGES
    assert backend.latency_report.worst() is not None


def test_pages_are_answered_without_the_cache() -> None:
    backend = MemoryBackend()
    backend.port_errors.cache = CacheUnavailable()
    assert open_inboxes(backend, MIN_PAGES) == [200] * MIN_PAGES


@pytest.mark.parametrize(
    ("durations", "expected"), [([5], 5), (range(1, 101), 99), ([1] * 98 + [7, 9], 7), ([1] * 999 + [500], 1)]
)
def test_p99_ignores_the_slowest_percent(durations: list[int], expected: int) -> None:
    assert p99([number * MS for number in durations]) == expected * MS


@dataclass(slots=True)
class RecordingInboxLatencyReport:
    reports: list[tuple[str, timedelta, timedelta]] = field(default_factory=list)

    def publish(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        self.reports.append((process, p99, lasting))

    def worst(self) -> timedelta | None:
        return max((p99 for _, p99, _ in self.reports), default=None)


def test_recent_pages_are_reported() -> None:
    clock, latency_report = ManualClock(), RecordingInboxLatencyReport()

    async def no_pause(_: float) -> None:
        await asyncio.sleep(0)

    async def scenario() -> None:
        timing = PageLatency(
            report=latency_report, owner="api", threads=InlineThreads(), clock=clock, metrics=Metrics(), pause=no_pause
        )
        for took in (80, 5):
            for _ in range(MIN_PAGES):
                started_at = clock.now()
                clock.advance(took * MS)
                timing.record(started_at)
            await asyncio.sleep(0)
            assert timing.report_task
            await timing.report_task
            clock.advance(REPORT_WINDOW)

    asyncio.run(scenario())
    assert latency_report.reports == [("api", 80 * MS, REPORT_WINDOW), ("api", 5 * MS, REPORT_WINDOW)]
