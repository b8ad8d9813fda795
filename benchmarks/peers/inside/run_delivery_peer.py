"""Runs a peer's process: reads deliveries as JSON lines, writes seconds and rows reached.

`python run_delivery_peer.py FILE:NAME SOCKET`: NAME in FILE creates the peer. It ends with its input.
"""

import json
import sys
from array import array
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Protocol, TextIO


class DeliveryPeer(Protocol):
    def deliver(self, people: Sequence[int], burst: int) -> None:
        """Deliver the burst, and return when all have it."""

    def reached(self, people: Sequence[int]) -> int:
        """Return how many of them hold exactly one row."""

    def close(self) -> None: ...


def main(place: str, socket: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not corrupt a result
    file, _, name = place.partition(":")
    with closing(getattr(import_module(file), name)(socket)) as peer:
        say(answers, {"ready": True})
        for line in sys.stdin:
            asked = json.loads(line)
            people = array("q", Path(asked["people"]).read_bytes()).tolist()
            say(answers, measured(peer, people, asked["burst"]))


def measured(peer: DeliveryPeer, people: Sequence[int], burst: int) -> dict[str, float]:
    began = perf_counter()
    peer.deliver(people, burst)
    return {"seconds": perf_counter() - began, "reached": peer.reached(people)}


def say(answers: TextIO, answer: dict[str, float]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
