"""A worker process for tests: its handler writes down what it was given. Arguments: broker, pool, file, and a kind."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import pyroaring

from notifier.adapters.celery.application import application, on_redis
from notifier.cli.beats import Beat
from notifier.domain.errors import StoreUnavailable
from notifier.domain.outcome import Done, Outcome
from notifier.domain.slice import Pool, Slice
from workers.host import run
from workers.parent import end_with

assert numpy
assert pyroaring

FAILS = 404
"""The number of the burst that no handler can handle."""


def handler(file: Path, kind: str) -> Callable[[Slice], Outcome]:
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(word: str) -> None:
        os.write(out, f"{word} {time.time():.6f}\n".encode())

    def handle(piece: Slice) -> Outcome:
        write(f"{piece}")
        if piece.burst.seq == FAILS:
            raise StoreUnavailable("for a test")
        if kind == "slow":
            time.sleep(1.0)
            write("finished")
        if kind == "stuck":
            threading.Event().wait()
        return Done(people=0, rows=0)

    write("ready")
    return handle


def main() -> None:
    url, pool, file, kind = sys.argv[1:]
    end_with(os.getppid())
    beat = Beat(file=Path(file).with_suffix(".beat"))
    run(Pool(pool), lambda: handler(Path(file), kind), application(on_redis(url)[Pool(pool)], Pool(pool)), beat=beat)


if __name__ == "__main__":
    main()
