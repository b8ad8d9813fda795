"""Results of checks and benchmarks, and functions that compute them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

Value = float | int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check."""

    name: str
    ok: bool
    value: Value = None
    limit: Value = None
    unit: str = ""
    n: int = 1
    """Number of observations that the value is based on."""
    detail: str = ""


def no_errors(name: str, wrong: Iterable[str], *, n: int) -> Finding:
    """Return the result of a check that tolerates no error. It fails without observations.

    The detail has the first three errors.
    """
    errors = list(wrong)
    detail = "; ".join(errors[:3]) if n else "There were no observations."
    return Finding(name=name, ok=not errors and n > 0, value=len(errors), limit=0, unit="wrong", n=n, detail=detail)


def at_most(name: str, value: float, limit: float, *, unit: str, n: int = 1, detail: str = "") -> Finding:
    return Finding(
        name=name, ok=n > 0 and value <= limit, value=_rounded(value), limit=limit, unit=unit, n=n, detail=detail
    )


def at_least(name: str, value: float, limit: float, *, unit: str, n: int = 1, detail: str = "") -> Finding:
    return Finding(
        name=name, ok=n > 0 and value >= limit, value=_rounded(value), limit=limit, unit=unit, n=n, detail=detail
    )


def _rounded(value: float) -> float | None:
    """Round the value. Return None for infinity, which stands for a missing value: JSON has no infinity."""
    return round(value, 4) if isfinite(value) else None


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, or infinity without values, so that a check without data exceeds its limit."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


def weighted_quantile(values: Iterable[tuple[float, int]], share: float) -> float:
    """Return a quantile of (value, weight) pairs, or infinity without any weight."""
    ordered = sorted(values)
    remaining = sum(weight for _, weight in ordered) * share
    for value, weight in ordered:
        remaining -= weight
        if remaining <= 0 and weight:
            return value
    return float("inf")
