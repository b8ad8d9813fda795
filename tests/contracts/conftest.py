"""The fixtures of the contracts: `backend` and `store` are each backend in turn, `sqlite` the one with a disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.adapters.sqlite.files import Files
from notifier.config import Settings
from notifier.testing.memory.clock import ManualClock
from services.engine import free_port
from services.jars import missing
from services.kafka.broker import broker
from tests.contracts.backends import Backend, in_memory, in_sqlite, migrated
from tests.contracts.flow_stores import BACKENDS, Store
from tests.contracts.logs import ByHand, Logs, in_kafka


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    opened = migrated(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(files: Files) -> Backend:
    return in_sqlite(files, ManualClock())


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = in_memory() if request.param == "memory" else request.getfixturevalue("sqlite")
    return found


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker's address."""
    if lacking := missing():
        pytest.skip(f"Kafka needs Java and Maven; not found: {', '.join(lacking)}")
    engine = broker(tmp_path_factory.mktemp("kafka"), Settings.read().jars.expanduser(), port=free_port())
    engine.start()
    try:
        engine.ready()
        yield engine.address
    finally:
        engine.stop()


@pytest.fixture(params=["memory", "sqlite", "kafka"])
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    if request.param == "kafka":
        with in_kafka(request.getfixturevalue("kafka")) as found:
            yield found
    else:
        backend: Backend = in_memory() if request.param == "memory" else request.getfixturevalue("sqlite")
        yield ByHand(backend.log, backend.clock)


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """What the core flow and the readers keep."""
    with BACKENDS[request.param](tmp_path, ManualClock()) as opened:
        yield opened
