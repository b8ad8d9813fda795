"""A real Valkey for contract tests: one server a test session, empty for every test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from notifier.adapters.redis.client import Client, connect
from notifier.adapters.valkey.server import ValkeyServer


@dataclass(frozen=True, slots=True)
class Valkey:
    server: ValkeyServer
    client: Client

    @property
    def url(self) -> str:
        return self.server.url()

    def everywhere(self, *command: str | int) -> list[object]:
        return [self.client.execute_command(*command)]  # type: ignore[no-untyped-call] # redis-py's own

    def wipe(self) -> None:
        """What a restart without persistence does, in all databases."""
        self.client.flushall()


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(_folder(tmp_path_factory))
    server.start()
    yield server
    server.close()


@pytest.fixture
def valkey(valkey_server: ValkeyServer) -> Iterator[Valkey]:
    with connect(valkey_server.url()) as client:
        found = Valkey(valkey_server, client)
        found.wipe()
        yield found


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("valkey")
