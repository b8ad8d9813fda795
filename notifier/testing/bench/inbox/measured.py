"""Arithmetic of a load without any I/O: when requests are due, percentiles of latencies, ratios of the same round."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Result of one load."""

    opens: int
    """Complete answers, whatever their status."""
    seconds: float
    latency: Mapping[str, float]
    """Seconds by percentile. In an open loop they count from the moment at which the request was due."""
    statuses: Mapping[int, int]
    body: float
    """Mean bytes of a body."""
    busy: float
    """Share of one core that the load generator used."""
    failed: int
    """Broken connections, and requests without an answer when the load was given up."""

    @property
    def per_s(self) -> float:
        return self.opens / self.seconds

    def unexpected(self, status: int) -> int:
        """Count the requests that were not answered with this status."""
        return self.failed + sum(count for found, count in self.statuses.items() if found != status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One load on one server, with what the server spent on it."""

    reading: Reading
    processor_s: float
    """Processor seconds of the server's process."""
    counters: Mapping[str, float]
    """Growth of the product's counters by name; without those that the product doesn't have."""

    @property
    def per_s(self) -> float:
        return self.reading.per_s

    @property
    def cpu_us(self) -> float:
        """Microseconds of the server's processor time per answer."""
        return self.processor_s / max(1, self.reading.opens) * 1e6

    def per_open(self, counter: str) -> float | None:
        """Growth of a counter per answer; None while the product has no such counter."""
        grown = self.counters.get(counter)
        return None if grown is None else grown / max(1, self.reading.opens)


def due_times(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Yield arrival times of independent users at `rate` per second; the same seed yields the same times."""
    dice, at = random.Random(seed), 0.0
    while (at := at + dice.expovariate(rate)) < seconds:
        yield at


def percentiles(latencies: Sequence[float]) -> Mapping[str, float]:
    """Return the latency that the share of requests stays below or at; infinity where there was no request."""
    ordered = sorted(latencies)
    return {name: _at(ordered, share) for name, share in PERCENTILES.items()}


def ratios(ours: Sequence[Slice], theirs: Sequence[Slice]) -> list[float]:
    """Return our rate over theirs for each round. Raises ValueError when a round lacks its other side."""
    if not all(its.reading.opens for its in theirs):
        raise ValueError("There is no answer to compare with in some round.")
    return [mine.per_s / its.per_s for mine, its in zip(ours, theirs, strict=True)]


def cpu_ratio(ours: Sequence[Slice], theirs: Sequence[Slice]) -> float:
    """Return the median of their processor time per answer over ours: above 1 ours is cheaper."""
    pairs = zip(ours, theirs, strict=True)
    return median(its.cpu_us / mine.cpu_us if mine.cpu_us else 0.0 for mine, its in pairs)


def growth(samples: Sequence[float]) -> float:
    """Return by how much the last third of the samples differs, from its least to its most."""
    last = samples[-max(1, len(samples) // 3) :]
    return max(last) - min(last)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")
