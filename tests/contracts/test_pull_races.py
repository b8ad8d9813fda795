"""The pull index, on every backend, when things go wrong: it never claims to be complete where it isn't."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.redis.connect import RedisBreaker, connect
from notifier.adapters.redis.pull_index import RedisPullIndex
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from tests.contracts.pull_backends import (
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
    simple,
)
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock import CountedNonces

__all__ = ["backend", "simple", "valkey", "valkey_server"]


def test_a_gap_starts_the_list_again(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(6)])
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([6], burst(6).opened_at)


def test_a_gap_ends_the_generation_because_more_may_be_lost(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(6)])
    assert backend.index.generation() is None
    backend.rebuild([burst(4), burst(5), burst(6)])
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([6, 5, 4], BEFORE)


def test_after_a_wipe_between_two_announcements_nothing_is_proven(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(5)])
    backend.wipe()
    backend.index.announce([burst(6)])
    assert backend.look([NOVA]).complete_since is None
    assert backend.look([ADA]).complete_since is None


def test_a_late_repeat_after_a_wipe_proves_nothing(backend: Backend) -> None:
    """A coordinator that hung for long announces the first burst; the wipe took those that came after."""
    backend.rebuild([burst(1), burst(2), burst(3)])
    backend.wipe()
    backend.index.announce([burst(1)])
    assert backend.look([NOVA]).complete_since is None


def test_late_repeats_after_a_wipe_prove_nothing_together(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5), burst(6)])
    backend.wipe()
    backend.index.announce([burst(4)])
    backend.index.announce([burst(5)])
    assert backend.look([NOVA]).complete_since is None


def test_a_late_repeat_of_an_old_burst_leaves_the_list_alone(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5)], since=burst(4).opened_at)
    before = backend.look([NOVA])
    backend.index.announce([burst(2)])
    assert backend.look([NOVA]) == before
    assert backend.index.generation() is not None


def test_an_old_burst_stamped_later_than_its_absence_is_claimed_narrows_the_claim(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5)])
    late = burst(2, opened_at=burst(5).opened_at)
    backend.index.announce([late])
    since = backend.look([NOVA]).complete_since
    assert since is not None
    assert since > late.opened_at


def test_two_bursts_announced_in_the_wrong_order_are_both_listed(backend: Backend) -> None:
    backend.rebuild([burst(3)])
    backend.index.announce([burst(5)])
    backend.index.announce([burst(4)])
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5, 4], burst(4).opened_at)


def test_a_burst_announced_during_a_rebuild_stays(backend: Backend) -> None:
    backend.index.generation()
    backend.index.announce([burst(5), burst(8, ADA)])
    backend.rebuilt([burst(4)])
    pulled = backend.look(SUBJECTS)
    assert ([place.burst for place in pulled.places], pulled.complete_since) == (
        [BurstKey(ADA, 8), BurstKey(NOVA, 5), BurstKey(NOVA, 4)],
        BEFORE,
    )


def test_a_rebuild_fails_when_the_index_was_wiped_after_its_bursts_were_read(backend: Backend) -> None:
    backend.index.generation()
    read = [burst(4)]
    backend.index.announce([burst(5)])
    backend.wipe()
    with pytest.raises(CacheUnavailable):
        backend.rebuilt(read)
    assert backend.look([NOVA]).complete_since is None
    assert backend.index.generation() is None


def test_a_rebuild_with_nothing_to_add_fails_after_a_wipe_too(backend: Backend) -> None:
    backend.index.generation()
    backend.index.announce([burst(5)])
    backend.wipe()
    with pytest.raises(CacheUnavailable):
        backend.rebuilt([])
    assert backend.look([NOVA]).complete_since is None


def test_a_burst_missing_between_the_rebuild_and_an_announcement_is_not_claimed(backend: Backend) -> None:
    backend.index.generation()
    backend.index.announce([burst(6)])
    backend.rebuilt([burst(4)])
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([6], burst(6).opened_at)


def test_a_rebuild_fails_when_a_gap_was_found_after_its_bursts_were_read(backend: Backend) -> None:
    backend.index.announce([burst(4)])
    backend.index.generation()
    backend.index.announce([burst(6)])
    with pytest.raises(CacheUnavailable):
        backend.rebuilt([burst(4)])
    assert backend.look([ADA]).complete_since is None


def test_where_a_burst_is_missing_in_the_store_only_the_newer_ones_count(backend: Backend) -> None:
    backend.rebuild([burst(3), burst(5)])
    pulled = backend.look([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5], burst(5).opened_at)


@dataclass
class World:
    """Everything that was ever announced, to hold the claims against."""

    backend: Backend
    store: list[Burst] = field(default_factory=list)
    announced: list[Burst] = field(default_factory=list)
    unsaid: list[Burst] = field(default_factory=list)
    read: list[Burst] | None = None
    now: datetime = NOON

    def act(self, action: str, subject: Subject, pick: int) -> None:
        self.now += timedelta(seconds=1)
        match action:
            case "open":
                seq = 1 + sum(b.key.subject == subject for b in self.store)
                self.store.append(burst(seq, subject, opened_at=self.now))
                self.say(self.store[-1])
            case "open, announce later":
                seq = 1 + sum(b.key.subject == subject for b in self.store)
                self.store.append(burst(seq, subject, opened_at=self.now))
                self.unsaid.append(self.store[-1])
            case "announce now" if self.unsaid:
                self.say(self.unsaid.pop(pick % len(self.unsaid)))
            case "repeat" if self.announced:
                self.say(self.announced[pick % len(self.announced)])
            case "wipe":
                self.backend.wipe()
            case "look" if self.backend.index.generation() is None:
                self.read = list(self.store)
            case "rebuild" if self.read is not None:
                self.rebuild(NOON + timedelta(seconds=pick))

    def say(self, one: Burst) -> None:
        self.backend.index.announce([one])
        self.announced.append(one)

    def rebuild(self, since: datetime) -> None:
        read = self.read or []
        self.read = None
        try:
            self.backend.rebuilt([b for b in read if b.opened_at >= since], since, page=2)
        except CacheUnavailable:
            return

    def check(self) -> None:
        for asked in (*([s] for s in SUBJECTS), SUBJECTS):
            pulled = self.backend.look(asked)
            if pulled.complete_since is None:
                continue
            listed = {place.burst for place in pulled.places}
            missing = [
                b.key
                for b in self.announced
                if b.key.subject in asked and b.opened_at >= pulled.complete_since and b.key not in listed
            ]
            assert missing == []


ACTIONS = [
    "open",
    "open",
    "open, announce later",
    "announce now",
    "repeat",
    "wipe",
    "look",
    "look",
    "rebuild",
    "rebuild",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(SUBJECTS[:2]), st.integers(0, 12)), max_size=30))
def test_whatever_happens_the_index_never_claims_what_it_lacks(
    simple: Backend, actions: list[tuple[str, Subject, int]]
) -> None:
    simple.wipe()
    world = World(simple)
    for action in actions:
        world.act(*action)
        world.check()


def test_an_announcement_that_redis_missed_comes_first_in_the_next(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    with connect(valkey.patient) as client:
        client.answered = RedisBreaker(count(step=60).__next__).answered
        index = RedisPullIndex(client, CountedNonces())
        way = client.connection_pool.connection_kwargs
        port, way["port"] = way["port"], 1
        with pytest.raises(CacheUnavailable):
            index.announce([burst(5)])
        way["port"] = port
        client.connection_pool.reset()
        index.announce([burst(8, ADA)])
    assert seqs(backend.look([NOVA])) == [5, 4]
    assert backend.index.generation() is not None
