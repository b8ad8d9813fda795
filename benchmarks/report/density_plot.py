"""The picture of `python -m benchmarks density`: users reached per second by density."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from benchmarks.report.limits_and_speeds_plots import TOP, WIDTH, drawn

DENSITY = re.compile(r"density_gain\{([\d.]+)%\}")
LEFT, END, HEIGHT, BOTTOM = 100, 190, 300, 50
"""Pixels: for the scale, for the names behind the curves, of the area, and below it."""
LINE = 17
CURVES = (
    ("ours", "ours", "density_gain", 'class="ours"'),
    ("baseline", "leanest writer", "density_lean", 'style="fill:#8c959f;stroke:#8c959f"'),
    ("baseline", "previous rows", "density_gain", 'style="fill:#cf222e;stroke:#cf222e"'),
    ("baseline", "pipelined ZADD", "density_zadd", 'class="peer"'),
)
"""Part of the envelope, name, figure, and an attribute with the color."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityCurve:
    name: str
    style: str
    points: Sequence[tuple[float, float]]
    """Percentage, and users per second."""


def curves(envelope: Mapping[str, Any]) -> list[DensityCurve]:
    """Return the curves that were measured at two densities or more."""
    densities = [match[1] for check in envelope["checks"] if (match := DENSITY.fullmatch(check["name"]))]
    all_curves = []
    for place, name, figure, style in CURVES:
        spreads = ((density, envelope[place].get(f"{figure}{{{density}%}}")) for density in densities)
        points = [(float(density), spread["median"]) for density, spread in spreads if spread]
        all_curves.append(DensityCurve(name=name, style=style, points=sorted(points)))
    return [curve for curve in all_curves if len(curve.points) > 1]


def density_plot(envelope: Mapping[str, Any]) -> str:
    """Draw the picture. Return an empty string if no density was measured."""
    if not (drawn_curves := curves(envelope)):
        return ""
    rates = [rate for curve in drawn_curves for _, rate in curve.points]
    shares = [share for curve in drawn_curves for share, _ in curve.points]
    scale = _LogScale(
        shares=(log10(min(shares)), log10(max(shares))), rates=(floor(log10(min(rates))), ceil(log10(max(rates))))
    )
    lines = [*_grid(scale, sorted({*shares})), *(line for curve in drawn_curves for line in _line(curve, scale))]
    lines += _labels(drawn_curves, scale)
    title = "Users reached per second, by the share of a range that a burst reaches (both axes logarithmic)"
    return drawn(title, TOP + HEIGHT + BOTTOM, lines)


def density_words(envelope: Mapping[str, Any]) -> str:
    """Return the picture's data as text."""
    return "; ".join(
        f"{curve.name}: {', '.join(f'{rate:,.0f} at {share:g} %' for share, rate in curve.points)}"
        for curve in curves(envelope)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogScale:
    """The least and greatest powers of ten on each axis."""

    shares: tuple[float, float]
    rates: tuple[float, float]

    def x(self, share: float) -> float:
        first, last = self.shares
        return LEFT + (log10(share) - first) / (last - first) * (WIDTH - LEFT - END)

    def y(self, rate: float) -> float:
        first, last = self.rates
        return TOP + HEIGHT - (log10(rate) - first) / (last - first) * HEIGHT


def _grid(scale: _LogScale, shares: Sequence[float]) -> Iterable[str]:
    for power in range(int(scale.rates[0]), int(scale.rates[1]) + 1):
        y = scale.y(10.0**power)
        yield f'<line class="line" x1="{LEFT}" x2="{WIDTH - END}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="quiet" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,}</text>'
    for share in shares:
        at = f'x="{scale.x(share):.1f}" y="{TOP + HEIGHT + 20}" text-anchor="middle"'
        yield f'<text class="quiet" {at}>{share:g} %</text>'


def _line(curve: DensityCurve, scale: _LogScale) -> Iterable[str]:
    places = [(scale.x(share), scale.y(rate)) for share, rate in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    # A group, so that the dots are filled and the line isn't.
    yield f'<g {curve.style}><polyline fill-opacity="0" stroke-width="2" points="{path}"/>'
    yield "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places) + "</g>"


def _labels(curves: Sequence[DensityCurve], scale: _LogScale) -> Iterable[str]:
    """Put the curves' names after their ends, the highest first, each at least a line below the previous one."""
    lowest = 0.0
    for curve in sorted(curves, key=lambda curve_: -curve_.points[-1][1]):
        share, rate = curve.points[-1]
        y = lowest = max(scale.y(rate) + 4, lowest + LINE)
        yield f'<text x="{scale.x(share) + 12:.1f}" y="{y:.1f}">{curve.name} {_short(rate)}</text>'


def _short(rate: float) -> str:
    return f"{rate / 1e6:.1f} M/s" if rate >= 1e6 else f"{rate / 1e3:,.0f} k/s"
