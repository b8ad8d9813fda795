"""Real Valkeys for contract tests that are more than one: a cluster of three, started once a test session."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

from notifier.adapters.redis.connect import RedisClient, connect
from notifier.devkit.engines.engine import Engine
from tests.contracts.valkey_fixture import PATIENT
from tests.support.valkey_cluster import nodes, slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Valkeys:
    """A cluster; for a contract what one server is."""

    engines: list[Engine]
    clients: list[RedisClient]
    """Of each node."""
    client: RedisClient
    """Of the cluster."""
    url: str

    @property
    def patient(self) -> str:
        return self.url

    def everywhere(self, *command: str | int) -> list[object]:
        return [one.execute_command(*command) for one in self.clients]  # type: ignore[no-untyped-call] # redis-py's own

    def wipe(self) -> None:
        self.everywhere("FLUSHALL")


@contextmanager
def running(engines: list[Engine]) -> Iterator[None]:
    with ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.kill)
            engine.start()
        for engine in engines:
            engine.ready()
        yield


@contextmanager
def cluster_in(folder: Path, asking: str = "") -> Iterator[Valkeys]:
    password = secrets.token_hex(24)
    engines = [*nodes(folder, password=password)]
    with running(engines), ExitStack() as stack:
        clients = [stack.enter_context(connect(f"redis://:{password}@{one.address}{asking}")) for one in engines]
        # Not all of them: the others are found in the map.
        url = f"redis+cluster://:{password}@{engines[1].address},{engines[0].address}{asking}"
        client = stack.enter_context(connect(url))
        found = Valkeys(engines=engines, clients=clients, client=client, url=url)
        _join(found)
        yield found


def _join(valkeys: Valkeys) -> None:
    for number, client in enumerate(valkeys.clients):
        client.execute_command("CLUSTER ADDSLOTSRANGE", *slots(number))  # type: ignore[no-untyped-call] # redis-py's own
    first = valkeys.clients[0]
    for engine, client in zip(valkeys.engines[1:], valkeys.clients[1:], strict=True):
        bus = client.config_get("cluster-port")["cluster-port"]
        first.execute_command("CLUSTER MEET", engine.host, engine.port, bus)  # type: ignore[no-untyped-call] # as above
    deadline = monotonic() + 30
    while not all("'cluster_state': 'ok'" in str(said) for said in valkeys.everywhere("CLUSTER INFO")):
        assert monotonic() < deadline, valkeys.everywhere("CLUSTER INFO")
        sleep(0.05)


@pytest.fixture(scope="session")
def valkeys_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkeys]:
    with cluster_in(tmp_path_factory.mktemp("valkeys"), PATIENT) as found:
        yield found


@pytest.fixture
def valkeys(valkeys_servers: Valkeys) -> Valkeys:
    """Empty."""
    valkeys_servers.wipe()
    return valkeys_servers
