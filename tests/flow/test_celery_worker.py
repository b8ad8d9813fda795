"""The Celery worker process: order, graceful stop, broker failures and parent exit."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from notifier.adapters.valkey.server import ValkeyServer
from notifier.devkit.engines.engine_process import suspend
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import QueueUnavailable
from notifier.profiles.redis_urls_and_task_queue import redis_broker_urls
from tests.flow.celery_worker_runner import ROOT, Host, celery_host, enqueue, make_slice, require_p0_first, wait_until
from tests.flow.recording_celery_worker import FAILING_SEQ
from workers.gc_and_watchdogs import EXIT_CODE

START_AND_WAIT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, *sys.argv[1:]]).pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path / "run")
    server.start()
    yield server
    server.close()


@pytest.fixture
def host(server: ValkeyServer, tmp_path: Path) -> Iterator[Host]:
    with celery_host(redis_broker_urls(server.url()), tmp_path) as host:
        yield host


@pytest.mark.timeout(90)
def test_host_works_in_order_and_survives_broker_failures(host: Host, server: ValkeyServer) -> None:
    """One worker for all checks: starting it takes most of the time."""
    with host.working() as process:
        require_queue_order(host)
        require_work_after_frozen_broker(host, server)
        require_work_after_emptied_broker(host, server)
        require_heartbeats_when_idle_and_without_broker(host, server)
        assert process.poll() is None
        process.terminate()
        process.wait(20)


def require_queue_order(host: Host) -> None:
    slices = [make_slice(seq) for seq in range(1, 21)]
    host.queue.enqueue(slices)
    host.wait_for(str(slices[-1]))
    assert host.handled() == ["ready", *map(str, slices)]
    assert host.queue.depth(Pool.P1) == 0


def require_work_after_frozen_broker(host: Host, server: ValkeyServer) -> None:
    assert server.pid is not None
    suspend(server.pid)
    with pytest.raises(QueueUnavailable):
        host.queue.enqueue([make_slice(30)])
    os.kill(server.pid, signal.SIGCONT)
    enqueue(host, make_slice(31))
    host.wait_for(str(make_slice(31)))


def require_work_after_emptied_broker(host: Host, server: ValkeyServer) -> None:
    for seq in (41, 42):
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: server.pid != pid and server.is_alive(), 10)  # type: ignore[misc]  # bound per round
        enqueue(host, make_slice(seq))
        host.wait_for(str(make_slice(seq)))


def require_heartbeats_when_idle_and_without_broker(host: Host, server: ValkeyServer) -> None:
    host.wait_for_heartbeats()
    server.close()
    host.wait_for_heartbeats()
    host.wait_for_heartbeats()


def test_host_survives_a_failure_and_stops_after_its_current_slice(host: Host) -> None:
    with host.working("slow to stop") as process:
        host.queue.enqueue([make_slice(FAILING_SEQ), make_slice(1), make_slice(2), make_slice(3)])
        host.wait_for(str(make_slice(1)))
        process.terminate()
        assert process.wait(20) == 0
    assert host.handled() == ["ready", str(make_slice(FAILING_SEQ)), str(make_slice(1)), "finished"]
    # The broker keeps no failed task: the ledger queues it again.
    assert host.queue.depth(Pool.P1) == 2


def test_p0_alerts_overtake_queued_p1_alerts(server: ValkeyServer, tmp_path: Path) -> None:
    with celery_host(redis_broker_urls(server.url()), tmp_path, Pool.FCM) as host, host.working("gated"):
        host.wait_for("ready")
        require_p0_first(host)


def test_host_waits_for_its_broker_and_exits_with_its_parent(host: Host, server: ValkeyServer) -> None:
    assert server.pid is not None
    suspend(server.pid)
    command = [sys.executable, "-c", START_AND_WAIT, *host.arguments("quick")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        host.wait_for("ready")
        os.kill(server.pid, signal.SIGCONT)
        enqueue(host, make_slice(1))
        host.wait_for(str(make_slice(1)))
        parent.kill()
    wait_until(lambda: not psutil.pid_exists(pid), 15)


def test_host_has_no_heartbeat_while_a_handler_is_stuck(host: Host) -> None:
    with host.working("stuck"):
        host.wait_for_heartbeats()
        host.queue.enqueue([make_slice(1)])
        host.wait_for(str(make_slice(1)))
        last = host.last_heartbeat()
        with pytest.raises(AssertionError):
            wait_until(lambda: host.last_heartbeat() > last, 3)


def test_handler_may_hand_back_its_slice_when_asked_to_stop(host: Host) -> None:
    with host.working("until stopped") as process:
        host.queue.enqueue([make_slice(1)])
        host.wait_for(str(make_slice(1)))
        process.terminate()
        assert process.wait(20) == 0
    assert host.handled()[-1] == "stopped"


@pytest.mark.thorough
def test_hung_worker_exits_without_a_supervisor(host: Host) -> None:
    with host.working("watched") as process:
        host.wait_for_heartbeats()
        host.queue.enqueue([make_slice(1)])
        host.wait_for(str(make_slice(1)))
        assert process.wait(20) == EXIT_CODE
