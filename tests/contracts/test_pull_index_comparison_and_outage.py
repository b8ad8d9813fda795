"""The pull index: last comparison, rebuild page by page, and a full or hung server."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

import pytest

from notifier.adapters.redis.connect import TIMEOUT, RedisBreaker, connect
from notifier.adapters.redis.live_bus import RedisLiveBus
from notifier.adapters.redis.pull_index_reader import PART_COUNT, part_key
from notifier.adapters.redis.pull_index_writer import COMPARISONS_PER_SWEEP, RedisPullIndex
from notifier.adapters.redis.recent_events_and_load_limits import (
    RedisBackpressure,
    RedisRecentEvents,
    RedisTokenBuckets,
)
from notifier.devkit.engines.engine_process import suspend
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.token_bucket import BucketLimit
from notifier.ports.pull_index import MAX_COMPARISON_AGE, NewestPositions
from tests.contracts.pull_index_backends import (
    ADA,
    BEFORE,
    NOON,
    NOVA,
    SUBJECTS,
    Backend,
    backend,
    burst,
    on_valkey,
    seqs,
)
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import CountedNonces

__all__ = ["backend", "valkey", "valkey_server"]


def test_index_without_recent_comparison_claims_nothing(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.clock.advance(MAX_COMPARISON_AGE)
    assert seqs(backend.read_newest([NOVA])) == [4]
    backend.clock.advance(timedelta(milliseconds=1))
    assert backend.read_newest([NOVA]).complete_since is None
    backend.index.record_comparison(BEFORE, backend.clock.now())
    assert seqs(backend.read_newest([NOVA])) == [4]


def test_last_comparison_wins(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    earlier = backend.clock.now() - MAX_COMPARISON_AGE
    backend.index.record_comparison(BEFORE, earlier)
    assert (seqs(backend.read_newest([NOVA])), backend.read_newest([NOVA]).as_of) == ([4], earlier)
    backend.clock.advance(timedelta(milliseconds=1))
    assert backend.read_newest([NOVA]).complete_since is None


def test_index_compared_in_the_future_claims_nothing_until_recompared(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    now = backend.clock.now()
    backend.index.record_comparison(BEFORE, now + timedelta(milliseconds=1))
    assert backend.read_newest([NOVA]).complete_since is None
    backend.index.record_comparison(BEFORE, now)
    assert (seqs(backend.read_newest([NOVA])), backend.read_newest([NOVA]).as_of) == ([4], now)


def test_comparison_fails_after_index_was_wiped(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.wipe()
    with pytest.raises(CacheUnavailable):
        backend.index.record_comparison(BEFORE, backend.clock.now())
    backend.index.generation()
    with pytest.raises(CacheUnavailable):
        backend.index.record_comparison(BEFORE, backend.clock.now())
    assert backend.read_newest([ADA]).complete_since is None


def test_rebuild_reads_page_by_page_between_announcements(backend: Backend) -> None:
    bursts = [burst(seq) for seq in range(4, 12)]
    pages_read: list[Sequence[Burst]] = []

    def pages() -> Iterator[Sequence[Burst]]:
        for end in range(len(bursts), 0, -3):
            pages_read.append(bursts[max(0, end - 3) : end][::-1])
            yield pages_read[-1]
            backend.index.announce([burst(11 + len(pages_read)), burst(100 + len(pages_read), ADA)])

    backend.index.generation()
    backend.index.rebuild(pages(), BEFORE, backend.clock.now())
    assert len(pages_read) == 3
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([*range(14, 3, -1)], BEFORE)
    assert (seqs(backend.read_newest([ADA])), backend.read_newest([ADA]).complete_since) == ([103, 102, 101], BEFORE)


def test_wipe_between_pages_aborts_rebuild(backend: Backend) -> None:
    def pages() -> Iterator[Sequence[Burst]]:
        yield [burst(9)]
        backend.wipe()
        backend.index.generation()
        yield [burst(4, ADA)]

    backend.index.generation()
    with pytest.raises(CacheUnavailable):
        backend.index.rebuild(pages(), BEFORE, backend.clock.now())
    assert backend.read_newest(SUBJECTS).complete_since is None
    assert backend.index.generation() is None


def test_burst_missing_between_pages_moves_horizon(backend: Backend) -> None:
    backend.index.generation()
    backend.finish_rebuild([burst(3), burst(5)], page=1)
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5], burst(5).opened_at)


def test_late_burst_behind_its_page_moves_horizon(backend: Backend) -> None:
    def pages() -> Iterator[Sequence[Burst]]:
        yield [burst(6)]
        backend.index.announce([burst(2)])
        yield [burst(1, ADA)]

    backend.index.generation()
    backend.index.rebuild(pages(), BEFORE, backend.clock.now())
    since = backend.read_newest([NOVA]).complete_since
    assert since is not None
    assert since > burst(2).opened_at


@contextmanager
def full_server(valkey: Valkey) -> Iterator[None]:
    """Refuse every command that takes memory; reads and deletions still work."""
    before = valkey.client.config_get("maxmemory")["maxmemory"] or 0
    valkey.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        valkey.client.config_set("maxmemory", before)


@contextmanager
def frozen_server(valkey: Valkey) -> Iterator[None]:
    pid = valkey.server.pid
    assert pid
    suspend(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_full_server_drops_completeness_at_once(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    with full_server(valkey):
        with pytest.raises(CacheUnavailable):
            backend.index.announce([burst(5)])
        assert backend.read_newest([NOVA]).complete_since is None
        with pytest.raises(CacheUnavailable):
            backend.index.record_comparison(BEFORE, backend.clock.now())
        assert backend.read_newest([NOVA]).complete_since is None
    backend.index.record_comparison(BEFORE, backend.clock.now())
    assert seqs(backend.read_newest([NOVA])) == [5, 4]


def test_burst_missed_by_hung_server_is_not_claimed_after_wakeup(valkey: Valkey) -> None:
    """The announcer has died by then; another process reads the burst from the store and restores completeness."""
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    with connect(valkey.url) as client:
        client.ping()
        crashing_index = RedisPullIndex(client, CountedNonces())
        with frozen_server(valkey):
            with pytest.raises(CacheUnavailable):
                crashing_index.announce([burst(5)])
            backend.clock.advance(MAX_COMPARISON_AGE + timedelta(milliseconds=1))
    assert backend.read_newest([NOVA]).complete_since is None
    backend.index.announce([burst(5)])
    backend.index.record_comparison(BEFORE, backend.clock.now())
    assert seqs(backend.read_newest([NOVA])) == [5, 4]


def test_hung_server_costs_a_process_only_one_timeout(valkey: Valkey) -> None:
    with connect(valkey.url) as client:
        index = RedisPullIndex(client, CountedNonces())
        index.announce([burst(4)])
        calls: list[Callable[[], object]] = [
            lambda: index.announce([burst(5)]),
            lambda: RedisLiveBus(client).publish([burst(5)]),
            lambda: RedisRecentEvents(client).content_hashes([]),
            lambda: RedisTokenBuckets(client).take("b", BucketLimit(capacity=1, refill=timedelta(1))),
            lambda: RedisBackpressure(client).level(),
        ]
        with frozen_server(valkey):
            started = monotonic()
            with pytest.raises(CacheUnavailable):
                index.announce([burst(5)])
            waited = monotonic() - started
            started = monotonic()
            for call in calls:
                with pytest.raises(CacheUnavailable):
                    call()
            assert monotonic() - started < 2 * TIMEOUT  # without a circuit breaker, one timeout for each call
    assert waited >= TIMEOUT


def test_one_call_probes_server_after_circuit_breaker_pause(valkey: Valkey) -> None:
    now = [0.0]
    breaker = RedisBreaker(lambda: now[0])

    def detail_of(error: Exception) -> str:
        with pytest.raises(CacheUnavailable) as caught, breaker.guarded():
            raise error
        return caught.value.detail

    assert "tried again within a second" not in detail_of(OSError("gone"))
    assert "tried again within a second" in detail_of(OSError("never raised"))
    now[0] = 1.0
    with breaker.guarded():
        assert "tried again within a second" in detail_of(OSError("second call during a probe"))
    with breaker.guarded():
        pass


def test_expired_lists_are_swept_without_rebuild(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4), burst(4, ADA)])
    since = NOON + timedelta(hours=1)
    backend.index.announce([burst(5, ADA, opened_at=since)])
    for _ in range(COMPARISONS_PER_SWEEP * PART_COUNT):
        backend.index.record_comparison(since, since)
    backend.clock.advance(timedelta(hours=1))
    assert backend.read_newest([NOVA]) == NewestPositions(positions=(), complete_since=since, as_of=since)
    assert backend.read_newest([ADA]).complete_since == BEFORE
    assert seqs(backend.read_newest(SUBJECTS)) == [5]
    assert sum(valkey.client.hexists(part_key(part), str(NOVA)) for part in range(PART_COUNT)) == 0
