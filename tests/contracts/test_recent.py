"""Recent events, on every backend: the first body of an id is remembered for a day."""

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.cache import REMEMBERED, RedisRecent
from notifier.adapters.redis.connect import connect
from notifier.domain.bursts.mention import EventId
from notifier.domain.errors import CacheUnavailable
from notifier.ports.cache import Recent
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.cache import MemoryRecent
from tests.support.fakes.clock import ManualClock

__all__ = ["valkey", "valkey_server"]

Backend = tuple[Recent, Callable[[], None]]
"""The port, and the way to wipe it."""

ONE, TWO = EventId("tweets", "1"), EventId("tweets", "2")


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        fake = MemoryRecent(ManualClock())
        return fake, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisRecent(valkey.client), valkey.wipe


@pytest.fixture
def recent(backend: Backend) -> Recent:
    return backend[0]


def test_only_what_was_remembered_has_a_digest(recent: Recent) -> None:
    recent.remember({ONE: "a"})
    assert recent.digests([ONE, TWO]) == {ONE: "a"}


def test_nothing_asked_is_nothing_found(recent: Recent) -> None:
    recent.remember({})
    assert recent.digests([]) == {}


def test_of_two_bodies_the_first_is_kept(recent: Recent) -> None:
    recent.remember({ONE: "a"})
    recent.remember({ONE: "b", TWO: "c"})
    assert recent.digests([ONE, TWO]) == {ONE: "a", TWO: "c"}


def test_an_id_belongs_to_its_source(recent: Recent) -> None:
    recent.remember({ONE: "a"})
    assert recent.digests([EventId("other", "1")]) == {}
    assert recent.recall("tweets", "1")
    assert not recent.recall("other", "1")


def test_an_id_is_found_without_its_source(recent: Recent) -> None:
    recent.remember({ONE: "a"})
    assert recent.recall(None, "1")
    assert not recent.recall(None, "2")


def test_source_and_id_are_never_mixed_up(recent: Recent) -> None:
    recent.remember({EventId("a:b", "c"): "x"})
    assert recent.digests([EventId("a", "b:c"), EventId("b", "c:a"), EventId("c", "a:b")]) == {}


def test_a_wipe_forgets(backend: Backend) -> None:
    recent, wipe = backend
    recent.remember({ONE: "a"})
    wipe()
    assert recent.digests([ONE]) == {}
    assert not recent.recall(None, "1")


def test_after_a_day_it_is_forgotten() -> None:
    clock = ManualClock()
    fake = MemoryRecent(clock)
    fake.remember({ONE: "a"})
    clock.advance(REMEMBERED - timedelta(seconds=1))
    assert fake.recall("tweets", "1")
    clock.advance(timedelta(seconds=1))
    assert fake.digests([ONE]) == {}


def test_every_key_has_an_end(valkey: Valkey) -> None:
    RedisRecent(valkey.client).remember({ONE: "a", TWO: "b"})
    ends = [valkey.client.ttl(key) for key in valkey.client.scan_iter()]
    assert len(ends) == 4
    assert all(REMEMBERED.total_seconds() - 60 < end <= REMEMBERED.total_seconds() for end in ends)


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisRecent(client).digests([ONE])


STRANGERS = [b"\xff\xfe\x00", b"", b"a list"]


@pytest.mark.parametrize("said", STRANGERS)
def test_what_a_stranger_wrote_costs_at_most_the_memory_of_that_event(said: bytes, valkey: Valkey) -> None:
    recent = RedisRecent(valkey.client)
    recent.remember({ONE: "a", TWO: "b"})
    [name] = [key for key in valkey.client.scan_iter() if key.endswith(b"1:1:tweets")]
    valkey.client.set(name, said)
    assert recent.digests([ONE, TWO])[TWO] == "b"


def test_event_under_a_key_of_another_type_is_unknown_until_it_is_remembered(valkey: Valkey) -> None:
    recent = RedisRecent(valkey.client)
    recent.remember({ONE: "a"})

    def garble() -> None:
        for name in valkey.client.scan_iter():
            valkey.client.delete(name)
            valkey.client.lpush(name, "x")

    garble()
    assert recent.digests([ONE]) == {}
    assert not recent.recall(None, ONE.id)
    recent.remember({ONE: "a"})
    garble()
    recent.remember({ONE: "b"})
    assert recent.digests([ONE]) == {ONE: "b"}
    assert recent.recall(ONE.source, ONE.id)
