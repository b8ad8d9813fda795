"""A worker process that writes its slices to a file (arguments: broker, pool, file, kind)."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy

from notifier.adapters.celery.app import celery_app
from notifier.cli.supervisor.heartbeat import HeartbeatSender
from notifier.domain.delivery.slice_and_pool import Done, Pool, Slice, SliceResult
from notifier.domain.errors import StoreUnavailable
from tests.flow.celery_worker_runner import GATE_SUFFIX
from workers.celery_worker import run
from workers.gc_and_watchdogs import MAX_SILENCE, end_with_parent

assert numpy

FAILING_SEQ = 404
"""Sequence number of the burst whose slices always fail."""

WATCHED_SILENCE_SECONDS = 3.0
"""Seconds without a heartbeat after which a watched worker exits."""


def handler(file: Path, kind: str, stopping: Callable[[], bool]) -> Callable[[Slice], SliceResult]:
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(line: str) -> None:
        os.write(out, f"{line} {time.time():.6f}\n".encode())

    def handle(slice_: Slice) -> SliceResult:
        write(f"{slice_}")
        if slice_.burst.seq == FAILING_SEQ:
            raise StoreUnavailable("for a test")
        if kind == "slow to stop":
            while not stopping():
                time.sleep(0.05)
            time.sleep(1.0)
            write("finished")
        if kind == "until stopped":
            while not stopping():
                time.sleep(0.05)
            write("stopped")
        while kind == "gated" and not file.with_suffix(GATE_SUFFIX).exists():
            time.sleep(0.02)
        if kind in {"stuck", "watched"}:
            threading.Event().wait()
        return Done(people=0, row_count=0)

    write("ready")
    return handle


def main() -> None:
    url, pool, file, kind = sys.argv[1:]
    end_with_parent(os.getppid())
    beat = HeartbeatSender(file=Path(file).with_suffix(".beat"))
    run(
        Pool(pool),
        lambda _, stopping: handler(Path(file), kind, stopping),
        celery_app(url, Pool(pool)),
        beat=beat,
        max_silence=WATCHED_SILENCE_SECONDS if kind == "watched" else MAX_SILENCE,
    )


if __name__ == "__main__":
    main()
