"""The engines that the tests of a run share; each test has a keyspace of its own."""

from collections.abc import Iterator

import pytest

from notifier.adapters.cassandra import Access
from notifier.config import Settings
from services.cassandra.node import node
from services.engine import free_port


@pytest.fixture(scope="session")
def cassandra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """One node, in a keyspace that isn't there; whoever kills it starts one of his own instead."""
    engine = node(tmp_path_factory.mktemp("cassandra"), Settings.read().jars.expanduser(), port=free_port())
    engine.start()
    try:
        engine.ready()
        yield Access(hosts=[engine.host], port=engine.port)
    finally:
        engine.kill()
