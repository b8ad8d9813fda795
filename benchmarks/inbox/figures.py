"""Turns measurements into figures: ratios per round, CPU time, round trips, and wrong responses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.costs_and_figures import Figure, Spread, unjudged
from benchmarks.inbox.cases import Case
from notifier.devkit.check.finding_and_quantiles import Finding, at_least, at_most, no_errors

# Arithmetic of a load without any I/O: percentiles of latencies, ratios of the same round.

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReading:
    """Result of one load."""

    opens: int
    """Number of complete responses with any status."""
    seconds: float
    latency: Mapping[str, float]
    """Seconds by percentile. In an open loop they count from the time at which the request was due."""
    statuses: Mapping[int, int]
    body: float
    """Mean bytes per body."""
    busy: float
    """Share of one core that the load generator used."""
    failed: int
    """Broken connections, and requests without a response when the load was stopped."""

    @property
    def per_s(self) -> float:
        return self.opens / self.seconds

    def unexpected(self, status: int) -> int:
        """Count the requests that were not answered with this status."""
        return self.failed + sum(count for answered, count in self.statuses.items() if answered != status)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSlice:
    """One load on one server, with the server's resource use."""

    reading: LoadReading
    processor_s: float
    """CPU seconds of the server's process."""
    counters: Mapping[str, float]
    """Growth of the product's counters by name, without counters that the product doesn't have."""
    redis_s: float = 0.0
    """CPU seconds of the product's Redis."""

    @property
    def per_s(self) -> float:
        return self.reading.per_s

    @property
    def cpu_us(self) -> float:
        """Microseconds of the server's CPU time per response."""
        return self.processor_s / max(1, self.reading.opens) * 1e6

    @property
    def redis_us(self) -> float:
        """Microseconds of Redis's CPU time per response."""
        return self.redis_s / max(1, self.reading.opens) * 1e6

    def per_open(self, counter: str) -> float | None:
        """Growth of a counter per response, or None if the product has no such counter."""
        grown = self.counters.get(counter)
        return None if grown is None else grown / max(1, self.reading.opens)


def percentiles(latencies: Sequence[float]) -> Mapping[str, float]:
    """Return the latency of each percentile, or infinity without requests."""
    ordered = sorted(latencies)
    return {name: _at(ordered, share) for name, share in PERCENTILES.items()}


def ratios(ours: Sequence[LoadSlice], theirs: Sequence[LoadSlice]) -> list[float]:
    """Return our rate divided by the other side's, for each round.

    Raises ValueError if a round lacks the other side.
    """
    if not all(its.reading.opens for its in theirs):
        raise ValueError("a round has no response to compare with")
    return [mine.per_s / its.per_s for mine, its in zip(ours, theirs, strict=True)]


def cpu_ratio(ours: Sequence[LoadSlice], theirs: Sequence[LoadSlice]) -> float:
    """Return the median of the other side's CPU time per response divided by ours. Above 1 ours is cheaper."""
    pairs = zip(ours, theirs, strict=True)
    return median(its.cpu_us / mine.cpu_us if mine.cpu_us else 0.0 for mine, its in pairs)


def growth(samples: Sequence[float]) -> float:
    """Return the difference between the least and the greatest of the last third of the samples."""
    last = samples[-max(1, len(samples) // 3) :]
    return max(last) - min(last)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


RATE, CPU = "opens/s", "us"
CLIENT_BUSY = 0.8
"""Share of a core from which on the load generator itself may be the limit."""

Slices = Mapping[str, Sequence[LoadSlice]]
"""Measurements by case, one per round."""


def ratio(name: str, ours: Sequence[LoadSlice], theirs: Sequence[LoadSlice], limit: float | None) -> Figure:
    """Judge our rate divided by the other side's: the median of the rounds."""
    round_ratios = ratios(ours, theirs)
    mine, its = rates(ours), rates(theirs)
    detail = (
        f"{mine.median:,.0f} opens/s against {its.median:,.0f}; {min(round_ratios):.3f} to {max(round_ratios):.3f} in "
        f"{len(round_ratios)} rounds; {cpu_ratio(ours, theirs):.3f} by CPU time, {_cpu(ours):,.0f} us per open against "
        f"{_cpu(theirs):,.0f}; {latencies(ours)}; {_body(ours):,.0f} bytes against {_body(theirs):,.0f}"
    )
    finding = at_least(name, median(round_ratios), limit or 0.0, unit="ratio", n=len(round_ratios), detail=detail)
    return Figure(
        finding=finding if limit is not None else replace(finding, limit=None, ok=True), ours=mine, baseline=its
    )


def ratio_to_peer(name: str, ours: Sequence[LoadSlice], peer: Sequence[LoadSlice], limit: float) -> Figure:
    figure = ratio(name, ours, peer, limit)
    return replace(figure, baseline=None, peers=figure.baseline)


def redis_cpu(name: str, ours: Sequence[LoadSlice]) -> Figure:
    """Report microseconds of Redis's CPU time per open."""
    return unjudged(name, Spread.of([slice_.redis_us for slice_ in ours], CPU), len(ours), latencies(ours))


def cpu(name: str, ours: Sequence[LoadSlice], theirs: Sequence[LoadSlice] | None = None) -> Figure:
    """Report microseconds of the server's CPU time per open."""
    figure = unjudged(name, Spread.of([slice_.cpu_us for slice_ in ours], CPU), len(ours), latencies(ours))
    return replace(figure, baseline=Spread.of([slice_.cpu_us for slice_ in theirs], CPU) if theirs else None)


def calls(name: str, slices: Sequence[LoadSlice], counter: str, limit: float | None) -> Figure:
    """Judge round trips per open. They are not measured if the product doesn't count them."""
    per_open_values = [value for slice_ in slices if (value := slice_.per_open(counter)) is not None]
    if not per_open_values:
        detail = f"/metrics has no {counter}"
        return Figure(finding=Finding(name=name, ok=limit is None, value="-", limit=limit, n=0, detail=detail))
    spread, opens = Spread.of(per_open_values, "per open"), sum(slice_.reading.opens for slice_ in slices)
    if limit is None:
        return unjudged(name, spread, opens, counter)
    finding = at_most(name, median(per_open_values), limit, unit="per open", n=opens, detail=counter)
    return Figure(finding=finding, ours=spread)


def right_answers(name: str, cases: Sequence[Case], slices: Slices) -> Figure:
    """Check that every response has its case's status, and that the load generator wasn't the limit."""
    opens = sum(slice_.reading.opens for case_slices in slices.values() for slice_ in case_slices)
    return Figure(finding=no_errors(name, _wrong(cases, slices), n=opens))


def rates(slices: Sequence[LoadSlice]) -> Spread:
    return Spread.of([slice_.per_s for slice_ in slices], RATE)


def latencies(slices: Sequence[LoadSlice]) -> str:
    """Return the medians of the rounds' percentiles."""
    percentile_medians = {
        name: median(slice_.reading.latency[name] for slice_ in slices) for name in ("p50", "p99", "p999")
    }
    return ", ".join(f"{name} {seconds * 1e3:,.1f} ms" for name, seconds in percentile_medians.items())


def _wrong(cases: Sequence[Case], slices: Slices) -> Iterator[str]:
    for case in cases:
        for slice_ in slices.get(case.name, ()):
            if unexpected := slice_.reading.unexpected(case.status):
                statuses = dict(slice_.reading.statuses)
                yield f"{case.name}: {unexpected} of {slice_.reading.opens}, {statuses}, {slice_.reading.failed} failed"
            if slice_.reading.busy > CLIENT_BUSY:
                yield f"{case.name}: the load generator took {slice_.reading.busy:.0%} of a core"


def _cpu(slices: Sequence[LoadSlice]) -> float:
    return median(slice_.cpu_us for slice_ in slices)


def _body(slices: Sequence[LoadSlice]) -> float:
    return median(slice_.reading.body for slice_ in slices)


# The product's counters.

STORE, REDIS, LOADS = (
    "notifier_inbox_store_calls_total",
    "notifier_inbox_redis_calls_total",
    "notifier_inbox_burst_loads_total",
)
"""Round trips of the read path to the store and to Redis, and bursts that it loaded."""
