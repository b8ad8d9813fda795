"""Backpressure level that the monitor reports to the dispatcher, on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.recent_events_and_load_limits import RedisBackpressure
from notifier.domain.errors import CacheUnavailable
from notifier.ports.recent_events_and_load_limits import Backpressure
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.recent_events_and_load_limits import MemoryBackpressure

__all__ = ["valkey", "valkey_server"]

Backend = tuple[Backpressure, Callable[[timedelta], None], Callable[[], None]]
"""The port, a function that lets time pass, and a function that wipes the store."""

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryBackpressure(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisBackpressure(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_level_is_zero_before_first_report(backend: Backend) -> None:
    pressure, _, _ = backend
    assert pressure.level() == 0


def test_newest_level_wins(backend: Backend) -> None:
    pressure, _, _ = backend
    pressure.set_level(0.75, MINUTE)
    assert pressure.level() == 0.75
    pressure.set_level(0.0, MINUTE)
    assert pressure.level() == 0


def test_level_expires_after_ttl(backend: Backend) -> None:
    pressure, wait, _ = backend
    pressure.set_level(1.0, timedelta(milliseconds=50))
    wait(timedelta(milliseconds=60))
    assert pressure.level() == 0


def test_wipe_resets_level(backend: Backend) -> None:
    pressure, _, wipe = backend
    pressure.set_level(1.0, MINUTE)
    wipe()
    assert pressure.level() == 0


def test_level_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBackpressure(client).level()


@pytest.mark.parametrize("garbage", [b"", b"\xff\x00", b"much", b"nan", b"inf", b"-1", b"2"])
def test_unreadable_level_counts_as_zero(valkey: Valkey, garbage: bytes) -> None:
    valkey.client.set("backpressure", garbage)
    assert RedisBackpressure(valkey.client).level() == 0
