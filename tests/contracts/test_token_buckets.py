"""Token buckets on every backend."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.recent_events_and_load_limits import RedisTokenBuckets
from notifier.domain.errors import CacheUnavailable
from notifier.domain.token_bucket import BucketLimit
from notifier.ports.recent_events_and_load_limits import TokenBuckets
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.recent_events_and_load_limits import MemoryTokenBuckets

__all__ = ["valkey", "valkey_server"]

Backend = tuple[TokenBuckets, Callable[[timedelta], None], Callable[[], None]]
"""The port, a function that lets time pass, and a function that wipes the store."""

HOUR = timedelta(hours=1)
SHORT_REFILL = timedelta(milliseconds=50)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        clock = ManualClock()
        fake = MemoryTokenBuckets(clock)
        return fake, clock.advance, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisTokenBuckets(valkey.client), lambda by: time.sleep(by.total_seconds()), valkey.wipe


def limit(capacity: int, refill: timedelta) -> BucketLimit:
    return BucketLimit(capacity=capacity, refill=refill)


def test_bucket_grants_its_capacity_and_no_more(backend: Backend) -> None:
    buckets, _, _ = backend
    assert [buckets.take("zoe", limit(3, HOUR)) for _ in range(5)] == [True, True, True, False, False]


def test_buckets_are_independent(backend: Backend) -> None:
    buckets, _, _ = backend
    assert buckets.take("zoe", limit(1, HOUR))
    assert buckets.take("ada", limit(1, HOUR))
    assert not buckets.take("zoe", limit(1, HOUR))


def test_bucket_refills_up_to_its_capacity(backend: Backend) -> None:
    buckets, wait, _ = backend
    assert buckets.take("zoe", limit(1, SHORT_REFILL))
    wait(SHORT_REFILL * 3)
    assert buckets.take("zoe", limit(1, SHORT_REFILL))
    # Three refill periods passed, but the bucket has room for one. An hour's refill adds nothing in between.
    assert not buckets.take("zoe", limit(1, HOUR))


def test_denied_take_costs_nothing(backend: Backend) -> None:
    buckets, wait, _ = backend
    assert buckets.take("zoe", limit(1, SHORT_REFILL))
    buckets.take("zoe", limit(1, HOUR))
    wait(SHORT_REFILL)
    assert buckets.take("zoe", limit(1, SHORT_REFILL))


def test_bucket_without_capacity_grants_nothing(backend: Backend) -> None:
    buckets, _, _ = backend
    assert not buckets.take("zoe", limit(0, HOUR))


def test_wiped_bucket_is_full(backend: Backend) -> None:
    buckets, _, wipe = backend
    assert buckets.take("zoe", limit(1, HOUR))
    wipe()
    assert buckets.take("zoe", limit(1, HOUR))


def test_bucket_expires_when_it_would_be_full(valkey: Valkey) -> None:
    RedisTokenBuckets(valkey.client).take("zoe", limit(2, HOUR))
    assert 0 < valkey.client.ttl("token-bucket:zoe") <= 2 * 3600


def test_script_is_reloaded_after_script_flush(valkey: Valkey) -> None:
    buckets = RedisTokenBuckets(valkey.client)
    assert buckets.take("zoe", limit(2, HOUR))
    valkey.client.script_flush()
    assert buckets.take("zoe", limit(2, HOUR))


def test_take_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisTokenBuckets(client).take("zoe", limit(1, HOUR))


def test_spend_may_overdraw_bucket(backend: Backend) -> None:
    buckets, _, _ = backend
    assert nearly_equal(buckets.spend({"zoe": 2, "ada": 5}, limit(3, HOUR)), {"zoe": 1, "ada": -2})
    assert nearly_equal(buckets.spend({"zoe": 1, "eve": 1}, limit(3, HOUR)), {"zoe": 0, "eve": 2})
    assert not buckets.take("zoe", limit(3, HOUR))
    assert buckets.spend({}, limit(3, HOUR)) == {}


def test_debt_is_limited_to_capacity_and_refills(backend: Backend) -> None:
    buckets, wait, _ = backend
    assert nearly_equal(buckets.spend({"zoe": 50}, limit(1, HOUR)), {"zoe": -1})
    assert not buckets.take("zoe", limit(1, HOUR))
    wait(SHORT_REFILL * 4)
    assert buckets.take("zoe", limit(1, SHORT_REFILL))


def test_take_and_spend_share_one_bucket(backend: Backend) -> None:
    buckets, _, _ = backend
    assert buckets.take("zoe", limit(3, HOUR))
    assert nearly_equal(buckets.spend({"zoe": 1}, limit(3, HOUR)), {"zoe": 1})


def test_overdrawn_bucket_expires_when_full_again(valkey: Valkey) -> None:
    RedisTokenBuckets(valkey.client).spend({"zoe": 3}, limit(2, HOUR))
    assert 2 * 3600 < valkey.client.ttl("token-bucket:zoe") <= 3 * 3600 + 1


def test_spend_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisTokenBuckets(client).spend({"zoe": 1}, limit(1, HOUR))


def nearly_equal(actual: Mapping[str, float], expected: Mapping[str, float]) -> bool:
    """Compare with a tolerance: a real server's clock advances between two calls."""
    return actual.keys() == expected.keys() and all(0 <= actual[name] - expected[name] < 0.1 for name in expected)
