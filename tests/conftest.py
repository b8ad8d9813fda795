"""Shared setup of all tests: hypothesis, garbage collection, test order and engines."""

import gc
import os
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

gc.disable()  # the collection of tests creates half a million objects and no garbage: until it ends
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
"""Only Java's fast compiler: in the minutes that an engine lives, the optimizing one takes half of its CPU time."""

WAITING = ("test_cluster_faults", "test_cluster_service", "test_event_log_sharing", "services")
COMPUTING = ("mutants", "simulation", "browser", "cli", "contracts")
"""The slowest files and folders: those that wait for engines, and those that compute.

They start first, because a process that began one last would end minutes after the others. They alternate, because
otherwise processors would idle and then be shared.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = dict.fromkeys(_file(item) for item in items)
    waiting, computing = _queue(files, WAITING), _queue(files, COMPUTING)
    by_turns = [file for pair in zip_longest(waiting, computing) for file in pair if file]
    turns = {file: turn for turn, file in enumerate(dict.fromkeys((*by_turns, *files)))}
    items.sort(key=lambda item: turns[_file(item)])


YOUNG = 20_000
"""Objects.

At Python's default of 700 the garbage collector takes a tenth of a simulation's time and frees almost nothing.
"""


def pytest_collection_finish() -> None:
    """Freeze all imported objects, so that the garbage collector does not walk half a million of them repeatedly."""
    _first_property()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    gc.enable()


@settings(database=None, max_examples=1)
@given(st.none())
def _first_property(_: None) -> None:
    """Run a first property before any other thread exists.

    In the first property of a process, hypothesis asks the garbage collector which objects hold its random numbers. A
    collection in another thread at that moment would hide the answer and fail the property.
    """


def _queue(files: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the files that contain one of the names, in the order of the names."""
    positions = [
        (names.index(matches[0]), file)
        for file in files
        if (matches := [name for name in names if name in file.split("/")])
    ]
    return [file for _, file in sorted(positions)]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removesuffix(".py")


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EngineRecord]:
    return engines(tmp_path_factory)


@pytest.fixture(scope="session")
def cassandra(fleet: Mapping[str, EngineRecord]) -> CassandraAccess:
    """One node, without a keyspace. A test that kills a node starts its own instead."""
    return CassandraAccess(hosts=[fleet["cassandra"].host], port=fleet["cassandra"].port)


@pytest.fixture(scope="session")
def kafka(fleet: Mapping[str, EngineRecord]) -> str:
    """Return the address of a broker. A test that kills a broker starts its own instead."""
    return fleet["kafka"].address
