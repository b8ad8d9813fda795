"""What a check found: its name and verdict, with the value, the limit and how many observations stand behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

Value = float | int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    ok: bool
    value: Value = None
    limit: Value = None
    unit: str = ""
    n: int = 1
    detail: str = ""


def agreement(name: str, wrong: Iterable[str], *, n: int) -> Finding:
    """A check that allows no exception; the first few are told. Nothing looked at is nothing proved."""
    found = list(wrong)
    detail = "; ".join(found[:3]) if n else "There was nothing to look at."
    return Finding(name=name, ok=not found and n > 0, value=len(found), limit=0, unit="wrong", n=n, detail=detail)


def at_most(name: str, value: float, limit: float, *, unit: str, n: int = 1, detail: str = "") -> Finding:
    return Finding(
        name=name, ok=n > 0 and value <= limit, value=_told(value), limit=limit, unit=unit, n=n, detail=detail
    )


def at_least(name: str, value: float, limit: float, *, unit: str, n: int = 1, detail: str = "") -> Finding:
    return Finding(
        name=name, ok=n > 0 and value >= limit, value=_told(value), limit=limit, unit=unit, n=n, detail=detail
    )


def _told(value: float) -> float | None:
    """Infinity is how the absence of a value keeps no limit; JSON has no word for it."""
    return round(value, 4) if isfinite(value) else None


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above; infinity of none, so that no limit is kept by luck."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


def weighted_quantile(values: Iterable[tuple[float, int]], share: float) -> float:
    """Of (value, weight)."""
    ordered = sorted(values)
    left = sum(weight for _, weight in ordered) * share
    for value, weight in ordered:
        left -= weight
        if left <= 0 and weight:
            return value
    return float("inf")
