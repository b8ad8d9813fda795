"""A real Valkey for contract tests: one server a test session, empty for every test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from notifier.adapters.redis.connect import RedisClient, connect
from notifier.adapters.valkey.server import ValkeyServer

PATIENT = "?socket_timeout=15&socket_connect_timeout=15"
"""What an address may say. On a busy machine a server is silent for half a second now and then, which is an outage
to a service and nothing to a test of anything else."""


@dataclass(frozen=True, slots=True)
class Valkey:
    server: ValkeyServer
    client: RedisClient

    @property
    def url(self) -> str:
        """As a service has it: a silence of half a second is an outage. Brokers on it take the same address."""
        return self.server.url()

    @property
    def patient(self) -> str:
        return self.url + PATIENT

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
    with connect(valkey_server.url() + PATIENT) as client:
        found = Valkey(valkey_server, client)
        found.wipe()
        yield found


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("valkey")
