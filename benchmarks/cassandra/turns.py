"""Turns of writers on one node: what each took, by the clock and by the node's own processor time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from benchmarks.cassandra.node import Node
from benchmarks.rounds import Figure, Spread
from notifier.devkit.check.finding import Finding, at_least
from notifier.domain.audience.inbox_rows import InboxRows

WARMING = 2
"""Rounds that aren't counted: a cold machine of the node's language takes twice as long."""


class Writer(Protocol):
    def ready(self, rows: Sequence[InboxRows]) -> Callable[[], object]:
        """All that may be done before the clock starts; what is returned does the rest."""
        ...


Rounds = Callable[[int], Sequence[InboxRows]]
"""The rows of a turn, by its number: no two turns write the same ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    rows: int
    deliveries: int
    seconds: float
    processor: float
    """Seconds of the node."""

    @property
    def rate(self) -> float:
        """Deliveries a second: a row of ours stands for many, and one of the driver's own for one."""
        return self.deliveries / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of the node for a row; the system tells its time in hundredths of a second."""
        return max(self.processor, 0.005) / self.rows * 1e6


def turns(node: Node, sides: Mapping[str, tuple[Writer, Rounds]], rounds: int) -> Mapping[str, Sequence[Turn]]:
    """Each writer once in a round, and each as often the first as the others."""
    found: dict[str, list[Turn]] = {name: [] for name in sides}
    names = [*sides]
    for number in range(rounds + WARMING):
        for place in range(len(names)):
            at = (number + place) % len(names)
            writer, rows = sides[names[at]]
            turn = _turn(node, writer, rows(number * len(names) + at))
            if number >= WARMING:
                found[names[at]].append(turn)
    return found


def _turn(node: Node, writer: Writer, rows: Sequence[InboxRows]) -> Turn:
    work = writer.ready(rows)
    node.settle()
    busy, began = node.processor(), time.perf_counter()
    work()
    seconds, processor = time.perf_counter() - began, node.processor() - busy
    written, people = sum(one.written for one in rows), sum(one.deliveries for one in rows)
    return Turn(rows=written, deliveries=people, seconds=seconds, processor=processor)


def faster(name: str, mine: Sequence[Turn], theirs: Sequence[Turn], limit: float) -> Figure:
    """Return our deliveries in a second divided by the others': the median of the rounds' own ratios."""
    ours, others = [one.rate for one in mine], [one.rate for one in theirs]
    ratios = [a / b for a, b in zip(ours, others, strict=True)]
    words = f"{median(ours):,.0f} deliveries/s against {median(others):,.0f}"
    judged = _judged(name, ratios, limit, words)
    return Figure(finding=judged, ours=Spread.of(ours, "deliveries/s"), baseline=Spread.of(others, "deliveries/s"))


def cheaper(name: str, mine: Sequence[Turn], theirs: Sequence[Turn], limit: float) -> Figure:
    """How much of the node's time for one of our rows theirs takes: the median of the rounds' own ratios."""
    ours, others = [one.cost for one in mine], [one.cost for one in theirs]
    ratios = [b / a for a, b in zip(ours, others, strict=True)]
    words = f"{median(ours):.2f} us of the node a row against {median(others):.2f}"
    judged = _judged(name, ratios, limit, words)
    return Figure(finding=judged, ours=Spread.of(ours, "us"), baseline=Spread.of(others, "us"))


def _judged(name: str, ratios: Sequence[float], limit: float, words: str) -> Finding:
    detail = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds; {words}"
    return at_least(name, median(ratios), limit, unit="ratio", n=len(ratios), detail=detail)
