"""Fencing epochs: each new epoch is higher than all before, in any process."""

from concurrent.futures import ThreadPoolExecutor

from tests.contracts.memory_and_sqlite_backends import Backend


def test_each_epoch_is_higher_than_all_before(backend: Backend) -> None:
    epochs = [backend.epochs.begin("indexer/0") for _ in range(5)]
    assert epochs == sorted(set(epochs))


def test_epochs_are_independent_of_other_names_and_member_numbers(backend: Backend) -> None:
    first = backend.epochs.begin("indexer/0")
    assert backend.epochs.begin("indexer/1") == first
    assert backend.directory.lease(1) == 0
    assert backend.epochs.begin("indexer/0") == first + 1


def test_concurrent_epochs_are_unique(backend: Backend) -> None:
    with ThreadPoolExecutor(4) as pool:
        epochs = list(pool.map(backend.epochs.begin, ["indexer/0"] * 12))
    assert len(set(epochs)) == 12
