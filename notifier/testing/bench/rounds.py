"""Rounds of measuring: ours and the baseline take turns, so that a busy machine slows both alike."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self

from notifier.testing.finding import Finding, at_least, at_most


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
    """A finding with what was measured for it."""

    finding: Finding
    ours: Spread | None = None
    baseline: Spread | None = None


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio(name: str, mine: Sequence[float], theirs: Sequence[float], limit: float | None, *, rows: int) -> Figure:
    """How much of the baseline's speed is ours: the median of the rounds' own ratios."""
    ratios = [b / a for a, b in zip(mine, theirs, strict=True)]
    speed = f"{rows / median(mine):,.0f} rows/s against {rows / median(theirs):,.0f}"
    detail = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds of {rows:,} rows; {speed}"
    finding = at_least(name, median(ratios), limit or 0.0, unit="ratio", n=len(ratios), detail=detail)
    return Figure(finding=finding, ours=Spread.of(mine), baseline=Spread.of(theirs))


def slowest(name: str, values: Sequence[float], limit: float, *, unit: str = "s", detail: str = "") -> Figure:
    """Judged by the median of the rounds; the worst stands in the detail."""
    spread = Spread.of(values, unit)
    words = f"{spread.min:g} to {spread.max:g}. {detail}".strip()
    return Figure(finding=at_most(name, spread.median, limit, unit=unit, n=len(values), detail=words), ours=spread)
