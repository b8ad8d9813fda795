"""Pure arithmetic of a load: when requests are due, percentiles of latencies, and ratios of the same round."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Result of one load."""

    opens: int
    """Complete answers."""
    seconds: float
    latency: Mapping[str, float]
    """In seconds, by percentile; counted from the intended moment of sending when the load is open."""
    statuses: Mapping[int, int]
    body: float
    """Mean size of a body in bytes."""
    busy: float
    """Share of one core that the load generator took."""
    failed: int = 0
    """Broken connections, and requests without an answer when the load was given up."""
    other: Mapping[str, float] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        return self.opens / self.seconds


def due_times(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Arrival times of independent users at `rate` per second: exponential gaps, the same for the same seed."""
    dice, at = random.Random(seed), 0.0
    while (at := at + dice.expovariate(rate)) < seconds:
        yield at


def percentiles(latencies: Sequence[float]) -> Mapping[str, float]:
    """The smallest latency that the share of requests doesn't exceed; infinity without any request."""
    ordered = sorted(latencies)
    return {name: _at(ordered, share) for name, share in PERCENTILES.items()}


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Rate by rate of the same round. Raises ValueError when the rounds differ in number."""
    return [mine / its for mine, its in zip(ours, theirs, strict=True)]


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return median(ratios(ours, theirs))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")
