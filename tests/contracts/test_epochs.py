"""Epochs: whoever begins later has the higher one, in whatever process."""

from concurrent.futures import ThreadPoolExecutor

from tests.contracts.backends import Backend


def test_each_is_higher_than_all_before(backend: Backend) -> None:
    found = [backend.epochs.begin("indexer/0") for _ in range(5)]
    assert found == sorted(set(found))


def test_names_have_nothing_to_do_with_each_other_nor_with_the_numbers_of_members(backend: Backend) -> None:
    first = backend.epochs.begin("indexer/0")
    assert backend.epochs.begin("indexer/1") == first
    assert backend.directory.lease(1) == 0
    assert backend.epochs.begin("indexer/0") == first + 1


def test_of_many_who_begin_at_once_nobody_has_another_s(backend: Backend) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(backend.epochs.begin, ["indexer/0"] * 12))
    assert len(set(found)) == 12
