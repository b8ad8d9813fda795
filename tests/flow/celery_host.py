"""A Celery host as a process of a test: started, given work, and asked what it has done."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from notifier.adapters.celery.queue import CeleryQueue
from notifier.domain.audience import Tier
from notifier.domain.errors import QueueUnavailable
from notifier.domain.slice import Pool, Slice, Step
from notifier.domain.subject import BurstKey

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Host:
    """A worker of P1, what it wrote down, and the way to give it work."""

    brokers: Mapping[Pool, str]
    queue: CeleryQueue
    file: Path

    def arguments(self, kind: str) -> list[str]:
        return ["-m", "tests.flow.celery_worker", self.brokers[Pool.P1], "p1", str(self.file), kind]

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
def hosting(brokers: Mapping[Pool, str], folder: Path) -> Iterator[Host]:
    queue = CeleryQueue(brokers)
    file = folder / "handled.txt"
    file.touch()
    try:
        yield Host(brokers, queue, file)
    finally:
        queue.close()


def until(true: Callable[[], bool], within: float, say: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, say()
        time.sleep(0.02)


def piece(seq: int) -> Slice:
    return Slice(BurstKey.parse(f"mention:nova#{seq}"), Step.ROWS, Tier.P1, 0, 63)


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
