"""Measures writers in turns on one node: wall time, and the node's CPU time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from benchmarks.cassandra.measured_node import BenchNode
from benchmarks.costs_and_figures import Figure, Spread
from notifier.devkit.check.finding_and_quantiles import Finding, at_least
from notifier.domain.audience.inbox_rows import InboxRows

WARM_UP_ROUNDS = 2
"""Rounds that are not counted: a JVM that has just started takes twice as long."""


class Writer(Protocol):
    def ready(self, rows: Sequence[InboxRows]) -> Callable[[], object]:
        """Do the preparation that may be done before measuring. The returned function does the rest."""
        ...


Rounds = Callable[[int], Sequence[InboxRows]]
"""The rows of a turn, by its number. No two turns write the same rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    rows: int
    deliveries: int
    seconds: float
    processor: float
    """Seconds of the node's CPU time."""

    @property
    def rate(self) -> float:
        """Deliveries per second: a row of ours stands for many deliveries, a row of the stock driver for one."""
        return self.deliveries / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of the node's CPU time per row. The system reports CPU time in hundredths of a second."""
        return max(self.processor, 0.005) / self.rows * 1e6


def turns(node: BenchNode, sides: Mapping[str, tuple[Writer, Rounds]], rounds: int) -> Mapping[str, Sequence[Turn]]:
    """Run each writer once per round. They go first in turns."""
    by_writer: dict[str, list[Turn]] = {name: [] for name in sides}
    names = [*sides]
    for number in range(rounds + WARM_UP_ROUNDS):
        for place in range(len(names)):
            at = (number + place) % len(names)
            writer, rows = sides[names[at]]
            turn = _turn(node, writer, rows(number * len(names) + at))
            if number >= WARM_UP_ROUNDS:
                by_writer[names[at]].append(turn)
    return by_writer


def _turn(node: BenchNode, writer: Writer, rows: Sequence[InboxRows]) -> Turn:
    work = writer.ready(rows)
    node.await_idle()
    busy, began = node.processor(), time.perf_counter()
    work()
    seconds, processor = time.perf_counter() - began, node.processor() - busy
    written, people = sum(group.row_count for group in rows), sum(group.delivery_count for group in rows)
    return Turn(rows=written, deliveries=people, seconds=seconds, processor=processor)


def faster(name: str, mine: Sequence[Turn], theirs: Sequence[Turn], limit: float) -> Figure:
    """Return our deliveries per second divided by the other side's: the median of the rounds' ratios."""
    our_rates, their_rates = [turn.rate for turn in mine], [turn.rate for turn in theirs]
    ratios = [a / b for a, b in zip(our_rates, their_rates, strict=True)]
    detail = f"{median(our_rates):,.0f} deliveries/s against {median(their_rates):,.0f}"
    judged = _judged(name, ratios, limit, detail)
    return Figure(
        finding=judged, ours=Spread.of(our_rates, "deliveries/s"), baseline=Spread.of(their_rates, "deliveries/s")
    )


def cheaper(name: str, mine: Sequence[Turn], theirs: Sequence[Turn], limit: float) -> Figure:
    """Return the other side's CPU time of the node per row divided by ours: the median of the rounds' ratios."""
    our_costs, their_costs = [turn.cost for turn in mine], [turn.cost for turn in theirs]
    ratios = [b / a for a, b in zip(our_costs, their_costs, strict=True)]
    detail = f"{median(our_costs):.2f} us of node CPU per row against {median(their_costs):.2f}"
    judged = _judged(name, ratios, limit, detail)
    return Figure(finding=judged, ours=Spread.of(our_costs, "us"), baseline=Spread.of(their_costs, "us"))


def _judged(name: str, ratios: Sequence[float], limit: float, summary: str) -> Finding:
    detail = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds; {summary}"
    return at_least(name, median(ratios), limit, unit="ratio", n=len(ratios), detail=detail)
