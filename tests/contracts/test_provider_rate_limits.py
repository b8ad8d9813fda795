"""Rate limits of push providers on every backend."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.push_limits_and_reports import RedisProviderRates
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.domain.push.rate_limit import ProviderLimit
from notifier.ports.push import ProviderRates
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import START
from tests.support.fakes.push import MemoryProviderRates

__all__ = ["valkey", "valkey_server"]

Backend = tuple[ProviderRates, Callable[[], None]]
"""The port, and a function that wipes the store."""

LIMITS = {Platform.APNS: ProviderLimit(per_minute=61_001), Platform.FCM: ProviderLimit(per_minute=6_101)}
"""1,000 and 100 alerts per second; 50 and 5 at the start."""
SECOND = timedelta(seconds=1)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        fake = MemoryProviderRates(LIMITS)
        return fake, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return RedisProviderRates(valkey.client, LIMITS), valkey.wipe


def draw(rates: ProviderRates, seconds: float, count: int = 10_000, platform: Platform = Platform.APNS) -> int:
    return rates.draw(platform, count, is_p0=True, slowdown_factor=1.0, now=START + seconds * SECOND)


def test_grant_is_limited_and_grows_with_time(backend: Backend) -> None:
    rates, _ = backend
    assert [draw(rates, 0, 30), draw(rates, 0, 30), draw(rates, 0, 30)] == [30, 20, 0]
    assert 50 <= draw(rates, 1) <= 70
    assert [draw(rates, second) for second in range(2, 62)][-1] == 1_000


def test_rate_limits_of_providers_are_independent(backend: Backend) -> None:
    rates, _ = backend
    assert (draw(rates, 0), draw(rates, 0, platform=Platform.FCM)) == (50, 5)


def test_non_urgent_draw_leaves_a_quarter_and_pays_for_slowdown(backend: Backend) -> None:
    rates, _ = backend
    assert rates.draw(Platform.APNS, 10_000, is_p0=False, slowdown_factor=0.5, now=START) == 18
    assert rates.draw(Platform.APNS, 10_000, is_p0=False, slowdown_factor=1.0, now=START) == 1
    assert 12 <= draw(rates, 0) <= 13


def test_refusal_halves_the_rate_once(backend: Backend) -> None:
    rates, _ = backend
    rates.report_results(Platform.APNS, refused_count=7, is_slow=False, now=START)
    rates.report_results(Platform.APNS, refused_count=7, is_slow=False, now=START)
    assert draw(rates, 0) == 25


def test_report_without_refusals_changes_nothing(backend: Backend) -> None:
    rates, _ = backend
    rates.report_results(Platform.APNS, refused_count=0, is_slow=False, now=START)
    assert draw(rates, 0) == 50


def test_wiped_rate_limit_starts_at_minimum(backend: Backend) -> None:
    rates, wipe = backend
    for second in range(100):
        draw(rates, second)
    wipe()
    assert draw(rates, 100) == 50


@pytest.mark.parametrize("server", ["valkey", "valkeys"])
def test_concurrent_workers_draw_no_more_than_available(server: str, request: pytest.FixtureRequest) -> None:
    """With this many calls, some steps of one worker fall between two steps of another."""
    cache = cast(Valkey, request.getfixturevalue(server))

    def work(_: int) -> int:
        return sum(draw(rates, 0, 1) for _ in range(20))

    with connect(cache.patient_url) as client, ThreadPoolExecutor(4) as workers:
        rates = RedisProviderRates(client, LIMITS)
        assert sum(workers.map(work, range(4))) == 50


@pytest.mark.parametrize("garbage", [b"", b"much", b"\0" * 40, b"\xff" * 40, b"\x7f" * 40, b"x" * 41])
def test_unreadable_rate_limit_counts_as_absent(valkey: Valkey, garbage: bytes) -> None:
    valkey.client.hset("provider-rate:apns", "rate", garbage)
    rates = RedisProviderRates(valkey.client, LIMITS)
    assert (draw(rates, 0), draw(rates, 0)) == (50, 0)


def test_rate_limit_expires_when_it_would_start_anew(valkey: Valkey) -> None:
    draw(RedisProviderRates(valkey.client, LIMITS), 0)
    assert 0 < valkey.client.ttl("provider-rate:apns") <= 300


def test_rate_limit_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client:
        rates = RedisProviderRates(client)
        with pytest.raises(CacheUnavailable):
            draw(rates, 0)
        with pytest.raises(CacheUnavailable):
            rates.report_results(Platform.WEB, refused_count=1, is_slow=False, now=START)
