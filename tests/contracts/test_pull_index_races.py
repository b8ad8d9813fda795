"""The pull index never claims to be complete during races and failures."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.redis.connect import RedisBreaker, connect
from notifier.adapters.redis.pull_index_writer import RedisPullIndex
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from tests.contracts.pull_index_backends import (
    ADA,
    BEFORE,
    NOON,
    NOVA,
    SUBJECTS,
    Backend,
    backend,
    burst,
    fast_backend,
    on_valkey,
    seqs,
)
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import CountedNonces

__all__ = ["backend", "fast_backend", "valkey", "valkey_server"]


def test_gap_restarts_the_list(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(6)])
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([6], burst(6).opened_at)


def test_gap_ends_generation(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(6)])
    assert backend.index.generation() is None
    backend.rebuild([burst(4), burst(5), burst(6)])
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([6, 5, 4], BEFORE)


def test_wipe_between_announcements_removes_all_claims(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(5)])
    backend.wipe()
    backend.index.announce([burst(6)])
    assert backend.read_newest([NOVA]).complete_since is None
    assert backend.read_newest([ADA]).complete_since is None


def test_late_repeat_after_wipe_claims_nothing(backend: Backend) -> None:
    """A coordinator that hung for long announces the first burst; the wipe removed the later ones."""
    backend.rebuild([burst(1), burst(2), burst(3)])
    backend.wipe()
    backend.index.announce([burst(1)])
    assert backend.read_newest([NOVA]).complete_since is None


def test_several_late_repeats_after_wipe_claim_nothing(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5), burst(6)])
    backend.wipe()
    backend.index.announce([burst(4)])
    backend.index.announce([burst(5)])
    assert backend.read_newest([NOVA]).complete_since is None


def test_late_repeat_of_old_burst_keeps_the_list(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5)], since=burst(4).opened_at)
    before = backend.read_newest([NOVA])
    backend.index.announce([burst(2)])
    assert backend.read_newest([NOVA]) == before
    assert backend.index.generation() is not None


def test_old_burst_with_late_time_moves_horizon(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5)])
    late = burst(2, opened_at=burst(5).opened_at)
    backend.index.announce([late])
    since = backend.read_newest([NOVA]).complete_since
    assert since is not None
    assert since > late.opened_at


def test_bursts_announced_out_of_order_are_both_listed(backend: Backend) -> None:
    backend.rebuild([burst(3)])
    backend.index.announce([burst(5)])
    backend.index.announce([burst(4)])
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5, 4], burst(4).opened_at)


def test_burst_announced_during_rebuild_is_kept(backend: Backend) -> None:
    backend.index.generation()
    backend.index.announce([burst(5), burst(8, ADA)])
    backend.finish_rebuild([burst(4)])
    pulled = backend.read_newest(SUBJECTS)
    assert ([position.burst for position in pulled.positions], pulled.complete_since) == (
        [BurstKey(ADA, 8), BurstKey(NOVA, 5), BurstKey(NOVA, 4)],
        BEFORE,
    )


def test_rebuild_fails_if_index_was_wiped_since_its_read(backend: Backend) -> None:
    backend.index.generation()
    bursts_read = [burst(4)]
    backend.index.announce([burst(5)])
    backend.wipe()
    with pytest.raises(CacheUnavailable):
        backend.finish_rebuild(bursts_read)
    assert backend.read_newest([NOVA]).complete_since is None
    assert backend.index.generation() is None


def test_empty_rebuild_fails_after_wipe(backend: Backend) -> None:
    backend.index.generation()
    backend.index.announce([burst(5)])
    backend.wipe()
    with pytest.raises(CacheUnavailable):
        backend.finish_rebuild([])
    assert backend.read_newest([NOVA]).complete_since is None


def test_burst_missing_before_announcement_is_not_claimed(backend: Backend) -> None:
    backend.index.generation()
    backend.index.announce([burst(6)])
    backend.finish_rebuild([burst(4)])
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([6], burst(6).opened_at)


def test_rebuild_fails_if_gap_appeared_since_its_read(backend: Backend) -> None:
    backend.index.announce([burst(4)])
    backend.index.generation()
    backend.index.announce([burst(6)])
    with pytest.raises(CacheUnavailable):
        backend.finish_rebuild([burst(4)])
    assert backend.read_newest([ADA]).complete_since is None


def test_burst_missing_in_store_moves_horizon(backend: Backend) -> None:
    backend.rebuild([burst(3), burst(5)])
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5], burst(5).opened_at)


@dataclass
class IndexModel:
    """All bursts ever announced, against which the claims of the index are checked."""

    backend: Backend
    store: list[Burst] = field(default_factory=list)
    announced: list[Burst] = field(default_factory=list)
    unannounced: list[Burst] = field(default_factory=list)
    rebuild_input: list[Burst] | None = None
    now: datetime = NOON

    def act(self, action: str, subject: Subject, pick: int) -> None:
        self.now += timedelta(seconds=1)
        match action:
            case "open":
                seq = 1 + sum(burst_.key.subject == subject for burst_ in self.store)
                self.store.append(burst(seq, subject, opened_at=self.now))
                self.announce(self.store[-1])
            case "open, announce later":
                seq = 1 + sum(burst_.key.subject == subject for burst_ in self.store)
                self.store.append(burst(seq, subject, opened_at=self.now))
                self.unannounced.append(self.store[-1])
            case "announce now" if self.unannounced:
                self.announce(self.unannounced.pop(pick % len(self.unannounced)))
            case "repeat" if self.announced:
                self.announce(self.announced[pick % len(self.announced)])
            case "wipe":
                self.backend.wipe()
            case "read the store" if self.backend.index.generation() is None:
                self.rebuild_input = list(self.store)
            case "rebuild" if self.rebuild_input is not None:
                self.rebuild(NOON + timedelta(seconds=pick))

    def announce(self, burst_: Burst) -> None:
        self.backend.index.announce([burst_])
        self.announced.append(burst_)

    def rebuild(self, since: datetime) -> None:
        rebuild_input = self.rebuild_input or []
        self.rebuild_input = None
        try:
            self.backend.finish_rebuild(
                [burst_ for burst_ in rebuild_input if burst_.opened_at >= since], since, page=2
            )
        except CacheUnavailable:
            return

    def check(self) -> None:
        for subjects in (*([subject] for subject in SUBJECTS), SUBJECTS):
            pulled = self.backend.read_newest(subjects)
            if pulled.complete_since is None:
                continue
            listed = {position.burst for position in pulled.positions}
            missing = [
                burst_.key
                for burst_ in self.announced
                if burst_.key.subject in subjects
                and burst_.opened_at >= pulled.complete_since
                and burst_.key not in listed
            ]
            assert missing == []


ACTIONS = [
    "open",
    "open",
    "open, announce later",
    "announce now",
    "repeat",
    "wipe",
    "read the store",
    "read the store",
    "rebuild",
    "rebuild",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(SUBJECTS[:2]), st.integers(0, 12)), max_size=30))
def test_random_actions_never_make_index_claim_missing_bursts(
    fast_backend: Backend, actions: list[tuple[str, Subject, int]]
) -> None:
    fast_backend.wipe()
    model = IndexModel(fast_backend)
    for action in actions:
        model.act(*action)
        model.check()


def test_missed_announcement_is_repeated_before_the_next(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    with connect(valkey.patient_url) as client:
        client.guarded = RedisBreaker(count(step=60).__next__).guarded
        index = RedisPullIndex(client, CountedNonces())
        connection_options = client.connection_pool.connection_kwargs
        port, connection_options["port"] = connection_options["port"], 1
        with pytest.raises(CacheUnavailable):
            index.announce([burst(5)])
        connection_options["port"] = port
        client.connection_pool.reset()
        index.announce([burst(8, ADA)])
    assert seqs(backend.read_newest([NOVA])) == [5, 4]
    assert backend.index.generation() is not None
