"""How often one person's phone may ring, on every backend."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits import RedisCaps
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Member, Subject
from notifier.domain.push.frequency_cap import CapLimits as Terms
from notifier.domain.push.frequency_cap import Ruling
from notifier.ports.push import FrequencyCapStore
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock import START
from tests.support.fakes.push import MemoryCaps

__all__ = ["valkey", "valkey_server"]

Backend = tuple[FrequencyCapStore, Callable[[], None]]
"""The port, and the way to wipe it."""

ZOE, ADA, FAR = Member(3), Member(4), Member(3 + 9 * BLOCK_MEMBERS)
NOVA, LUNA = Subject.parse("mention:nova"), Subject.parse("mention:luna")
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    terms = Terms(hourly=2, daily=4)
    if request.param == "memory":
        fake = MemoryCaps(terms)
        return fake, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisCaps(valkey.client, terms), valkey.wipe


def spend(
    caps: FrequencyCapStore, seq: int, *people: Member, hours: float = 0, tweet: str = "", subject: Subject = NOVA
) -> Mapping[Member, Ruling]:
    return caps.spend(BurstKey(subject, seq), tweet or f"{subject}/{seq}", people, START + hours * HOUR)


def test_said_twice_it_is_counted_once(backend: Backend) -> None:
    caps, _ = backend
    assert spend(caps, 1, ZOE, FAR) == {ZOE: Ruling.NEW, FAR: Ruling.NEW}
    assert spend(caps, 1, ZOE, ADA) == {ZOE: Ruling.AGAIN, ADA: Ruling.NEW}
    assert spend(caps, 2, ZOE) == {ZOE: Ruling.NEW}
    assert spend(caps, 1) == {}


def test_beyond_the_cap_each_is_silent_by_their_own_day(backend: Backend) -> None:
    caps, _ = backend
    spend(caps, 1, ZOE), spend(caps, 2, ZOE, ADA)
    assert spend(caps, 3, ZOE, ADA) == {ZOE: Ruling.HOURLY, ADA: Ruling.NEW}
    assert spend(caps, 3, ZOE, hours=1) == {ZOE: Ruling.NEW}
    spend(caps, 4, ZOE, hours=2)
    assert spend(caps, 5, ZOE, hours=23) == {ZOE: Ruling.DAILY}
    assert spend(caps, 5, ZOE, hours=24) == {ZOE: Ruling.NEW}


def test_one_tweet_of_several_celebrities_is_one_alert(backend: Backend) -> None:
    caps, _ = backend
    spend(caps, 1, ZOE, tweet="t")
    found = spend(caps, 1, ZOE, ADA, tweet="t", subject=LUNA)
    assert found == {ZOE: Ruling.SAME_TWEET, ADA: Ruling.NEW}
    assert spend(caps, 1, ZOE, tweet="u", subject=LUNA) == {ZOE: Ruling.NEW}


def test_what_was_wiped_never_rang(backend: Backend) -> None:
    caps, wipe = backend
    spend(caps, 1, ZOE)
    wipe()
    assert spend(caps, 1, ZOE) == {ZOE: Ruling.NEW}


def test_thousands_of_a_shard_are_asked_at_once(backend: Backend) -> None:
    caps, _ = backend
    people = [Member(number * 61) for number in range(2_000)]
    assert set(spend(caps, 1, *people).values()) == {Ruling.NEW}
    assert set(spend(caps, 1, *people).values()) == {Ruling.AGAIN}


@pytest.mark.parametrize("server", ["valkey", "valkeys"])
def test_workers_who_race_exceed_no_cap_and_miss_none(server: str, request: pytest.FixtureRequest) -> None:
    found = cast(Valkey, request.getfixturevalue(server))
    people = [Member(number) for number in range(50)]

    def work(worker: int) -> list[Member]:
        rung = (spend(caps, 4 * seq + worker, *people).items() for seq in range(3))
        return [member for one in rung for member, ruling in one if ruling is Ruling.NEW]

    with connect(found.patient) as client, ThreadPoolExecutor(4) as workers:
        caps = RedisCaps(client, Terms(hourly=5, daily=20))
        rung = [member for one in workers.map(work, range(4)) for member in one]
    assert sorted(rung) == sorted(5 * people)


def test_a_node_that_forgot_the_script_has_nobody_counted_before_the_answer(valkeys: Valkey) -> None:
    caps = RedisCaps(valkeys.client)
    people = [Member(number * BLOCK_MEMBERS) for number in range(20)]
    spend(caps, 1, *people)
    valkeys.clients[1].script_flush()  # type: ignore[attr-defined] # a cluster's
    assert set(spend(caps, 2, *people).values()) == {Ruling.NEW}


@pytest.mark.parametrize("garbled", [b"", b"much", b"\xff" * 24])
def test_what_cannot_be_read_is_as_if_it_had_never_been(valkey: Valkey, garbled: bytes) -> None:
    valkey.client.hset("caps:0", str(ZOE), garbled)
    caps = RedisCaps(valkey.client)
    assert [spend(caps, 1, ZOE)[ZOE] for _ in range(2)] == [Ruling.NEW, Ruling.AGAIN]


def test_a_block_is_forgotten_a_day_and_an_hour_after_its_last_alert(valkey: Valkey) -> None:
    spend(RedisCaps(valkey.client), 1, FAR)
    assert 24 * 3600 < valkey.client.ttl("caps:9") <= 25 * 3600


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        spend(RedisCaps(client), 1, ZOE)
