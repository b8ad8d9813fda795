"""What the tab's processes say of themselves, on every backend."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits import RedisTabReport
from notifier.domain.errors import CacheUnavailable
from notifier.ports.push import TabReport
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.push import MemoryTabReport

__all__ = ["valkey", "valkey_server"]

Backend = tuple[TabReport, Callable[[timedelta], None], Callable[[], None]]
"""The port, the way to let time pass, and the way to wipe it."""

MINUTE, MS = timedelta(minutes=1), timedelta(milliseconds=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryTabReport(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisTabReport(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_nobody_said_anything(backend: Backend) -> None:
    tabs, _, _ = backend
    assert tabs.worst() is None


def test_the_slowest_counts_by_its_last_word(backend: Backend) -> None:
    tabs, _, _ = backend
    tabs.tell("a", 30 * MS, MINUTE)
    tabs.tell("b", 9 * MS, MINUTE)
    assert tabs.worst() == 30 * MS
    tabs.tell("a", 0 * MS, MINUTE)
    assert tabs.worst() == 9 * MS


def test_each_word_is_forgotten_in_its_time(backend: Backend) -> None:
    tabs, wait, _ = backend
    tabs.tell("b", 9 * MS, MINUTE)
    tabs.tell("a", 30 * MS, 50 * MS)
    wait(60 * MS)
    assert tabs.worst() == 9 * MS


def test_a_wipe_forgets(backend: Backend) -> None:
    tabs, _, wipe = backend
    tabs.tell("a", 30 * MS, MINUTE)
    wipe()
    assert tabs.worst() is None


@pytest.mark.parametrize("garbled", [b"", b"\xff", b"99999999999999", b"99999999999999 -1", b"nan 5"])
def test_a_word_that_cannot_be_read_is_as_if_nothing_was_said(valkey: Valkey, garbled: bytes) -> None:
    valkey.client.hset("tabs", "a", garbled)
    assert RedisTabReport(valkey.client).worst() is None


def test_those_who_say_nothing_more_leave_nothing(valkey: Valkey) -> None:
    tabs = RedisTabReport(valkey.client)
    tabs.tell("a", 30 * MS, 20 * MS)
    time.sleep(0.03)
    tabs.tell("b", 9 * MS, MINUTE)
    assert valkey.client.hkeys("tabs") == [b"b"]
    assert 0 < valkey.client.ttl("tabs") <= 60


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client:
        tabs = RedisTabReport(client)
        with pytest.raises(CacheUnavailable):
            tabs.worst()
        with pytest.raises(CacheUnavailable):
            tabs.tell("a", 9 * MS, MINUTE)
