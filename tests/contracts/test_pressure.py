"""The monitor's word to the dispatcher, on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.cache import RedisPressure
from notifier.adapters.redis.connect import connect
from notifier.domain.errors import CacheUnavailable
from notifier.ports.cache import Pressure
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.cache import MemoryPressure
from tests.support.fakes.clock import ManualClock

__all__ = ["valkey", "valkey_server"]

Backend = tuple[Pressure, Callable[[timedelta], None], Callable[[], None]]
"""The port, the way to let time pass, and the way to wipe it."""

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryPressure(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisPressure(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_nobody_said_anything(backend: Backend) -> None:
    pressure, _, _ = backend
    assert pressure.level() == 0


def test_the_last_word_counts(backend: Backend) -> None:
    pressure, _, _ = backend
    pressure.raise_to(0.75, MINUTE)
    assert pressure.level() == 0.75
    pressure.raise_to(0.0, MINUTE)
    assert pressure.level() == 0


def test_a_word_is_forgotten_in_time(backend: Backend) -> None:
    pressure, wait, _ = backend
    pressure.raise_to(1.0, timedelta(milliseconds=50))
    wait(timedelta(milliseconds=60))
    assert pressure.level() == 0


def test_a_wipe_forgets(backend: Backend) -> None:
    pressure, _, wipe = backend
    pressure.raise_to(1.0, MINUTE)
    wipe()
    assert pressure.level() == 0


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisPressure(client).level()


@pytest.mark.parametrize("garbled", [b"", b"\xff\x00", b"much", b"nan", b"inf", b"-1", b"2"])
def test_a_word_that_cannot_be_read_is_as_if_nothing_was_said(valkey: Valkey, garbled: bytes) -> None:
    valkey.client.set("pressure", garbled)
    assert RedisPressure(valkey.client).level() == 0
