"""The pull index on every backend: its bursts, and since when it is complete."""

from datetime import timedelta

from notifier.adapters.redis.pull_index_reader import MAX_LIST_LENGTH
from notifier.domain.ids import BurstKey
from notifier.ports.pull_index import NewestPositions
from tests.contracts.pull_index_backends import (
    ADA,
    BEFORE,
    BO,
    EARLIEST,
    NOON,
    NOVA,
    SUBJECTS,
    Backend,
    backend,
    burst,
    seqs,
)
from tests.contracts.valkey_fixture import valkey, valkey_server

__all__ = ["backend", "valkey", "valkey_server"]


def test_empty_index_claims_nothing(backend: Backend) -> None:
    assert backend.read_newest([NOVA]) == NewestPositions(positions=(), complete_since=None)
    assert backend.index.generation() is None


def test_read_of_no_subjects_is_complete(backend: Backend) -> None:
    assert backend.read_newest([]).complete_since == EARLIEST


def test_rebuilt_index_lists_bursts_newest_first(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5), burst(9, ADA)])
    pulled = backend.read_newest(SUBJECTS)
    assert [position.burst for position in pulled.positions] == [BurstKey(ADA, 9), BurstKey(NOVA, 5), BurstKey(NOVA, 4)]
    assert pulled.positions[0].opened_at == NOON + timedelta(minutes=9)
    assert pulled.complete_since == BEFORE


def test_rebuilt_index_is_complete_for_quiet_subject(backend: Backend) -> None:
    backend.rebuild([])
    assert backend.read_newest([BO]) == NewestPositions(positions=(), complete_since=BEFORE, as_of=NOON)


def test_rebuilt_index_has_generation_until_wipe(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    first = backend.index.generation()
    assert first is not None
    assert backend.index.generation() == first
    backend.wipe()
    assert backend.index.generation() is None
    backend.rebuild_only([burst(4)])
    assert backend.index.generation() not in {None, first}


def test_announced_burst_follows_its_predecessor(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(5)])
    pulled = backend.read_newest([NOVA])
    assert (seqs(pulled), pulled.complete_since) == ([5, 4], BEFORE)


def test_next_burst_of_quiet_subject_keeps_index_complete(backend: Backend) -> None:
    backend.rebuild([])
    backend.index.announce([burst(7)])
    pulled = backend.read_newest([NOVA, ADA])
    assert (seqs(pulled), pulled.complete_since) == ([7], BEFORE)


def test_subject_known_from_first_burst_is_complete_forever(backend: Backend) -> None:
    backend.rebuild([burst(1, ADA)])
    backend.index.announce([burst(1)])
    assert backend.read_newest([NOVA, ADA]).complete_since == EARLIEST


def test_repeated_announcement_changes_nothing(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.index.announce([burst(5)])
    before = backend.read_newest([NOVA])
    backend.index.announce([burst(5), burst(4)])
    assert backend.read_newest([NOVA]) == before


def test_restamped_burst_moves_forward_but_late_repeat_not_back(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(5)])
    moved = burst(5, opened_at=NOON + timedelta(minutes=50))
    backend.index.announce([moved])
    backend.index.announce([burst(5)])
    assert backend.read_newest([NOVA]).positions[0].opened_at == moved.opened_at


def test_full_list_drops_oldest_and_moves_horizon(backend: Backend) -> None:
    backend.rebuild([])
    backend.index.announce([burst(seq) for seq in range(1, MAX_LIST_LENGTH + 3)])
    pulled = backend.read_newest([NOVA])
    assert seqs(pulled) == list(range(MAX_LIST_LENGTH + 2, 2, -1))
    assert pulled.complete_since is not None
    assert burst(2).opened_at < pulled.complete_since <= burst(3).opened_at


def test_horizon_of_many_subjects_is_the_latest(backend: Backend) -> None:
    backend.rebuild([burst(4), burst(7, ADA)])
    backend.index.announce([burst(9, ADA)])
    pulled = backend.read_newest([NOVA, ADA])
    assert pulled.complete_since == burst(9, ADA).opened_at
    assert [position.burst for position in pulled.positions] == [BurstKey(ADA, 9)]


def test_rebuild_sweeps_older_bursts(backend: Backend) -> None:
    backend.rebuild([burst(4)])
    backend.rebuild([], since=NOON + timedelta(hours=1))
    assert backend.read_newest([NOVA]) == NewestPositions(
        positions=(), complete_since=NOON + timedelta(hours=1), as_of=NOON
    )
    backend.index.announce([burst(4)])
    assert backend.read_newest([NOVA]).positions == ()
    backend.index.announce([burst(5, opened_at=NOON + timedelta(hours=2))])
    assert seqs(backend.read_newest([NOVA])) == [5]
