"""Two kinds of SVG pictures, without a library, so that equal input gives equal bytes.

Colors follow the reader's light or dark mode. The background is drawn, too, because a page's mode may differ from the
system's. Text repeats what color shows.
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
"""Unit of the figures that are drawn together."""
AT_ONE = "peer_ratio_at{"
"""Prefix of the figures that compare our code and a peer at one density."""

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
    """Share of a figure's limit that it uses. Above 1 the figure missed the limit."""

    of: float
    at_least: bool | None
    """None if value and limit are equal, because then the side is unknown."""


def share_of_limit(check: Mapping[str, Any]) -> LimitShare | None:
    """Return the share. The envelope doesn't contain the side of a limit, but the verdict implies it."""
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
    """Draw a bar for each figure with a limit. Return an empty string if there is none."""
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
    return _svg("Share of its limit that each figure uses; shorter is better", len(shares), [*bars, *limit])


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
    """Return the figures that compare our code and a peer at one density, whether judged or not."""
    names = [check["name"] for check in envelope["checks"]]
    return [
        name for name in names if name.startswith(AT_ONE) and envelope["peers"].get(name, {}).get("unit") == REACHED
    ]


def speeds_plot(envelope: Mapping[str, Any]) -> str:
    """Draw our code and each peer at each density, from least to most, with the median as a mark.

    Without peers return an empty string.
    """
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
    title = "Users reached per second (logarithmic), slowest to fastest round: ● ours, ■ the peer"
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
    """Return the picture with its background and title."""
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
