"""Two kinds of picture as SVG, by hand: no library for a few bars, and the same input gives the same bytes.

Colours follow the reader's light or dark mode, on a ground of their own, so that a page whose mode differs from the
system's is readable too. What colour says is said in words as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

WIDTH, LABELS, ROW, TOP, BOTTOM = 860, 330, 26, 44, 34
RIGHT = 130
"""Pixels: for labels on the left, and for values on the right."""

REACHED = "deliveries/s"
"""The unit of what is drawn together."""
AT_ONE = "peer_ratio_at{"
"""How the names of figures begin that compare ours and a peer at one density."""

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .quiet { fill: #59636e }
  .ground { fill: #ffffff }
  .line { stroke: #d1d9e0 }
  .limit { stroke: #1f2328; stroke-dasharray: 4 3 }
  .kept { fill: #1a7f37 } .missed { fill: #cf222e } .ours { fill: #1a7f37; stroke: #1a7f37 }
  .peer { fill: #9a6700; stroke: #9a6700 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .quiet { fill: #9198a1 } .ground { fill: #0d1117 } .line { stroke: #3d444d }
    .limit { stroke: #f0f6fc } .kept { fill: #3fb950 } .missed { fill: #f85149 }
    .ours { fill: #3fb950; stroke: #3fb950 } .peer { fill: #d29922; stroke: #d29922 }
  }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitShare:
    """How much of its limit a figure takes; above 1 it missed it."""

    of: float
    at_least: bool | None
    """None where the value is the limit, which leaves it open."""


def share_of_limit(check: Mapping[str, Any]) -> LimitShare | None:
    """The envelope doesn't say which side of a limit is the good one; the verdict does."""
    value, limit = check["value"], check["limit"]
    if not isinstance(value, int | float) or not isinstance(limit, int | float):
        return None
    if value == limit:
        return LimitShare(of=1.0, at_least=None)
    at_least = check["ok"] == (value > limit)
    over, under = (limit, value) if at_least else (value, limit)
    if under <= 0:
        return None
    return LimitShare(of=over / under, at_least=at_least)


def limits_plot(envelope: Mapping[str, Any]) -> str:
    """A bar for each figure with a limit; nothing when there is none."""
    shares = [(check, share) for check in envelope["checks"] if (share := share_of_limit(check))]
    if not shares:
        return ""
    most = max(1.25, min(3.0, max(share.of for _, share in shares)))
    bars = [_bar(i, check, share, most) for i, (check, share) in enumerate(shares)]
    end, at = TOP + len(shares) * ROW, _at(1.0 / most)
    limit = [
        f'<line class="limit" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 6}" y2="{end + 4}"/>',
        f'<text class="quiet" x="{at:.1f}" y="{end + 20}" text-anchor="middle">limit</text>',
    ]
    return _svg("How much of its limit each figure takes; shorter is better", len(shares), [*bars, *limit])


def _bar(i: int, check: Mapping[str, Any], share: LimitShare, most: float) -> str:
    y = TOP + i * ROW
    length = max(2.0, _at(min(share.of, most) / most) - LABELS)
    kind, suffix = ("kept", "") if check["ok"] else ("missed", ", missed")
    value = f"{share.of:.0%}{suffix}"
    return "\n".join(
        [
            _label(check["name"], y),
            f'<rect class="{kind}" x="{LABELS}" y="{y + 4}" width="{length:.1f}" height="{ROW - 10}" rx="2"/>',
            f'<text x="{LABELS + length + 8:.1f}" y="{y + 17}">{value}</text>',
        ]
    )


def speeds(envelope: Mapping[str, Any]) -> list[str]:
    """Return the figures that compare ours and a peer at one density, also where one is judged."""
    names = [check["name"] for check in envelope["checks"]]
    return [
        name for name in names if name.startswith(AT_ONE) and envelope["peers"].get(name, {}).get("unit") == REACHED
    ]


def speeds_plot(envelope: Mapping[str, Any]) -> str:
    """Ours and each peer at each density, least to most, with the median as a dot; nothing without peers."""
    rows = [(name, envelope["ours"][name], envelope["peers"][name]) for name in speeds(envelope)]
    if not rows:
        return ""
    spreads = [spread for _, *both in rows for spread in both]
    low, high = floor(log10(min(s["min"] for s in spreads))), ceil(log10(max(s["max"] for s in spreads)))
    end = TOP + len(rows) * ROW
    lines: list[str] = []
    for power in range(low, high + 1):
        x = _at((power - low) / (high - low))
        lines.append(f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{end}"/>')
        lines.append(f'<text class="quiet" x="{x:.1f}" y="{end + 20}" text-anchor="middle">{10**power:,}</text>')
    for i, (name, ours, peer) in enumerate(rows):
        y = TOP + i * ROW
        inside = name.partition("{")[2].rstrip("}") or name
        lines.append(_label(inside.replace(",", " at "), y))
        lines += [_range(kind, spread, y + 13, low, high) for kind, spread in (("peer", peer), ("ours", ours))]
    title = "People reached in a second (logarithmic), slowest to fastest round: ● ours, ■ the peer"
    return _svg(title, len(rows), lines)


def _range(kind: str, spread: Mapping[str, float], y: int, low: int, high: int) -> str:
    least, middle, most = (_at((log10(spread[name]) - low) / (high - low)) for name in ("min", "median", "max"))
    mark = (
        f'<circle class="{kind}" cx="{middle:.1f}" cy="{y}" r="5"/>'
        if kind == "ours"
        else f'<rect class="{kind}" x="{middle - 4.5:.1f}" y="{y - 4.5}" width="9" height="9"/>'
    )
    return f'<line class="{kind}" stroke-width="2" x1="{least:.1f}" x2="{most:.1f}" y1="{y}" y2="{y}"/>{mark}'


def _at(share: float) -> float:
    return LABELS + share * (WIDTH - LABELS - RIGHT)


def _label(text: str, y: int) -> str:
    return f'<text x="{LABELS - 10}" y="{y + 17}" text-anchor="end">{escape(text)}</text>'


def _svg(title: str, rows: int, parts: Iterable[str]) -> str:
    return drawn(title, TOP + rows * ROW + BOTTOM, parts)


def drawn(title: str, height: int, parts: Iterable[str]) -> str:
    """The picture, with its ground and its title."""
    body: Sequence[str] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="16" y="24">{escape(title)}</text>',
        *parts,
        "</svg>",
    ]
    return "\n".join(body) + "\n"
