"""A worker whose broker holds garbage keeps running and handles every later task."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from notifier.adapters.celery.app import queue_names
from notifier.adapters.celery.garbage_deleting_transport import ExpectedKeyTypes
from notifier.adapters.valkey.server import ValkeyServer
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.profiles.redis_urls_and_task_queue import redis_broker_urls
from tests.contracts.redis_garbage import STRINGS, replacements
from tests.flow.celery_worker_runner import GATE_SUFFIX, Host, celery_host, enqueue, make_slice, wait_until

SEQS = iter(range(1, 10_000))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("run"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def host(server: ValkeyServer, tmp_path: Path) -> Iterator[Host]:
    with celery_host(redis_broker_urls(server.url()), tmp_path) as host:
        yield host


@pytest.fixture
def database(host: Host) -> Iterator[Any]:
    with Redis.from_url(host.brokers[host.pool]) as client:
        client.flushdb()
        yield client


def require_next_handled(host: Host, context: object) -> None:
    task = make_slice(next(SEQS))
    enqueue(host, task)
    wait_until(lambda: str(task) in host.handled(), 20, lambda: context)


@pytest.mark.timeout(120)
def test_worker_survives_garbage_in_every_key(host: Host, database: Any) -> None:
    with host.working() as process:
        require_next_handled(host, "no garbage yet")
        for key in ExpectedKeyTypes.for_queues(queue_names(host.pool), None).type_by_key:
            for kind, garble in replacements(database, key):
                garble()
                require_next_handled(host, (key, kind))
        assert process.poll() is None


@pytest.mark.timeout(120)
def test_worker_survives_garbage_while_it_holds_a_task(host: Host, database: Any) -> None:
    with host.working("gated") as process:
        held = make_slice(next(SEQS))
        host.queue.enqueue([held])
        host.wait_for(str(held))
        keys = {key.decode() for key in database.scan_iter()}
        assert keys
        assert keys <= ExpectedKeyTypes.for_queues(queue_names(host.pool), None).type_by_key.keys()
        for key in keys:
            dict(replacements(database, key))["stream"]()
        host.file.with_suffix(GATE_SUFFIX).touch()
        require_next_handled(host, keys)
        assert process.poll() is None


@pytest.mark.timeout(120)
def test_worker_skips_invalid_tasks(host: Host, database: Any) -> None:
    [queue] = queue_names(Pool.P1)
    host.queue.enqueue([make_slice(next(SEQS))])
    good = json.loads(database.rpop(queue))
    with host.working() as process:
        for garbage in [*STRINGS.values(), *damaged(good)]:
            database.lpush(queue, garbage)
            require_next_handled(host, garbage)
        assert process.poll() is None
    assert not [line for line in host.handled() if "garbage" in line]


def damaged(task: dict[str, Any]) -> Iterator[bytes]:
    """Yield copies of the task with one part replaced."""
    for name in task:
        for value in VALUES:
            yield json.dumps({**task, name: value}).encode()
    for part in ("headers", "properties"):
        for name in set(task[part]) - UNREAD:
            yield json.dumps({**task, part: {**task[part], name: ["garbage"]}}).encode()
    yield from (b"[" * 100_000, b"{}", b'"garbage"', b"\xfe\xff\x00{")


VALUES: tuple[object, ...] = (None, 5, "garbage", [], {})
UNREAD = frozenset({"argsrepr", "kwargsrepr", "origin", "shadow", "root_id", "parent_id", "correlation_id", "reply_to"})
"""Parts of a task that Celery sends for people and other workers; ours ignore them."""
