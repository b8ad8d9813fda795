"""Token buckets, on every backend."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.cache import RedisBuckets
from notifier.adapters.redis.connect import connect
from notifier.domain.errors import CacheUnavailable
from notifier.domain.token_bucket import BucketLimit
from notifier.ports.cache import Buckets
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.cache import MemoryBuckets
from tests.support.fakes.clock import ManualClock

__all__ = ["valkey", "valkey_server"]

Backend = tuple[Buckets, Callable[[timedelta], None], Callable[[], None]]
"""The port, the way to let time pass, and the way to wipe it."""

HOUR = timedelta(hours=1)
SOON = timedelta(milliseconds=50)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryBuckets(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisBuckets(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def limit(capacity: int, refill: timedelta) -> BucketLimit:
    return BucketLimit(capacity=capacity, refill=refill)


def test_a_bucket_gives_what_it_holds_and_no_more(backend: Backend) -> None:
    buckets, _, _ = backend
    assert [buckets.take("zoe", limit(3, HOUR)) for _ in range(5)] == [True, True, True, False, False]


def test_buckets_are_separate(backend: Backend) -> None:
    buckets, _, _ = backend
    assert buckets.take("zoe", limit(1, HOUR))
    assert buckets.take("ada", limit(1, HOUR))
    assert not buckets.take("zoe", limit(1, HOUR))


def test_a_token_comes_back_with_time_and_only_one(backend: Backend) -> None:
    buckets, wait, _ = backend
    assert buckets.take("zoe", limit(1, SOON))
    wait(SOON * 3)
    assert buckets.take("zoe", limit(1, SOON))
    # Three refills, but room for one: with an hour's refill from here on nothing can have come since.
    assert not buckets.take("zoe", limit(1, HOUR))


def test_asking_in_vain_costs_nothing(backend: Backend) -> None:
    buckets, wait, _ = backend
    assert buckets.take("zoe", limit(1, SOON))
    buckets.take("zoe", limit(1, HOUR))
    wait(SOON)
    assert buckets.take("zoe", limit(1, SOON))


def test_a_bucket_without_room_gives_nothing(backend: Backend) -> None:
    buckets, _, _ = backend
    assert not buckets.take("zoe", limit(0, HOUR))


def test_a_wiped_bucket_is_full(backend: Backend) -> None:
    buckets, _, wipe = backend
    assert buckets.take("zoe", limit(1, HOUR))
    wipe()
    assert buckets.take("zoe", limit(1, HOUR))


def test_a_bucket_that_would_be_full_is_forgotten(valkey: Valkey) -> None:
    RedisBuckets(valkey.client).take("zoe", limit(2, HOUR))
    assert 0 < valkey.client.ttl("bucket:zoe") <= 2 * 3600


def test_a_server_that_forgot_the_script_is_told_again(valkey: Valkey) -> None:
    buckets = RedisBuckets(valkey.client)
    assert buckets.take("zoe", limit(2, HOUR))
    valkey.client.script_flush()
    assert buckets.take("zoe", limit(2, HOUR))


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBuckets(client).take("zoe", limit(1, HOUR))


def test_what_was_given_away_is_taken_even_below_nothing(backend: Backend) -> None:
    buckets, _, _ = backend
    assert near(buckets.spend({"zoe": 2, "ada": 5}, limit(3, HOUR)), {"zoe": 1, "ada": -2})
    assert near(buckets.spend({"zoe": 1, "eve": 1}, limit(3, HOUR)), {"zoe": 0, "eve": 2})
    assert not buckets.take("zoe", limit(3, HOUR))
    assert buckets.spend({}, limit(3, HOUR)) == {}


def test_a_debt_is_no_deeper_than_a_bucket_is_high_and_is_earned_back(backend: Backend) -> None:
    buckets, wait, _ = backend
    assert near(buckets.spend({"zoe": 50}, limit(1, SOON)), {"zoe": -1})
    assert not buckets.take("zoe", limit(1, SOON))
    wait(SOON * 4)
    assert buckets.take("zoe", limit(1, SOON))


def test_those_who_take_and_those_who_spend_share_a_bucket(backend: Backend) -> None:
    buckets, _, _ = backend
    assert buckets.take("zoe", limit(3, HOUR))
    assert near(buckets.spend({"zoe": 1}, limit(3, HOUR)), {"zoe": 1})


def test_a_bucket_in_debt_is_forgotten_once_it_is_full(valkey: Valkey) -> None:
    RedisBuckets(valkey.client).spend({"zoe": 3}, limit(2, HOUR))
    assert 2 * 3600 < valkey.client.ttl("bucket:zoe") <= 3 * 3600 + 1


def test_without_a_server_nothing_is_spent_and_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBuckets(client).spend({"zoe": 1}, limit(1, HOUR))


def near(found: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    """A real server's clock goes on between two calls."""
    return found.keys() == wanted.keys() and all(0 <= found[name] - wanted[name] < 0.1 for name in wanted)
