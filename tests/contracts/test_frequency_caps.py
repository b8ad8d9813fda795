"""Frequency caps per user on every backend."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits_and_reports import RedisFrequencyCaps
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Member, Subject
from notifier.domain.push.frequency_cap import CapLimits, Ruling
from notifier.ports.push import FrequencyCapStore
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import START
from tests.support.fakes.push import MemoryFrequencyCaps

__all__ = ["valkey", "valkey_server"]

Backend = tuple[FrequencyCapStore, Callable[[], None]]
"""The port, and a function that wipes the store."""

ZOE, ADA, FAR = Member(3), Member(4), Member(3 + 9 * BLOCK_MEMBERS)
NOVA, LUNA = Subject.parse("mention:nova"), Subject.parse("mention:luna")
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    limits = CapLimits(hourly=2, daily=4)
    if request.param == "memory":
        fake = MemoryFrequencyCaps(limits)
        return fake, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisFrequencyCaps(valkey.client, limits), valkey.wipe


def spend(
    caps: FrequencyCapStore, seq: int, *people: Member, hours: float = 0, tweet: str = "", subject: Subject = NOVA
) -> Mapping[Member, Ruling]:
    return caps.spend(BurstKey(subject, seq), tweet or f"{subject}/{seq}", people, START + hours * HOUR)


def test_repeated_spend_is_counted_once(backend: Backend) -> None:
    caps, _ = backend
    assert spend(caps, 1, ZOE, FAR) == {ZOE: Ruling.NEW, FAR: Ruling.NEW}
    assert spend(caps, 1, ZOE, ADA) == {ZOE: Ruling.AGAIN, ADA: Ruling.NEW}
    assert spend(caps, 2, ZOE) == {ZOE: Ruling.NEW}
    assert spend(caps, 1) == {}


def test_each_user_is_silenced_beyond_own_caps(backend: Backend) -> None:
    caps, _ = backend
    spend(caps, 1, ZOE), spend(caps, 2, ZOE, ADA)
    assert spend(caps, 3, ZOE, ADA) == {ZOE: Ruling.HOURLY, ADA: Ruling.NEW}
    assert spend(caps, 3, ZOE, hours=1) == {ZOE: Ruling.NEW}
    spend(caps, 4, ZOE, hours=2)
    assert spend(caps, 5, ZOE, hours=23) == {ZOE: Ruling.DAILY}
    assert spend(caps, 5, ZOE, hours=24) == {ZOE: Ruling.NEW}


def test_tweet_of_several_celebrities_is_one_alert(backend: Backend) -> None:
    caps, _ = backend
    spend(caps, 1, ZOE, tweet="t")
    rulings = spend(caps, 1, ZOE, ADA, tweet="t", subject=LUNA)
    assert rulings == {ZOE: Ruling.SAME_TWEET, ADA: Ruling.NEW}
    assert spend(caps, 1, ZOE, tweet="u", subject=LUNA) == {ZOE: Ruling.NEW}


def test_wipe_forgets_alert_history(backend: Backend) -> None:
    caps, wipe = backend
    spend(caps, 1, ZOE)
    wipe()
    assert spend(caps, 1, ZOE) == {ZOE: Ruling.NEW}


def test_thousands_of_members_of_a_shard_are_spent_at_once(backend: Backend) -> None:
    caps, _ = backend
    people = [Member(number * 61) for number in range(2_000)]
    assert set(spend(caps, 1, *people).values()) == {Ruling.NEW}
    assert set(spend(caps, 1, *people).values()) == {Ruling.AGAIN}


@pytest.mark.parametrize("server", ["valkey", "valkeys"])
def test_concurrent_workers_never_exceed_caps(server: str, request: pytest.FixtureRequest) -> None:
    cache = cast(Valkey, request.getfixturevalue(server))
    people = [Member(number) for number in range(50)]

    def work(worker: int) -> list[Member]:
        alerted = (spend(caps, 4 * seq + worker, *people).items() for seq in range(3))
        return [member for results in alerted for member, ruling in results if ruling is Ruling.NEW]

    with connect(cache.patient_url) as client, ThreadPoolExecutor(4) as workers:
        caps = RedisFrequencyCaps(client, CapLimits(hourly=5, daily=20))
        alerted = [member for results in workers.map(work, range(4)) for member in results]
    assert sorted(alerted) == sorted(5 * people)


def test_script_reload_on_one_node_counts_members_once(valkeys: Valkey) -> None:
    caps = RedisFrequencyCaps(valkeys.client)
    people = [Member(number * BLOCK_MEMBERS) for number in range(20)]
    spend(caps, 1, *people)
    valkeys.clients[1].script_flush()  # type: ignore[attr-defined] # a cluster's
    assert set(spend(caps, 2, *people).values()) == {Ruling.NEW}


@pytest.mark.parametrize("garbage", [b"", b"much", b"\xff" * 24])
def test_unreadable_history_counts_as_absent(valkey: Valkey, garbage: bytes) -> None:
    valkey.client.hset("alert-history:0", str(ZOE), garbage)
    caps = RedisFrequencyCaps(valkey.client)
    assert [spend(caps, 1, ZOE)[ZOE] for _ in range(2)] == [Ruling.NEW, Ruling.AGAIN]


def test_block_expires_an_hour_after_daily_cap_window(valkey: Valkey) -> None:
    spend(RedisFrequencyCaps(valkey.client), 1, FAR)
    assert 24 * 3600 < valkey.client.ttl("alert-history:9") <= 25 * 3600


def test_spend_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        spend(RedisFrequencyCaps(client), 1, ZOE)
