"""Recent events: the first body of an id is remembered for a day."""

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.recent_events_and_load_limits import RECENT_EVENTS_TTL, RedisRecentEvents
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.errors import CacheUnavailable
from notifier.ports.recent_events_and_load_limits import RecentEvents
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.recent_events_and_load_limits import MemoryRecentEvents

__all__ = ["valkey", "valkey_server"]

Backend = tuple[RecentEvents, Callable[[], None]]
"""The port, and a function that wipes the store."""

ONE, TWO = EventId("tweets", "1"), EventId("tweets", "2")


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        fake = MemoryRecentEvents(ManualClock())
        return fake, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisRecentEvents(valkey.client), valkey.wipe


@pytest.fixture
def recent(backend: Backend) -> RecentEvents:
    return backend[0]


def test_only_remembered_events_have_a_hash(recent: RecentEvents) -> None:
    recent.remember({ONE: "a"})
    assert recent.content_hashes([ONE, TWO]) == {ONE: "a"}


def test_empty_query_returns_nothing(recent: RecentEvents) -> None:
    recent.remember({})
    assert recent.content_hashes([]) == {}


def test_first_body_of_an_event_wins(recent: RecentEvents) -> None:
    recent.remember({ONE: "a"})
    recent.remember({ONE: "b", TWO: "c"})
    assert recent.content_hashes([ONE, TWO]) == {ONE: "a", TWO: "c"}


def test_event_id_belongs_to_its_source(recent: RecentEvents) -> None:
    recent.remember({ONE: "a"})
    assert recent.content_hashes([EventId("other", "1")]) == {}
    assert recent.was_accepted("tweets", "1")
    assert not recent.was_accepted("other", "1")


def test_event_id_is_found_without_source(recent: RecentEvents) -> None:
    recent.remember({ONE: "a"})
    assert recent.was_accepted(None, "1")
    assert not recent.was_accepted(None, "2")


def test_source_and_id_are_never_confused(recent: RecentEvents) -> None:
    recent.remember({EventId("a:b", "c"): "x"})
    assert recent.content_hashes([EventId("a", "b:c"), EventId("b", "c:a"), EventId("c", "a:b")]) == {}


def test_wipe_forgets_events(backend: Backend) -> None:
    recent, wipe = backend
    recent.remember({ONE: "a"})
    wipe()
    assert recent.content_hashes([ONE]) == {}
    assert not recent.was_accepted(None, "1")


def test_event_is_forgotten_after_a_day() -> None:
    clock = ManualClock()
    fake = MemoryRecentEvents(clock)
    fake.remember({ONE: "a"})
    clock.advance(RECENT_EVENTS_TTL - timedelta(seconds=1))
    assert fake.was_accepted("tweets", "1")
    clock.advance(timedelta(seconds=1))
    assert fake.content_hashes([ONE]) == {}


def test_every_key_has_ttl(valkey: Valkey) -> None:
    RedisRecentEvents(valkey.client).remember({ONE: "a", TWO: "b"})
    ttls = [valkey.client.ttl(key) for key in valkey.client.scan_iter()]
    assert len(ttls) == 4
    assert all(RECENT_EVENTS_TTL.total_seconds() - 60 < ttl <= RECENT_EVENTS_TTL.total_seconds() for ttl in ttls)


def test_recent_events_fail_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisRecentEvents(client).content_hashes([ONE])


GARBAGE = [b"\xff\xfe\x00", b"", b"a list"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_affects_only_its_own_event(garbage: bytes, valkey: Valkey) -> None:
    recent = RedisRecentEvents(valkey.client)
    recent.remember({ONE: "a", TWO: "b"})
    [key_] = [key for key in valkey.client.scan_iter() if key.endswith(b"1:1:tweets")]
    valkey.client.set(key_, garbage)
    assert recent.content_hashes([ONE, TWO])[TWO] == "b"


def test_event_is_unknown_while_its_key_has_wrong_type(valkey: Valkey) -> None:
    recent = RedisRecentEvents(valkey.client)
    recent.remember({ONE: "a"})

    def garble() -> None:
        for key_ in valkey.client.scan_iter():
            valkey.client.delete(key_)
            valkey.client.lpush(key_, "x")

    garble()
    assert recent.content_hashes([ONE]) == {}
    assert not recent.was_accepted(None, ONE.id)
    recent.remember({ONE: "a"})
    garble()
    recent.remember({ONE: "b"})
    assert recent.content_hashes([ONE]) == {ONE: "b"}
    assert recent.was_accepted(ONE.source, ONE.id)
