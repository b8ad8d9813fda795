"""Costs of measured work, and figures judged against their limits."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Self

from notifier.devkit.check.finding_and_quantiles import Finding, at_least, at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    min: float
    median: float
    max: float
    unit: str = "s"
    n: int

    @classmethod
    def of(cls, values: Sequence[float], unit: str = "s") -> Self:
        low, high = min(values), max(values)
        return cls(min=round(low, 5), median=round(median(values), 5), max=round(high, 5), unit=unit, n=len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A finding with its measurements."""

    finding: Finding
    ours: Spread | None = None
    baseline: Spread | None = None
    peers: Spread | None = None


def unjudged(name: str, spread: Spread, n: int, detail: str = "", value: float | None = None) -> Figure:
    """Return a figure that is not judged: the median, unless another value is given."""
    shown = round(spread.median if value is None else value, 3)
    finding = Finding(name=name, ok=True, value=shown, unit=spread.unit, n=n, detail=detail)
    return Figure(finding=finding, ours=spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one run of some work."""

    seconds: float
    processor: float
    """CPU seconds of this process, which other processes of a busy machine don't lengthen."""

    def __add__(self, more: "Cost") -> "Cost":
        return Cost(seconds=self.seconds + more.seconds, processor=self.processor + more.processor)


def cost(work: Callable[[], object]) -> Cost:
    began, busy = time.perf_counter(), time.process_time()
    work()
    return Cost(seconds=time.perf_counter() - began, processor=time.process_time() - busy)


def seconds(work: Callable[[], object]) -> float:
    return cost(work).seconds


def ratio(name: str, mine: Sequence[Cost], theirs: Sequence[Cost], limit: float | None, *, rows: int) -> Figure:
    """Judge our speed divided by the baseline's: the median of the rounds' ratios. Without a limit only report it."""
    our_seconds, their_seconds = [run.seconds for run in mine], [run.seconds for run in theirs]
    ratios = [b / a for a, b in zip(our_seconds, their_seconds, strict=True)]
    busy = median(b.processor / a.processor for a, b in zip(mine, theirs, strict=True))
    speed = f"{rows / median(our_seconds):,.0f} rows/s against {rows / median(their_seconds):,.0f}"
    spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds of {rows:,} rows"
    detail = f"{spread}; {busy:.2f} by CPU time; {speed}"
    finding = at_least(name, median(ratios), limit or 0.0, unit="ratio", n=len(ratios), detail=detail)
    return Figure(
        finding=finding if limit is not None else replace(finding, limit=None),
        ours=Spread.of(our_seconds),
        baseline=Spread.of(their_seconds),
    )


def worst_at_most(name: str, values: Sequence[float], limit: float, *, unit: str = "s", detail: str = "") -> Figure:
    """Judge the greatest value: a promise that one burst of three breaks is broken."""
    spread = Spread.of(values, unit)
    summary = f"worst; min {spread.min:g}, median {spread.median:g}. {detail}".strip()
    return Figure(finding=at_most(name, spread.max, limit, unit=unit, n=len(values), detail=summary), ours=spread)


def median_at_most(name: str, values: Sequence[float], limit: float, *, unit: str = "s", detail: str = "") -> Figure:
    """Judge the median of the rounds, for values that are means already."""
    spread = Spread.of(values, unit)
    summary = f"median; min {spread.min:g}, max {spread.max:g}. {detail}".strip()
    return Figure(finding=at_most(name, spread.median, limit, unit=unit, n=len(values), detail=summary), ours=spread)
