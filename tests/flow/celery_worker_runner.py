"""Starts a Celery worker process, enqueues slices and reads what it handled."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from notifier.adapters.celery.queue import CeleryQueue
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import Pool, Slice, Step
from notifier.domain.errors import QueueUnavailable
from notifier.domain.ids import BurstKey

ROOT = Path(__file__).parents[2]
GATE_SUFFIX = ".open"
"""Suffix of a file; a gated worker finishes no slice before it exists."""


@dataclass(frozen=True, slots=True)
class Host:
    """A worker, the file that it writes, and the queue that feeds it."""

    brokers: Mapping[Pool, str]
    queue: CeleryQueue
    file: Path
    pool: Pool = Pool.P1

    def arguments(self, kind: str) -> list[str]:
        return ["-m", "tests.flow.recording_celery_worker", self.brokers[self.pool], self.pool, str(self.file), kind]

    @contextmanager
    def working(self, kind: str = "quick") -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker until the block ends, even if the block fails."""
        with self.file.with_suffix(".log").open("ab") as out:
            process = subprocess.Popen([sys.executable, *self.arguments(kind)], cwd=ROOT, stdout=out, stderr=out)
        with process:
            try:
                yield process
            finally:
                process.kill()

    def handled(self) -> list[str]:
        """Return the lines of its file without their times."""
        return [line.rsplit(" ", 1)[0] for line in self.file.read_text(encoding="utf-8").splitlines()]

    def last_heartbeat(self) -> int:
        """Return the time of its last heartbeat in nanoseconds, or 0."""
        beat = self.file.with_suffix(".beat")
        return beat.stat().st_mtime_ns if beat.exists() else 0

    def wait_for_heartbeats(self) -> None:
        """Wait for two more heartbeats."""
        for _ in range(2):
            last = self.last_heartbeat()
            wait_until(lambda last=last: self.last_heartbeat() > last, 15)  # type: ignore[misc]  # bound per round

    def wait_for(self, *lines: str, within: float = 20) -> None:
        wait_until(lambda: all(line in self.handled() for line in lines), within, self.handled)


@contextmanager
def celery_host(brokers: Mapping[Pool, str], folder: Path, pool: Pool = Pool.P1) -> Iterator[Host]:
    queue = CeleryQueue(brokers)
    file = folder / "handled.txt"
    file.touch()
    try:
        yield Host(brokers, queue, file, pool)
    finally:
        queue.close()


def wait_until(condition: Callable[[], bool], within: float, describe: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.02)


def make_slice(seq: int, step: Step = Step.ROWS, tier: Tier = Tier.P1) -> Slice:
    return Slice(BurstKey.parse(f"mention:nova#{seq}"), step, tier, 0, 63)


def require_p0_first(host: Host) -> None:
    """Check that a gated worker of the FCM pool takes P0 slices next, although they were queued last."""
    p1_slices = [make_slice(seq, Step.FCM) for seq in range(1, 5)]
    p0_slices = [make_slice(seq, Step.FCM, Tier.P0) for seq in range(5, 9)]
    host.queue.enqueue(p1_slices)
    host.wait_for(str(p1_slices[0]))
    host.queue.enqueue(p0_slices)
    host.file.with_suffix(GATE_SUFFIX).touch()
    host.wait_for(str(p1_slices[-1]), within=30)
    assert host.handled() == ["ready", *(str(slice_) for slice_ in (p1_slices[0], *p0_slices, *p1_slices[1:]))], (
        host.handled()
    )


def enqueue(host: Host, slice_: Slice) -> None:
    errors = [""]

    def accepted() -> bool:
        try:
            host.queue.enqueue([slice_])
        except QueueUnavailable as error:
            errors.append(str(error))
            return False
        return True

    wait_until(accepted, 30, lambda: dict.fromkeys(errors))
