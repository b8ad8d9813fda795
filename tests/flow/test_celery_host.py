"""The Celery host as a process of its own: it works, stops politely, and outlives its broker but not its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from notifier.adapters.celery.app import on_redis
from notifier.adapters.valkey.server import ValkeyServer
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import QueueUnavailable
from tests.flow.celery_host import ROOT, Host, enqueue, hosting, make_slice, require_p0_first, until
from tests.flow.celery_worker import FAILS
from workers.watchdog import EXIT_CODE

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
    with hosting(on_redis(server.url()), tmp_path) as found:
        yield found


@pytest.mark.timeout(90)
def test_it_works_in_order_and_goes_on_whatever_its_broker_does(host: Host, server: ValkeyServer) -> None:
    """One worker for all of it: most of its time would be its start."""
    with host.working() as process:
        handles_in_order_what_is_queued(host)
        goes_on_when_the_broker_was_frozen(host, server)
        goes_on_when_the_broker_comes_back_empty(host, server)
        beats_while_it_is_idle_and_while_its_broker_is_away(host, server)
        assert process.poll() is None
        process.terminate()
        process.wait(20)


def handles_in_order_what_is_queued(host: Host) -> None:
    pieces = [make_slice(seq) for seq in range(1, 21)]
    host.queue.enqueue(pieces)
    host.wait_for(str(pieces[-1]))
    assert host.handled() == ["ready", *map(str, pieces)]
    assert host.queue.depth(Pool.P1) == 0


def goes_on_when_the_broker_was_frozen(host: Host, server: ValkeyServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(QueueUnavailable):
        host.queue.enqueue([make_slice(30)])
    os.kill(server.pid, signal.SIGCONT)
    enqueue(host, make_slice(31))
    host.wait_for(str(make_slice(31)))


def goes_on_when_the_broker_comes_back_empty(host: Host, server: ValkeyServer) -> None:
    for round in (41, 42):
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: server.pid != pid and server.alive(), 10)  # type: ignore[misc]  # bound per round
        enqueue(host, make_slice(round))
        host.wait_for(str(make_slice(round)))


def beats_while_it_is_idle_and_while_its_broker_is_away(host: Host, server: ValkeyServer) -> None:
    host.wait_for_heartbeats()
    server.close()
    host.wait_for_heartbeats()
    host.wait_for_heartbeats()


def test_a_failure_ends_nothing_and_asked_to_stop_it_finishes_its_slice_and_leaves_the_others(host: Host) -> None:
    with host.working("slow") as process:
        host.queue.enqueue([make_slice(FAILS), make_slice(1), make_slice(2), make_slice(3)])
        host.wait_for(str(make_slice(1)))
        process.terminate()
        assert process.wait(20) == 0
    assert host.handled() == ["ready", str(make_slice(FAILS)), str(make_slice(1)), "finished"]
    # What failed isn't kept for a second try: the ledger queues it again.
    assert host.queue.depth(Pool.P1) == 2


def test_phones_of_p0_pass_a_crowd_that_waits_and_none_of_it_is_held_ahead(
    server: ValkeyServer, tmp_path: Path
) -> None:
    with hosting(on_redis(server.url()), tmp_path, Pool.FCM) as host, host.working("gated"):
        host.wait_for("ready")
        require_p0_first(host)


def test_it_waits_for_a_broker_that_comes_later_and_ends_with_its_parent(host: Host, server: ValkeyServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    command = [sys.executable, "-c", START_AND_WAIT, *host.arguments("quick")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        host.wait_for("ready")
        os.kill(server.pid, signal.SIGCONT)
        enqueue(host, make_slice(1))
        host.wait_for(str(make_slice(1)))
        parent.kill()
    until(lambda: not psutil.pid_exists(pid), 15)


def test_it_does_not_beat_while_a_handler_is_stuck(host: Host) -> None:
    with host.working("stuck"):
        host.wait_for_heartbeats()
        host.queue.enqueue([make_slice(1)])
        host.wait_for(str(make_slice(1)))
        last = host.last_heartbeat()
        with pytest.raises(AssertionError):
            until(lambda: host.last_heartbeat() > last, 3)


def test_a_handler_that_is_told_to_end_may_hand_back_what_is_under_way(host: Host) -> None:
    with host.working("until told") as process:
        host.queue.enqueue([make_slice(1)])
        host.wait_for(str(make_slice(1)))
        process.terminate()
        assert process.wait(20) == 0
    assert host.handled()[-1] == "told"


def test_a_worker_that_hangs_in_a_slice_ends_even_where_nobody_watches_it(host: Host) -> None:
    with host.working("watched") as process:
        host.wait_for_heartbeats()
        host.queue.enqueue([make_slice(1)])
        host.wait_for(str(make_slice(1)))
        assert process.wait(20) == EXIT_CODE
