"""The pull index when its server is full, hung, or asked by nobody: what it lacks it never claims to have."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

import pytest

from notifier.adapters.redis.cache import RedisBuckets, RedisPressure, RedisRecent
from notifier.adapters.redis.connect import TIMEOUT, RedisBreaker, connect
from notifier.adapters.redis.live_bus import RedisBus
from notifier.adapters.redis.pull_index import SWEPT_EVERY, RedisPullIndex
from notifier.adapters.redis.pull_reader import PARTS, key
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.token_bucket import BucketLimit
from notifier.ports.pull_index import FRESH_FOR, Pulled
from tests.contracts.pull_backends import ADA, BEFORE, NOON, NOVA, SUBJECTS, Backend, backend, burst, on_valkey, seqs
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock import CountedNonces

__all__ = ["backend", "valkey", "valkey_server"]


def test_an_index_that_nobody_compares_proves_nothing_after_a_while(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.clock.advance(FRESH_FOR)
    assert seqs(backend.look([NOVA])) == [4]
    backend.clock.advance(timedelta(milliseconds=1))
    assert backend.look([NOVA]).complete_since is None
    backend.index.compared(BEFORE, backend.clock.now())
    assert seqs(backend.look([NOVA])) == [4]


def test_of_two_comparisons_the_last_word_stands(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    earlier = backend.clock.now() - FRESH_FOR
    backend.index.compared(BEFORE, earlier)
    assert (seqs(backend.look([NOVA])), backend.look([NOVA]).as_of) == ([4], earlier)
    backend.clock.advance(timedelta(milliseconds=1))
    assert backend.look([NOVA]).complete_since is None


def test_after_the_clock_was_set_back_an_index_proves_nothing_until_it_is_compared_again(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    now = backend.clock.now()
    backend.index.compared(BEFORE, now + timedelta(milliseconds=1))
    assert backend.look([NOVA]).complete_since is None
    backend.index.compared(BEFORE, now)
    assert (seqs(backend.look([NOVA])), backend.look([NOVA]).as_of) == ([4], now)


def test_an_index_emptied_since_cannot_be_said_to_be_compared(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.wipe()
    with pytest.raises(CacheUnavailable):
        backend.index.compared(BEFORE, backend.clock.now())
    backend.index.generation()
    with pytest.raises(CacheUnavailable):
        backend.index.compared(BEFORE, backend.clock.now())
    assert backend.look([ADA]).complete_since is None


def test_a_rebuild_holds_one_page_and_lets_announcements_in_between(backend: Backend) -> None:
    made = [burst(seq) for seq in range(4, 12)]
    asked: list[Sequence[Burst]] = []

    def pages() -> Iterator[Sequence[Burst]]:
        for at in range(len(made), 0, -3):
            asked.append(made[max(0, at - 3) : at][::-1])
            yield asked[-1]
            backend.index.announce([burst(11 + len(asked)), burst(100 + len(asked), ADA)])

    backend.index.generation()
    backend.index.rebuilt(pages(), BEFORE, backend.clock.now())
    assert len(asked) == 3
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([*range(14, 3, -1)], BEFORE)
    assert (seqs(backend.look([ADA])), backend.look([ADA]).complete_since) == ([103, 102, 101], BEFORE)


def test_a_wipe_between_two_pages_ends_the_rebuild(backend: Backend) -> None:
    def pages() -> Iterator[Sequence[Burst]]:
        yield [burst(9)]
        backend.wipe()
        backend.index.generation()
        yield [burst(4, ADA)]

    backend.index.generation()
    with pytest.raises(CacheUnavailable):
        backend.index.rebuilt(pages(), BEFORE, backend.clock.now())
    assert backend.look(SUBJECTS).complete_since is None
    assert backend.index.generation() is None


def test_a_burst_missing_between_two_pages_is_not_claimed(backend: Backend) -> None:
    backend.index.generation()
    backend.rebuilt([burst(3), burst(5)], page=1)
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5], burst(5).opened_at)


def test_a_late_burst_announced_behind_its_page_is_not_claimed_to_be_absent(backend: Backend) -> None:
    def pages() -> Iterator[Sequence[Burst]]:
        yield [burst(6)]
        backend.index.announce([burst(2)])
        yield [burst(1, ADA)]

    backend.index.generation()
    backend.index.rebuilt(pages(), BEFORE, backend.clock.now())
    since = backend.look([NOVA]).complete_since
    assert since is not None
    assert since > burst(2).opened_at


@contextmanager
def full(valkey: Valkey) -> Iterator[None]:
    """Every command that takes memory is refused; reads and deletions are answered."""
    before = valkey.client.config_get("maxmemory")["maxmemory"] or 0
    valkey.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        valkey.client.config_set("maxmemory", before)


@contextmanager
def frozen(valkey: Valkey) -> Iterator[None]:
    pid = valkey.server.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_server_too_full_for_a_burst_stops_claiming_to_have_it_at_once(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    with full(valkey):
        with pytest.raises(CacheUnavailable):
            backend.index.announce([burst(5)])
        assert backend.look([NOVA]).complete_since is None
        with pytest.raises(CacheUnavailable):
            backend.index.compared(BEFORE, backend.clock.now())
        assert backend.look([NOVA]).complete_since is None
    backend.index.compared(BEFORE, backend.clock.now())
    assert seqs(backend.look([NOVA])) == [5, 4]


def test_a_burst_that_a_hung_server_missed_is_not_claimed_when_it_wakes(valkey: Valkey) -> None:
    """Its announcer has died by then; what another process finds in the store and says gives the claims back."""
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    with connect(valkey.url) as client:
        client.ping()
        dying = RedisPullIndex(client, CountedNonces())
        with frozen(valkey):
            with pytest.raises(CacheUnavailable):
                dying.announce([burst(5)])
            backend.clock.advance(FRESH_FOR + timedelta(milliseconds=1))
    assert backend.look([NOVA]).complete_since is None
    backend.index.announce([burst(5)])
    backend.index.compared(BEFORE, backend.clock.now())
    assert seqs(backend.look([NOVA])) == [5, 4]


def test_a_hung_server_costs_a_process_one_time_out_however_much_it_asks(valkey: Valkey) -> None:
    with connect(valkey.url) as client:
        index = RedisPullIndex(client, CountedNonces())
        index.announce([burst(4)])
        asks: list[Callable[[], object]] = [
            lambda: index.announce([burst(5)]),
            lambda: RedisBus(client).publish([burst(5)]),
            lambda: RedisRecent(client).digests([]),
            lambda: RedisBuckets(client).take("b", BucketLimit(capacity=1, refill=timedelta(1))),
            lambda: RedisPressure(client).level(),
        ]
        with frozen(valkey):
            began = monotonic()
            with pytest.raises(CacheUnavailable):
                index.announce([burst(5)])
            waited = monotonic() - began
            began = monotonic()
            for ask in asks:
                with pytest.raises(CacheUnavailable):
                    ask()
            assert monotonic() - began < waited / 2
    assert waited >= TIMEOUT


def test_after_its_rest_one_call_asks_for_all(valkey: Valkey) -> None:
    now = [0.0]
    breaker = RedisBreaker(lambda: now[0])

    def fails(how: Exception) -> str:
        with pytest.raises(CacheUnavailable) as caught, breaker.answered():
            raise how
        return caught.value.detail

    assert "asked again" not in fails(OSError("gone"))
    assert "asked again" in fails(OSError("never raised"))
    now[0] = 1.0
    with breaker.answered():
        assert "asked again" in fails(OSError("another asks while one is at it"))
    with breaker.answered():
        pass


def test_lists_that_are_too_old_are_swept_without_a_rebuild(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4), burst(4, ADA)])
    since = NOON + timedelta(hours=1)
    backend.index.announce([burst(5, ADA, opened_at=since)])
    for _ in range(SWEPT_EVERY * PARTS):
        backend.index.compared(since, since)
    backend.clock.advance(timedelta(hours=1))
    assert backend.look([NOVA]) == Pulled(places=(), complete_since=since, as_of=since)
    assert backend.look([ADA]).complete_since == BEFORE
    assert seqs(backend.look(SUBJECTS)) == [5]
    assert sum(valkey.client.hexists(key(part), str(NOVA)) for part in range(PARTS)) == 0
