"""Which providers are left alone, as whoever watches is told, on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits import RedisLineReport
from notifier.domain.errors import CacheUnavailable
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.ports.push import LineReport
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock import START, ManualClock
from tests.support.fakes.push import MemoryLineReport

__all__ = ["valkey", "valkey_server"]

Backend = tuple[LineReport, Callable[[timedelta], None], Callable[[], None]]
"""The port, the way to let time pass, and the way to wipe it."""

MINUTE, MS = timedelta(minutes=1), timedelta(milliseconds=1)
BUSY = LeftAlone(until=START + MINUTE, reason="503 UNAVAILABLE\0\n\u2026")
OURS = LeftAlone(until=START + 2 * MINUTE, reason="")
SERVICE = "web updates.push.services.mozilla.com"


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryLineReport(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisLineReport(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_nobody_is_left_alone(backend: Backend) -> None:
    lines, _, _ = backend
    assert lines.told() == {}


def test_of_each_line_the_last_word_comes_back_whole(backend: Backend) -> None:
    lines, _, _ = backend
    lines.tell("fcm", OURS, MINUTE)
    lines.tell(SERVICE, OURS, MINUTE)
    lines.tell("fcm", BUSY, MINUTE)
    assert lines.told() == {"fcm": BUSY, SERVICE: OURS}


def test_each_word_is_forgotten_in_its_time(backend: Backend) -> None:
    lines, wait, _ = backend
    lines.tell("apns", OURS, MINUTE)
    lines.tell("fcm", BUSY, 50 * MS)
    wait(60 * MS)
    assert lines.told() == {"apns": OURS}


def test_a_wipe_forgets(backend: Backend) -> None:
    lines, _, wipe = backend
    lines.tell("fcm", BUSY, MINUTE)
    wipe()
    assert lines.told() == {}


@pytest.mark.parametrize("garbled", [b"", b"\xff", b"99999999999999", b"99999999999999 \xff", b"nan \x80"])
def test_a_word_that_cannot_be_read_is_as_if_nothing_was_said(valkey: Valkey, garbled: bytes) -> None:
    lines = RedisLineReport(valkey.client)
    lines.tell("fcm", BUSY, MINUTE)
    valkey.client.hset("lines", "apns", garbled)
    assert lines.told() == {"fcm": BUSY}


def test_what_is_over_leaves_nothing(valkey: Valkey) -> None:
    lines = RedisLineReport(valkey.client)
    lines.tell("fcm", BUSY, 20 * MS)
    time.sleep(0.03)
    lines.tell("apns", OURS, MINUTE)
    assert valkey.client.hkeys("lines") == [b"apns"]
    assert 0 < valkey.client.ttl("lines") <= 60


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client:
        lines = RedisLineReport(client)
        with pytest.raises(CacheUnavailable):
            lines.told()
        with pytest.raises(CacheUnavailable):
            lines.tell("fcm", BUSY, MINUTE)
