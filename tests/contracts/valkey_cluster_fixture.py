"""A Valkey cluster of three nodes for contract tests, started once per test session."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

from notifier.adapters.redis.connect import RedisClient, connect
from notifier.devkit.engines.engine_process import Engine
from tests.contracts.valkey_fixture import PATIENT
from tests.support.valkey_cluster_and_sentinel import nodes, slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Valkeys:
    """A cluster; replaces a single Valkey in contract tests."""

    engines: list[Engine]
    clients: list[RedisClient]
    """One client per node."""
    client: RedisClient
    """Client of the cluster."""
    url: str

    @property
    def patient_url(self) -> str:
        return self.url

    def everywhere(self, *command: str | int) -> list[object]:
        return [node.execute_command(*command) for node in self.clients]  # type: ignore[no-untyped-call] # redis-py's own

    def wipe(self) -> None:
        self.everywhere("FLUSHALL")


@contextmanager
def running(engines: list[Engine]) -> Iterator[None]:
    with ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.kill)
            engine.start()
        for engine in engines:
            engine.wait_until_ready()
        yield


@contextmanager
def cluster_in(folder: Path, url_options: str = "") -> Iterator[Valkeys]:
    password = secrets.token_hex(24)
    engines = [*nodes(folder, password=password)]
    with running(engines), ExitStack() as stack:
        clients = [
            stack.enter_context(connect(f"redis://:{password}@{engine.address}{url_options}")) for engine in engines
        ]
        # Only two nodes: the client finds the third in the cluster's map.
        url = f"redis+cluster://:{password}@{engines[1].address},{engines[0].address}{url_options}"
        client = stack.enter_context(connect(url))
        cluster = Valkeys(engines=engines, clients=clients, client=client, url=url)
        _join(cluster)
        yield cluster


def _join(valkeys: Valkeys) -> None:
    for number, client in enumerate(valkeys.clients):
        client.execute_command("CLUSTER ADDSLOTSRANGE", *slots(number))  # type: ignore[no-untyped-call] # redis-py's own
    first = valkeys.clients[0]
    for engine, client in zip(valkeys.engines[1:], valkeys.clients[1:], strict=True):
        bus = client.config_get("cluster-port")["cluster-port"]
        first.execute_command("CLUSTER MEET", engine.host, engine.port, bus)  # type: ignore[no-untyped-call] # as above
    deadline = monotonic() + 30
    while not all("'cluster_state': 'ok'" in str(info) for info in valkeys.everywhere("CLUSTER INFO")):
        assert monotonic() < deadline, valkeys.everywhere("CLUSTER INFO")
        sleep(0.05)


@pytest.fixture(scope="session")
def valkeys_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkeys]:
    with cluster_in(tmp_path_factory.mktemp("valkeys"), PATIENT) as cluster:
        yield cluster


@pytest.fixture
def valkeys(valkeys_servers: Valkeys) -> Valkeys:
    """Return the cluster with all data deleted."""
    valkeys_servers.wipe()
    return valkeys_servers
