"""Two pictures of `python -m benchmarks inbox`: opens per second, and latency by rate."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from benchmarks.report.limits_and_speeds_plots import LABELS, TOP, WIDTH, drawn

RATIO = re.compile(r"inbox_(\w+)_ratio\{(embedded|cluster)\}")
LATENCY = re.compile(r"inbox_latency_ms\{\w+,(\d+)%,(p\d+)\}")
AT_RATE = re.compile(r"at ([\d,]+) opens/s")
BY_HAND, WARM = "vs_redis_by_hand", "warm"
BAR, GAP = 11, 8
"""Pixels: of a bar, and between two cases."""
RIGHT, BOTTOM = 90, 12
GREY = "fill:#8c959f;stroke:#8c959f"
"""Readable on light and dark backgrounds."""
LEFT, END, HEIGHT = 70, 130, 260
"""Pixels of the curves: for the scale, for the names behind them, and of the area."""
CURVES = {"p50": "ours", "p99": "peer", "p999": "missed"}
"""Class of each percentile's color."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBar:
    name: str
    style: str
    """An attribute: a class of the plot, or a style."""
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRates:
    case: str
    bars: Sequence[RateBar]


def rates(envelope: Mapping[str, Any]) -> list[CaseRates]:
    """Return the opens per second of each case that was measured against the bare handler, in the envelope's order."""
    all_rates = []
    for name, ours in envelope["ours"].items():
        bare = envelope["baseline"].get(name)
        if not (match := RATIO.fullmatch(name)) or bare is None:
            continue
        bars = [
            RateBar(name="ours", style='class="ours"', rate=ours["median"]),
            RateBar(name="bare handler", style=f'style="{GREY}"', rate=bare["median"]),
        ]
        peer = envelope["peers"].get(f"inbox_{BY_HAND}_ratio{{{match[2]}}}")
        if match[1] == WARM and peer:
            bars.append(RateBar(name="Redis by hand", style='class="peer"', rate=peer["median"]))
        all_rates.append(CaseRates(case=match[1].replace("_", " "), bars=bars))
    return all_rates


def opens_plot(envelope: Mapping[str, Any]) -> str:
    """Draw the picture. Return an empty string if no case was measured."""
    if not (drawn_rates := rates(envelope)):
        return ""
    most = max(bar.rate for case in drawn_rates for bar in case.bars)
    lines, y = list[str](), TOP
    for case in drawn_rates:
        middle = y + len(case.bars) * BAR / 2 + 5
        lines.append(f'<text x="{LABELS - 10}" y="{middle:.1f}" text-anchor="end">{case.case}</text>')
        for bar in case.bars:
            lines += _bar(bar, y, most)
            y += BAR
        y += GAP
    return drawn("Inbox opens per second: ours, a bare handler, Redis by hand", y + BOTTOM, lines)


def opens_words(envelope: Mapping[str, Any]) -> str:
    """Return the picture's data as text."""
    return "; ".join(
        f"{case.case}: {', '.join(f'{bar.name} {bar.rate:,.0f}' for bar in case.bars)}" for case in rates(envelope)
    )


def _bar(bar: RateBar, y: float, most: float) -> Iterable[str]:
    length = max(2.0, bar.rate / most * (WIDTH - LABELS - RIGHT))
    yield f'<rect {bar.style} x="{LABELS}" y="{y + 1}" width="{length:.1f}" height="{BAR - 2}"/>'
    x, style = LABELS + length + 6, "font-size:11px"
    yield f'<text class="quiet" style="{style}" x="{x:.1f}" y="{y + BAR - 1}">{bar.rate:,.0f}</text>'


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCurve:
    percentile: str
    points: Sequence[tuple[int, float]]
    """Percentage of the maximum rate, and milliseconds."""


def curves(envelope: Mapping[str, Any]) -> list[LatencyCurve]:
    """Return a curve for each percentile that was measured at several rates."""
    points: dict[str, list[tuple[int, float]]] = {percentile: [] for percentile in CURVES}
    for name, spread in envelope["ours"].items():
        if (match := LATENCY.fullmatch(name)) and match[2] in points:
            points[match[2]].append((int(match[1]), spread["median"]))
    return [
        LatencyCurve(percentile=name, points=sorted(percentile_points))
        for name, percentile_points in points.items()
        if len(percentile_points) > 1
    ]


def latency_plot(envelope: Mapping[str, Any]) -> str:
    """Draw the picture. Return an empty string if fewer than two rates were measured."""
    if not (drawn_curves := curves(envelope)):
        return ""
    values = [ms for curve in drawn_curves for _, ms in curve.points]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    scale = _LatencyScale(low=low, high=max(high, low + 1))
    lines = [
        *_powers(scale),
        *_rates_below(envelope, drawn_curves[0]),
        *(line for curve_ in drawn_curves for line in _line(curve_, scale)),
    ]
    return drawn("Milliseconds per inbox open, by share of the maximum rate", TOP + HEIGHT + 50, lines)


def latency_words(envelope: Mapping[str, Any]) -> str:
    """Return the picture's data as text."""
    return "; ".join(
        f"{curve.percentile} {', '.join(f'{ms:.3g} ms at {share} %' for share, ms in curve.points)}"
        for curve in curves(envelope)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LatencyScale:
    low: int
    high: int

    def y(self, ms: float) -> float:
        return TOP + HEIGHT - (log10(ms) - self.low) / (self.high - self.low) * HEIGHT


def _x(share: int) -> float:
    return LEFT + share / 100 * (WIDTH - LEFT - END)


def _powers(scale: _LatencyScale) -> Iterable[str]:
    for power in range(scale.low, scale.high + 1):
        y = scale.y(10.0**power)
        yield f'<line class="line" x1="{LEFT}" x2="{WIDTH - END}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="quiet" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>'


def _rates_below(envelope: Mapping[str, Any], curve: LatencyCurve) -> Iterable[str]:
    """Draw the shares, and the rates in the details."""
    details = {check["name"]: check["detail"] for check in envelope["checks"]}
    for share, _ in curve.points:
        named = (detail for name, detail in details.items() if f",{share}%," in name)
        rate = next((match[1] for detail in named if (match := AT_RATE.search(detail))), "")
        at, y = f'x="{_x(share):.1f}" text-anchor="middle"', TOP + HEIGHT
        yield f'<text class="quiet" {at} y="{y + 20}">{share} %</text>'
        if rate:
            yield f'<text class="quiet" {at} y="{y + 37}">{rate}/s</text>'


def _line(curve: LatencyCurve, scale: _LatencyScale) -> Iterable[str]:
    kind = CURVES[curve.percentile]
    places = [(_x(share), scale.y(ms)) for share, ms in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    stroke = (
        'class="missed" style="fill:none;stroke:#cf222e"' if kind == "missed" else f'class="{kind}" style="fill:none"'
    )
    yield f'<polyline {stroke} stroke-width="2" points="{path}"/>'
    for x, y in places:
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    (x, y), (_, ms) = places[-1], curve.points[-1]
    yield f'<text x="{x + 12:.1f}" y="{y + 4:.1f}">{curve.percentile} {ms:.3g} ms</text>'
