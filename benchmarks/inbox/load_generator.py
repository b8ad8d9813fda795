"""Runs the load generator: reads jobs as JSON lines and answers each with a line.

`python -m benchmarks.inbox.load_generator`. A job names a file of requests and a port on this machine. The process
ends with its input.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from selectors import DefaultSelector, SelectSelector
from time import process_time
from typing import Any

from benchmarks.inbox.figures import percentiles
from benchmarks.inbox.http_requests_and_load_loops import (
    Answer,
    LoadLoop,
    Request,
    Tally,
    closed_loop,
    due_times,
    open_loop,
    read_requests,
)

HOST = "127.0.0.1"
UNBOUNDED_SECONDS = 600.0
"""Seconds of a closed loop that ends with its requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    port: int
    requests: str
    """File of the requests. They are sent in turn, beginning with `first`, and repeat after the last."""
    connections: int
    first: int = 0
    seconds: float = UNBOUNDED_SECONDS
    count: int | None = None
    """Maximum number of requests in a closed loop."""
    rate: float | None = None
    """Requests per second of an open loop. None means a closed loop."""
    seed: int = 1
    answers: str | None = None
    """File for the responses, one per line."""


@dataclass(frozen=True, slots=True)
class RequestFiles:
    """Files of requests, each read once."""

    known: dict[str, list[bytes]] = field(default_factory=dict)

    def turns(self, job: Job) -> Iterator[Request]:
        if job.requests not in self.known:
            self.known[job.requests] = read_requests(Path(job.requests))
        requests = [Request(number, data) for number, data in enumerate(self.known[job.requests])]
        return islice(cycle(requests), job.first % len(requests), None)


def main() -> None:
    files = RequestFiles()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(done(Job(**json.loads(line)), files)), flush=True)


def done(job: Job, files: RequestFiles) -> dict[str, Any]:
    """Run the load. Return the fields of a LoadReading."""
    turns, kept = files.turns(job), list[str]()
    tally = Tally(keep=None if job.answers is None else lambda number, answer: kept.append(_line(number, answer)))
    busy = process_time()
    took = _run(job, turns, tally)
    busy = process_time() - busy
    if job.answers is not None:
        Path(job.answers).write_text("\n".join(kept))
    opens = sum(tally.statuses.values())
    return {
        "opens": opens,
        "seconds": took,
        "latency": percentiles(tally.latencies),
        "statuses": dict(tally.statuses),
        "body": tally.bytes / max(1, opens),
        "busy": busy / took,
        "failed": tally.failed,
    }


def _run(job: Job, turns: Iterator[Request], tally: Tally) -> float:
    if job.rate is None:
        turns = turns if job.count is None else islice(turns, job.count)
        with LoadLoop(host=HOST, port=job.port, tally=tally, waiting=DefaultSelector()) as loop:
            return closed_loop(loop, turns, connections=job.connections, seconds=job.seconds)
    # `epoll` waits for whole milliseconds, which would add to every latency.
    with LoadLoop(host=HOST, port=job.port, tally=tally, waiting=SelectSelector()) as loop:
        due = due_times(job.rate, job.seconds, job.seed)
        return open_loop(loop, turns, connections=job.connections, due=due)


def _line(number: int, answer: Answer) -> str:
    return json.dumps([number, answer.status, answer.head.decode("latin-1"), answer.body.decode()])


if __name__ == "__main__":
    main()
