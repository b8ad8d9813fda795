"""What every test of the project shares: how hypothesis looks for counterexamples, the real engines, who begins."""

import gc
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.cassandra import CassandraAccess
from notifier.devkit.engines.fleet import EngineRecord
from tests.support.engines import engines

# A busy machine makes slow examples, not wrong ones: pytest-timeout bounds a test, never a single example.
settings.register_profile("notifier", deadline=None, print_blob=True)
settings.load_profile("notifier")

WAITING = ("test_cluster_broken", "test_clustered", "test_log_sharing", "services")
COMPUTING = ("mutants", "simulation", "browser", "cli", "contracts")
"""Files and rooms that take longest, by what they do meanwhile: for engines, or by themselves. They come first, for a
process that began one last would end minutes behind the others; and by turns, or processors would idle and then be
shared."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = dict.fromkeys(_file(item) for item in items)
    waiting, computing = _queue(files, WAITING), _queue(files, COMPUTING)
    by_turns = [file for pair in zip_longest(waiting, computing) for file in pair if file]
    turns = {file: turn for turn, file in enumerate(dict.fromkeys((*by_turns, *files)))}
    items.sort(key=lambda item: turns[_file(item)])


YOUNG = 20_000
"""Objects. By Python's own 700 the garbage collector has a tenth of a simulation's time, and hardly finds a thing."""


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector needn't walk half a million objects again and again."""
    _first_property()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


@settings(database=None, max_examples=1)
@given(st.none())
def _first_property(_: None) -> None:
    """In the first property of a process, hypothesis asks the garbage collector who else holds its random numbers.
    A collection in another thread at that moment would hide the answer, and fail that property."""


def _queue(files: Iterable[str], words: Sequence[str]) -> list[str]:
    """Those that one of the words names, in the words' order."""
    named = [(words.index(found[0]), file) for file in files if (found := [w for w in words if w in file.split("/")])]
    return [file for _, file in sorted(named)]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removesuffix(".py")


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EngineRecord]:
    return engines(tmp_path_factory)


@pytest.fixture(scope="session")
def cassandra(fleet: Mapping[str, EngineRecord]) -> CassandraAccess:
    """One node, in a keyspace that isn't there; whoever kills it starts one of his own instead."""
    return CassandraAccess(hosts=[fleet["cassandra"].host], port=fleet["cassandra"].port)


@pytest.fixture(scope="session")
def kafka(fleet: Mapping[str, EngineRecord]) -> str:
    """A broker's address; whoever kills it starts one of his own instead."""
    return fleet["kafka"].address
