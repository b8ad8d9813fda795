"""What every test of the project shares: how hypothesis looks for counterexamples, and the real engines."""

from collections.abc import Mapping

import pytest
from hypothesis import settings

from notifier.adapters.cassandra import Access
from services.fleet import Standing
from tests.engines import engines

# A busy machine makes slow examples, not wrong ones: pytest-timeout bounds a test, never a single example.
settings.register_profile("notifier", deadline=None, print_blob=True)
settings.load_profile("notifier")


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
