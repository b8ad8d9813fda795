"""The Celery host as a process of its own: it works, stops politely, and outlives its broker but not its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from notifier.adapters.celery.application import on_redis
from notifier.adapters.celery.queue import CeleryQueue
from notifier.adapters.valkey.server import ValkeyServer
from notifier.domain.audience import Tier
from notifier.domain.errors import QueueUnavailable
from notifier.domain.slice import Pool, Slice, Step
from notifier.domain.subject import BurstKey
from tests.flow.celery_worker import FAILS

ROOT = Path(__file__).parents[2]

START_AND_WAIT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, *sys.argv[1:]]).pid, flush=True)
time.sleep(60)
"""


@dataclass(frozen=True, slots=True)
class Host:
    """A worker of P1, what it wrote down, and the way to give it work."""

    server: ValkeyServer
    queue: CeleryQueue
    file: Path

    def arguments(self, kind: str) -> list[str]:
        return ["-m", "tests.flow.celery_worker", self.server.url(), "p1", str(self.file), kind]

    @contextmanager
    def working(self, kind: str = "quick") -> Iterator[subprocess.Popen[bytes]]:
        """Ends with the block, whatever the block found."""
        with self.file.with_suffix(".log").open("ab") as out:
            process = subprocess.Popen([sys.executable, *self.arguments(kind)], cwd=ROOT, stdout=out, stderr=out)
        with process:
            try:
                yield process
            finally:
                process.kill()

    def wrote(self) -> list[str]:
        return [line.rsplit(" ", 1)[0] for line in self.file.read_text(encoding="utf-8").splitlines()]

    def beaten(self) -> int:
        """When it last gave a sign of life."""
        beat = self.file.with_suffix(".beat")
        return beat.stat().st_mtime_ns if beat.exists() else 0

    def beats(self) -> None:
        """Returns once it has given two more."""
        for _ in range(2):
            last = self.beaten()
            until(lambda last=last: self.beaten() > last, 15)  # type: ignore[misc]  # bound per round

    def wait_for(self, *words: str, within: float = 20) -> None:
        until(lambda: all(word in self.wrote() for word in words), within, self.wrote)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    server = ValkeyServer(tmp_path / "run")
    server.start()
    queue = CeleryQueue(on_redis(server.url()))
    file = tmp_path / "handled.txt"
    file.touch()
    yield Host(server, queue, file)
    queue.close()
    server.close()


def until(true: Callable[[], bool], within: float, say: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, say()
        time.sleep(0.02)


def piece(seq: int) -> Slice:
    return Slice(BurstKey.parse(f"mention:nova#{seq}"), Step.ROWS, Tier.P1, 0, 63)


@pytest.mark.timeout(90)
def test_it_works_in_order_and_goes_on_whatever_its_broker_does(host: Host) -> None:
    """One worker for all of it: most of its time would be its start."""
    with host.working() as process:
        handles_in_order_what_is_queued(host)
        goes_on_when_the_broker_was_frozen(host)
        goes_on_when_the_broker_comes_back_empty(host)
        beats_while_it_is_idle_and_while_its_broker_is_away(host)
        assert process.poll() is None
        process.terminate()
        process.wait(20)


def handles_in_order_what_is_queued(host: Host) -> None:
    pieces = [piece(seq) for seq in range(1, 21)]
    host.queue.enqueue(pieces)
    host.wait_for(str(pieces[-1]))
    assert host.wrote() == ["ready", *map(str, pieces)]
    assert host.queue.depth(Pool.P1) == 0


def goes_on_when_the_broker_was_frozen(host: Host) -> None:
    assert host.server.pid is not None
    os.kill(host.server.pid, signal.SIGSTOP)
    with pytest.raises(QueueUnavailable):
        host.queue.enqueue([piece(30)])
    os.kill(host.server.pid, signal.SIGCONT)
    enqueue(host, piece(31))
    host.wait_for(str(piece(31)))


def goes_on_when_the_broker_comes_back_empty(host: Host) -> None:
    for round in (41, 42):
        pid = host.server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: host.server.pid != pid and host.server.alive(), 10)  # type: ignore[misc]  # bound per round
        enqueue(host, piece(round))
        host.wait_for(str(piece(round)))


def beats_while_it_is_idle_and_while_its_broker_is_away(host: Host) -> None:
    host.beats()
    host.server.close()
    host.beats()
    host.beats()


def test_a_failure_ends_nothing_and_asked_to_stop_it_finishes_its_slice_and_leaves_the_others(host: Host) -> None:
    with host.working("slow") as process:
        host.queue.enqueue([piece(FAILS), piece(1), piece(2), piece(3)])
        host.wait_for(str(piece(1)))
        process.terminate()
        assert process.wait(20) == 0
    assert host.wrote() == ["ready", str(piece(FAILS)), str(piece(1)), "finished"]
    # What failed isn't kept for a second try: the ledger queues it again.
    assert host.queue.depth(Pool.P1) == 2


def test_it_waits_for_a_broker_that_comes_later_and_ends_with_its_parent(host: Host) -> None:
    assert host.server.pid is not None
    os.kill(host.server.pid, signal.SIGSTOP)
    command = [sys.executable, "-c", START_AND_WAIT, *host.arguments("quick")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        host.wait_for("ready")
        os.kill(host.server.pid, signal.SIGCONT)
        enqueue(host, piece(1))
        host.wait_for(str(piece(1)))
        parent.kill()
    until(lambda: not psutil.pid_exists(pid), 15)


def test_it_does_not_beat_while_a_handler_is_stuck(host: Host) -> None:
    with host.working("stuck"):
        host.beats()
        host.queue.enqueue([piece(1)])
        host.wait_for(str(piece(1)))
        last = host.beaten()
        with pytest.raises(AssertionError):
            until(lambda: host.beaten() > last, 3)


def enqueue(host: Host, piece: Slice) -> None:
    """As the dispatcher does: again, until the queue takes it."""

    def taken() -> bool:
        try:
            host.queue.enqueue([piece])
        except QueueUnavailable:
            return False
        return True

    until(taken, 15)
