"""The fixtures of the contracts: `backend` and `store` are each backend in turn, `sqlite` the one with a disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.adapters.sqlite.files import Files
from notifier.testing.memory.clock import ManualClock
from tests.contracts.backends import Backend, in_memory, in_sqlite, migrated
from tests.contracts.flow_stores import BACKENDS, Store


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


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """What the core flow and the readers keep."""
    with BACKENDS[request.param](tmp_path, ManualClock()) as opened:
        yield opened
