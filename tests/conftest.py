"""What every test of the project shares: how hypothesis looks for counterexamples, the real engines, who begins."""

from collections.abc import Mapping

import pytest
from hypothesis import settings

from notifier.adapters.cassandra import Access
from services.fleet import Standing
from tests.engines import engines

# A busy machine makes slow examples, not wrong ones: pytest-timeout bounds a test, never a single example.
settings.register_profile("notifier", deadline=None, print_blob=True)
settings.load_profile("notifier")

FIRST = ("test_cluster_broken", "test_log_sharing", "services", "simulation", "mutants", "browser", "cli", "contracts")
"""Files and rooms that take longest: a process that began one last would end minutes behind the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    words = item.nodeid.partition("::")[0].removesuffix(".py").split("/")
    return next((turn for turn, word in enumerate(FIRST) if word in words), len(FIRST))


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Standing]:
    return engines(tmp_path_factory)


@pytest.fixture(scope="session")
def cassandra(fleet: Mapping[str, Standing]) -> Access:
    """One node, in a keyspace that isn't there; whoever kills it starts one of his own instead."""
    return Access(hosts=[fleet["cassandra"].host], port=fleet["cassandra"].port)


@pytest.fixture(scope="session")
def kafka(fleet: Mapping[str, Standing]) -> str:
    """A broker's address; whoever kills it starts one of his own instead."""
    return fleet["kafka"].address
