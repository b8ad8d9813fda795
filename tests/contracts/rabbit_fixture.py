"""A RabbitMQ server for contract tests: one per test session, emptied for each test."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from notifier.adapters.celery.app import celery_app, queue_names
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.domain.delivery.slice_and_pool import Pool
from tests.support.rabbitmq import USER, missing, names, server


@dataclass(frozen=True, slots=True)
class Rabbit:
    engine: Engine
    password: str

    @property
    def brokers(self) -> Mapping[Pool, str]:
        url = f"amqp://{USER}:{self.password}@{self.engine.address}//"
        return dict.fromkeys(Pool, url)

    def wipe(self) -> None:
        """Delete all queues, as if the broker had lost its disk."""
        for pool, url in self.brokers.items():
            with celery_app(url, pool).connection_for_write() as connection:
                for name in queue_names(pool):
                    connection.default_channel.queue_delete(name)


@contextmanager
def rabbit_in(folder: Path) -> Iterator[Rabbit]:
    """Run a RabbitMQ server with Erlang's port mapper, and stop both at the end. Skips if it is not installed."""
    if missing_package := missing():
        pytest.skip(f"RabbitMQ's tests need Debian's rabbitmq-server; not found: {missing_package}")
    mapper = names(folder / "names", port=free_port())
    mapper.start()
    try:
        mapper.wait_until_ready()
        password = secrets.token_hex(24)
        engine = server(
            folder / "rabbitmq", port=free_port(), distribution=free_port(), names=mapper.port, password=password
        )
        engine.start()
        try:
            engine.wait_until_ready()
            yield Rabbit(engine, password)
        finally:
            engine.kill()
    finally:
        mapper.kill()


@pytest.fixture(scope="session")
def rabbit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    with rabbit_in(tmp_path_factory.mktemp("rabbit")) as server:
        yield server


@pytest.fixture
def rabbit(rabbit_server: Rabbit) -> Rabbit:
    rabbit_server.wipe()
    return rabbit_server
