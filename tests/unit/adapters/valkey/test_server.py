"""Our own Valkey server: private, supervised, not persistent, and ended with its parent process."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from notifier.adapters.celery.queue import CeleryQueue
from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.recent_events_and_load_limits import RedisBackpressure, RedisRecentEvents
from notifier.adapters.valkey.server import ValkeyServer
from notifier.devkit.engines.engine_process import suspend
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.delivery.slice_and_pool import Pool, Slice, Step
from notifier.domain.errors import CacheUnavailable, NoValkey, QueueUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.profiles.redis_urls_and_task_queue import redis_broker_urls

NOVA = Subject(Kind.MENTION, UserId("nova"))

START_AND_PRINT_PID = """
import sys, time
from pathlib import Path
from notifier.adapters.valkey.server import ValkeyServer
server = ValkeyServer(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path / "run")
    server.start()
    yield server
    server.close()


def wait_until(condition: Callable[[], bool], timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_server_is_ready_when_start_returns(server: ValkeyServer) -> None:
    assert server.is_alive()
    with connect(server.url(15)) as client:
        assert client.ping()


def test_server_listens_on_loopback_and_requires_password(server: ValkeyServer) -> None:
    host, port = server.address
    listening = [c.laddr.ip for c in psutil.Process(server.pid).net_connections() if c.status == "LISTEN"]
    assert listening == [host] == ["127.0.0.1"]
    with connect(f"redis://{host}:{port}/0") as stranger, pytest.raises(CacheUnavailable):
        RedisBackpressure(stranger).level()


def test_password_is_not_readable_by_other_users(server: ValkeyServer, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "run" / "valkey.json").stat().st_mode) == 0o600
    password = server.url().split(":")[2].split("@")[0]
    assert password not in " ".join(psutil.Process(server.pid).cmdline())


def test_server_has_no_persistence(server: ValkeyServer) -> None:
    with connect(server.url()) as client:
        config = client.config_get("save", "appendonly", "maxmemory-policy", "databases")
    assert config == {"save": "", "appendonly": "no", "maxmemory-policy": "volatile-lru", "databases": "16"}


def test_remembered_ids_are_evicted_before_queues(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path / "small", megabytes=4)
    server.start()
    try:
        queue = CeleryQueue(redis_broker_urls(server.url()))
        with connect(server.url()) as client:
            recent = RedisRecentEvents(client)
            batches = [[EventId("tweets", f"{batch}-{number}") for number in range(500)] for batch in range(40)]
            for ids in batches:
                recent.remember(dict.fromkeys(ids, "0" * 32))
            waiting = [Slice(BurstKey(NOVA, seq), Step.ROWS, Tier.P0, 0, 0) for seq in range(20)]
            queue.enqueue(waiting)
            assert recent.content_hashes(batches[-1])
            assert sum(len(recent.content_hashes(ids)) for ids in batches) < sum(map(len, batches))
        assert queue.depth(Pool.P0) == len(waiting)
        queue.close()
    finally:
        server.close()


def test_killed_server_restarts_empty_at_the_same_address(server: ValkeyServer) -> None:
    url, pid = server.url(), server.pid
    assert pid is not None
    with connect(url) as client:
        pressure = RedisBackpressure(client)
        pressure.set_level(0.5, timedelta(minutes=1))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server.pid != pid and server.is_alive())
        assert server.url() == url
        assert pressure.level() == 0


def test_frozen_server_times_out_and_can_be_closed(server: ValkeyServer) -> None:
    queue = CeleryQueue(redis_broker_urls(server.url()))
    queue.depth(Pool.P0)
    with connect(server.url()) as client:
        pressure = RedisBackpressure(client)
        pressure.level()
        assert server.pid is not None
        suspend(server.pid)
        began = time.monotonic()
        with pytest.raises(CacheUnavailable):
            pressure.level()
        with pytest.raises(CacheUnavailable):
            pressure.level()
        cache_seconds = time.monotonic() - began
        with pytest.raises(QueueUnavailable):
            queue.depth(Pool.P0)
        with pytest.raises(QueueUnavailable):
            queue.depth(Pool.P0)
    assert not server.is_alive()
    assert cache_seconds < 5
    assert time.monotonic() - began < 20
    queue.close()


def test_close_removes_process_and_files(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    server.start()
    pid = server.pid
    assert pid is not None
    server.close()
    assert not psutil.pid_exists(pid)
    assert not (tmp_path / "valkey.json").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="on other systems the next start in the folder stops it")
def test_server_ends_with_its_killed_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START_AND_PRINT_PID, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
    wait_until(lambda: has_ended(pid))


def test_orphaned_server_is_stopped_by_next_start_in_its_folder(tmp_path: Path) -> None:
    first, second = ValkeyServer(tmp_path), ValkeyServer(tmp_path)
    first.start()
    pid = first.pid
    second.start()
    try:
        assert pid is not None
        wait_until(lambda: first.pid != pid)
        assert second.is_alive()
    finally:
        first.close()
        second.close()


def test_missing_binary_error_names_the_alternative(tmp_path: Path) -> None:
    def no_binary() -> Path:
        raise NoValkey("Unsupported.")

    with pytest.raises(NoValkey, match="NOTIFIER_REDIS_URL"):
        ValkeyServer(tmp_path, binary=no_binary).start()
