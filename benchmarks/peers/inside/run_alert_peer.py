"""Runs a peer that sends alerts: reads jobs as JSON lines, writes times and results.

`python run_alert_peer.py FILE:NAME ARGUMENTS`: NAME in FILE creates the peer from ARGUMENTS (JSON). It ends with its
input.
"""

import json
import sys
from contextlib import closing
from importlib import import_module
from time import perf_counter, process_time
from typing import Protocol


class AlertPeer(Protocol):
    def send(self, numbers: range, way: str) -> int:
        """Send to a device for each number, in one of its ways. Return how many were accepted."""

    def close(self) -> None: ...


def main(place: str, arguments: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not corrupt a result
    file, _, name = place.partition(":")
    with closing(getattr(import_module(file), name)(**json.loads(arguments))) as peer:
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(measured(peer, **json.loads(line))), file=answers, flush=True)


def measured(peer: AlertPeer, begin: int, many: int, way: str) -> dict[str, float]:
    began, busy = perf_counter(), process_time()
    accepted = peer.send(range(begin, begin + many), way)
    return {"accepted": accepted, "seconds": perf_counter() - began, "processor": process_time() - busy}


if __name__ == "__main__":
    main(*sys.argv[1:])
