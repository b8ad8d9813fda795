"""The dispatcher's backlog report on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.cache import RedisBacklogReport
from notifier.adapters.redis.connect import connect
from notifier.codec import pack
from notifier.domain.delivery.backlog import Behind
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.ports.cache import BacklogReport
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.cache import MemoryBacklogReport
from tests.support.fakes.clock import START, ManualClock

__all__ = ["valkey", "valkey_server"]

Backend = tuple[BacklogReport, Callable[[timedelta], None], Callable[[], None]]
"""The port, a function that lets time pass, and a function that wipes the store."""

MINUTE = timedelta(minutes=1)
BACKLOG = {Pool.P0: Behind(slices=3, since=START), Pool.P2: Behind(slices=40_000, since=None)}


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
    assert report.told() == {}


def test_newest_report_is_returned_unchanged(backend: Backend) -> None:
    report, _, _ = backend
    report.tell({Pool.P1: Behind(slices=1, since=None)}, MINUTE)
    report.tell(BACKLOG, MINUTE)
    assert report.told() == BACKLOG


def test_report_expires_after_ttl(backend: Backend) -> None:
    report, wait, _ = backend
    report.tell(BACKLOG, timedelta(milliseconds=50))
    wait(timedelta(milliseconds=60))
    assert report.told() == {}


def test_wipe_deletes_report(backend: Backend) -> None:
    report, _, wipe = backend
    report.tell(BACKLOG, MINUTE)
    wipe()
    assert report.told() == {}


def test_report_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBacklogReport(client).told()


@pytest.mark.parametrize("garbage", [b"", b"\xff\x00", b"7", pack({"p9": 1})])
def test_unreadable_report_counts_as_absent(valkey: Valkey, garbage: bytes) -> None:
    valkey.client.set("backlog", garbage)
    assert RedisBacklogReport(valkey.client).told() == {}
