"""The report of open circuit breakers per provider line, on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits_and_reports import RedisCircuitReport
from notifier.domain.errors import CacheUnavailable
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.ports.push import CircuitReport
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.fakes.push import MemoryCircuitReport

__all__ = ["valkey", "valkey_server"]

Backend = tuple[CircuitReport, Callable[[timedelta], None], Callable[[], None]]
"""The port, a function that lets time pass, and a function that wipes the store."""

MINUTE, MS = timedelta(minutes=1), timedelta(milliseconds=1)
BUSY = OpenCircuit(until=START + MINUTE, reason="503 UNAVAILABLE\0\n\u2026")
WITHOUT_REASON = OpenCircuit(until=START + 2 * MINUTE, reason="")
SERVICE = "web updates.push.services.mozilla.com"


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryCircuitReport(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisCircuitReport(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_report_is_empty_while_all_circuits_are_closed(backend: Backend) -> None:
    report, _, _ = backend
    assert report.read() == {}


def test_newest_report_of_each_line_is_returned(backend: Backend) -> None:
    report, _, _ = backend
    report.publish("fcm", WITHOUT_REASON, MINUTE)
    report.publish(SERVICE, WITHOUT_REASON, MINUTE)
    report.publish("fcm", BUSY, MINUTE)
    assert report.read() == {"fcm": BUSY, SERVICE: WITHOUT_REASON}


def test_each_report_expires_after_its_own_ttl(backend: Backend) -> None:
    report, wait, _ = backend
    report.publish("apns", WITHOUT_REASON, MINUTE)
    report.publish("fcm", BUSY, 50 * MS)
    wait(60 * MS)
    assert report.read() == {"apns": WITHOUT_REASON}


def test_wipe_deletes_reports(backend: Backend) -> None:
    report, _, wipe = backend
    report.publish("fcm", BUSY, MINUTE)
    wipe()
    assert report.read() == {}


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"99999999999999", b"99999999999999 \xff", b"nan \x80"])
def test_unreadable_report_counts_as_absent(valkey: Valkey, garbage: bytes) -> None:
    report = RedisCircuitReport(valkey.client)
    report.publish("fcm", BUSY, MINUTE)
    valkey.client.hset("open-circuits", "apns", garbage)
    assert report.read() == {"fcm": BUSY}


def test_expired_reports_are_deleted(valkey: Valkey) -> None:
    report = RedisCircuitReport(valkey.client)
    report.publish("fcm", BUSY, 20 * MS)
    time.sleep(0.03)
    report.publish("apns", WITHOUT_REASON, MINUTE)
    assert valkey.client.hkeys("open-circuits") == [b"apns"]
    assert 0 < valkey.client.ttl("open-circuits") <= 60


def test_report_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client:
        report = RedisCircuitReport(client)
        with pytest.raises(CacheUnavailable):
            report.read()
        with pytest.raises(CacheUnavailable):
            report.publish("fcm", BUSY, MINUTE)
