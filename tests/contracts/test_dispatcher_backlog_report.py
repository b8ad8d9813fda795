"""The dispatcher's backlog report on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.recent_events_and_load_limits import RedisBacklogReport
from notifier.codec import pack
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.ports.recent_events_and_load_limits import BacklogReport
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.fakes.recent_events_and_load_limits import MemoryBacklogReport

__all__ = ["valkey", "valkey_server"]

Backend = tuple[BacklogReport, Callable[[timedelta], None], Callable[[], None]]
"""The port, a function that lets time pass, and a function that wipes the store."""

MINUTE = timedelta(minutes=1)
BACKLOG = {
    Pool.P0: PoolBacklog(slices=3, oldest_opened_at=START),
    Pool.P2: PoolBacklog(slices=40_000, oldest_opened_at=None),
}


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryBacklogReport(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisBacklogReport(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_report_is_empty_before_first_write(backend: Backend) -> None:
    report, _, _ = backend
    assert report.read() == {}


def test_newest_report_is_returned_unchanged(backend: Backend) -> None:
    report, _, _ = backend
    report.publish({Pool.P1: PoolBacklog(slices=1, oldest_opened_at=None)}, MINUTE)
    report.publish(BACKLOG, MINUTE)
    assert report.read() == BACKLOG


def test_report_expires_after_ttl(backend: Backend) -> None:
    report, wait, _ = backend
    report.publish(BACKLOG, timedelta(milliseconds=50))
    wait(timedelta(milliseconds=60))
    assert report.read() == {}


def test_wipe_deletes_report(backend: Backend) -> None:
    report, _, wipe = backend
    report.publish(BACKLOG, MINUTE)
    wipe()
    assert report.read() == {}


def test_report_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBacklogReport(client).read()


@pytest.mark.parametrize("garbage", [b"", b"\xff\x00", b"7", pack({"p9": 1})])
def test_unreadable_report_counts_as_absent(valkey: Valkey, garbage: bytes) -> None:
    valkey.client.set("backlog", garbage)
    assert RedisBacklogReport(valkey.client).read() == {}
