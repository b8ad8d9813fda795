"""Inbox latency reports of the API processes, on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits_and_reports import RedisInboxLatencyReport
from notifier.domain.errors import CacheUnavailable
from notifier.ports.push import InboxLatencyReport
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.push import MemoryInboxLatencyReport

__all__ = ["valkey", "valkey_server"]

Backend = tuple[InboxLatencyReport, Callable[[timedelta], None], Callable[[], None]]
"""The port, a function that lets time pass, and a function that wipes the store."""

MINUTE, MS = timedelta(minutes=1), timedelta(milliseconds=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryInboxLatencyReport(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisInboxLatencyReport(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_report_is_empty_before_first_write(backend: Backend) -> None:
    report, _, _ = backend
    assert report.worst() is None


def test_worst_value_comes_from_newest_reports(backend: Backend) -> None:
    report, _, _ = backend
    report.publish("a", 30 * MS, MINUTE)
    report.publish("b", 9 * MS, MINUTE)
    assert report.worst() == 30 * MS
    report.publish("a", 0 * MS, MINUTE)
    assert report.worst() == 9 * MS


def test_each_report_expires_after_its_own_ttl(backend: Backend) -> None:
    report, wait, _ = backend
    report.publish("b", 9 * MS, MINUTE)
    report.publish("a", 30 * MS, 50 * MS)
    wait(60 * MS)
    assert report.worst() == 9 * MS


def test_wipe_deletes_reports(backend: Backend) -> None:
    report, _, wipe = backend
    report.publish("a", 30 * MS, MINUTE)
    wipe()
    assert report.worst() is None


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"99999999999999", b"99999999999999 -1", b"nan 5"])
def test_unreadable_report_counts_as_absent(valkey: Valkey, garbage: bytes) -> None:
    valkey.client.hset("inbox-latency", "a", garbage)
    assert RedisInboxLatencyReport(valkey.client).worst() is None


def test_expired_reports_are_deleted(valkey: Valkey) -> None:
    report = RedisInboxLatencyReport(valkey.client)
    report.publish("a", 30 * MS, 20 * MS)
    time.sleep(0.03)
    report.publish("b", 9 * MS, MINUTE)
    assert valkey.client.hkeys("inbox-latency") == [b"b"]
    assert 0 < valkey.client.ttl("inbox-latency") <= 60


def test_report_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client:
        report = RedisInboxLatencyReport(client)
        with pytest.raises(CacheUnavailable):
            report.worst()
        with pytest.raises(CacheUnavailable):
            report.publish("a", 9 * MS, MINUTE)
