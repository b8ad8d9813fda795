"""A Valkey server for contract tests: one per test session, emptied for each test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from notifier.adapters.redis.connect import RedisClient, connect
from notifier.adapters.valkey.server import ValkeyServer

PATIENT = "?socket_timeout=15&socket_connect_timeout=15"
"""Connection options for tests.

On a busy machine a server is silent for half a second now and then: an outage for a service, but irrelevant for most
tests.
"""


@dataclass(frozen=True, slots=True)
class Valkey:
    server: ValkeyServer
    client: RedisClient

    @property
    def url(self) -> str:
        """URL as a service uses it: half a second of silence is an outage. Celery brokers use the same URL."""
        return self.server.url()

    @property
    def patient_url(self) -> str:
        return self.url + PATIENT

    def everywhere(self, *command: str | int) -> list[object]:
        return [self.client.execute_command(*command)]  # type: ignore[no-untyped-call] # redis-py's own

    def wipe(self) -> None:
        """Delete all data in all databases, like a restart without persistence."""
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
        instance = Valkey(valkey_server, client)
        instance.wipe()
        yield instance


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("valkey")
