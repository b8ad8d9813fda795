"""A Celery host as a process of a test: started, given work, and asked what it has done."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from notifier.adapters.celery.queue import CeleryQueue
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.slice import Pool, Slice, Step
from notifier.domain.errors import QueueUnavailable
from notifier.domain.ids import BurstKey

ROOT = Path(__file__).parents[2]
GATE = ".open"
"""A gated worker ends no slice before there is a file of this kind."""


@dataclass(frozen=True, slots=True)
class Host:
    """A worker, what it wrote down, and the way to give it work."""

    brokers: Mapping[Pool, str]
    queue: CeleryQueue
    file: Path
    pool: Pool = Pool.P1

    def arguments(self, kind: str) -> list[str]:
        return ["-m", "tests.flow.celery_worker", self.brokers[self.pool], self.pool, str(self.file), kind]

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


@contextmanager
def hosting(brokers: Mapping[Pool, str], folder: Path, pool: Pool = Pool.P1) -> Iterator[Host]:
    queue = CeleryQueue(brokers)
    file = folder / "handled.txt"
    file.touch()
    try:
        yield Host(brokers, queue, file, pool)
    finally:
        queue.close()


def until(true: Callable[[], bool], within: float, say: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, say()
        time.sleep(0.02)


def piece(seq: int, step: Step = Step.ROWS, tier: Tier = Tier.P1) -> Slice:
    return Slice(BurstKey.parse(f"mention:nova#{seq}"), step, tier, 0, 63)


def passes_a_crowd(host: Host) -> None:
    """For a gated worker of Google's phones: what of P0 comes while it works is next, however much was there."""
    crowd = [piece(seq, Step.FCM) for seq in range(1, 5)]
    vips = [piece(seq, Step.FCM, Tier.P0) for seq in range(5, 9)]
    host.queue.enqueue(crowd)
    host.wait_for(str(crowd[0]))
    host.queue.enqueue(vips)
    host.file.with_suffix(GATE).touch()
    host.wait_for(str(crowd[-1]), within=30)
    assert host.wrote() == ["ready", *(str(one) for one in (crowd[0], *vips, *crowd[1:]))], host.wrote()


def enqueue(host: Host, piece: Slice) -> None:
    """As the dispatcher does: again, until the queue takes it."""
    why = [""]

    def taken() -> bool:
        try:
            host.queue.enqueue([piece])
        except QueueUnavailable as error:
            why.append(str(error))
            return False
        return True

    until(taken, 30, lambda: dict.fromkeys(why))
