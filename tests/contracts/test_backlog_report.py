"""The dispatcher's word on how much waits, on every backend."""

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
"""The port, the way to let time pass, and the way to wipe it."""

MINUTE = timedelta(minutes=1)
BEHIND = {Pool.P0: Behind(slices=3, since=START), Pool.P2: Behind(slices=40_000, since=None)}


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryBacklogReport(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisBacklogReport(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def test_nobody_told_anything(backend: Backend) -> None:
    report, _, _ = backend
    assert report.told() == {}


def test_the_last_word_comes_back_whole(backend: Backend) -> None:
    report, _, _ = backend
    report.tell({Pool.P1: Behind(slices=1, since=None)}, MINUTE)
    report.tell(BEHIND, MINUTE)
    assert report.told() == BEHIND


def test_a_word_is_forgotten_in_time(backend: Backend) -> None:
    report, wait, _ = backend
    report.tell(BEHIND, timedelta(milliseconds=50))
    wait(timedelta(milliseconds=60))
    assert report.told() == {}


def test_a_wipe_forgets(backend: Backend) -> None:
    report, _, wipe = backend
    report.tell(BEHIND, MINUTE)
    wipe()
    assert report.told() == {}


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBacklogReport(client).told()


@pytest.mark.parametrize("garbled", [b"", b"\xff\x00", b"7", pack({"p9": 1})])
def test_a_word_that_cannot_be_read_is_as_if_nothing_was_told(valkey: Valkey, garbled: bytes) -> None:
    valkey.client.set("backlog", garbled)
    assert RedisBacklogReport(valkey.client).told() == {}
