"""The picture of growth: cost of larger audiences as multiples of the smallest one's."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10
from typing import Any

from benchmarks.report.limits_and_speeds_plots import drawn

CASE = re.compile(r"\{(\d+)m_of_\1m\}")
"""Cases in which every user follows, so that the audience grows with its universe."""
CURVES = {"audience_s": ("peer", "time"), "audience_mb": ("ours", "memory")}
"""Color and name of each figure."""
LEFT, RIGHT, TOP, HEIGHT, WIDTH = 60, 150, 44, 260, 860


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthCurve:
    kind: str
    name: str
    points: Sequence[tuple[int, float]]
    """Millions of followers, and the multiple of the first value."""


def curves(envelope: Mapping[str, Any]) -> list[GrowthCurve]:
    all_curves = []
    for figure, (kind, name) in CURVES.items():
        values = sorted(
            (int(case[1]), spread["median"])
            for figure_name, spread in envelope["ours"].items()
            if figure_name.partition("{")[0] == figure and (case := CASE.search(figure_name))
        )
        if len(values) > 1:
            all_curves.append(
                GrowthCurve(kind=kind, name=name, points=[(n, value / values[0][1]) for n, value in values])
            )
    return all_curves


def growth_plot(envelope: Mapping[str, Any]) -> str:
    """Draw the picture. Return an empty string if fewer than two sizes were measured."""
    if not (drawn_curves := curves(envelope)):
        return ""
    sizes = [n for n, _ in drawn_curves[0].points]
    most = 10 ** ceil(log10(max(times for curve in drawn_curves for _, times in curve.points)))
    lines = [*_grid(sizes, most), *(line for curve in drawn_curves for line in _curve(curve, sizes, most))]
    title = f"Audiences of {sizes[0]} to {sizes[-1]} million, as multiples of the first (both axes logarithmic)"
    return drawn(title, TOP + HEIGHT + 40, lines)


def _grid(sizes: Sequence[int], most: float) -> list[str]:
    lines = []
    for power in range(round(log10(most)) + 1):
        y = _y(10**power, most)
        lines.append(f'<line class="line" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text class="quiet" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">× {10**power}</text>')
    for size in sizes:
        x, y = _x(size, sizes), TOP + HEIGHT + 22
        lines.append(f'<text class="quiet" x="{x:.1f}" y="{y}" text-anchor="middle">{size} million</text>')
    return lines


def _curve(curve: GrowthCurve, sizes: Sequence[int], most: float) -> list[str]:
    places = [(_x(n, sizes), _y(times, most)) for n, times in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle class="{curve.kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places]
    (x, y), (_, times) = places[-1], curve.points[-1]
    label = f'<text x="{x + 12:.1f}" y="{y + 4:.1f}">{curve.name} × {times:.3g}</text>'
    return [f'<polyline class="{curve.kind}" style="fill:none" stroke-width="2" points="{path}"/>', *dots, label]


def _x(size: int, sizes: Sequence[int]) -> float:
    share = log10(size / sizes[0]) / log10(sizes[-1] / sizes[0])
    return LEFT + 40 + share * (WIDTH - LEFT - RIGHT - 80)


def _y(times: float, most: float) -> float:
    return TOP + HEIGHT - 20 - log10(max(times, 1.0)) / log10(most) * (HEIGHT - 40)
