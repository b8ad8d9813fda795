"""The part of docs/benchmarks.md that is written by `make bench`: for each bench where, when and what was measured."""

from collections.abc import Mapping
from typing import Any

from benchmarks.report.density_plot import density_plot, density_words
from benchmarks.report.growth import curves, growth_plot
from benchmarks.report.inbox_plot import latency_plot, latency_words, opens_plot, opens_words
from benchmarks.report.plot import limits_plot, share_of_limit, speeds, speeds_plot
from benchmarks.report.store import Run

BEGIN = "<!-- Written by `make bench` from benchmarks.json; what is changed by hand here is lost. -->"
END = "<!-- The end of what `make bench` writes. -->"

Check = Mapping[str, Any]
HEAD = "| figure | | value | limit | ours: min / median / max | against: min / median / max | n |"


def with_results(page: str, made: str) -> str:
    """The page with its written part changed; what stands before and after it is kept."""
    before, begin, written = page.partition(BEGIN)
    _, end, after = written.partition(END)
    if not (begin and end):
        raise ValueError(f"The page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"


def results(runs: Mapping[str, Run]) -> str:
    return "\n".join(_section(name, run) for name, run in runs.items()) or "Nothing was measured yet.\n"


def pictures(runs: Mapping[str, Run]) -> dict[str, str]:
    """By file name."""
    drawn: dict[str, str] = {}
    for name, run in runs.items():
        for kind, (_, draw) in _PLOTS.items():
            if svg := draw(run.envelope):
                drawn[f"bench-{name}-{kind}.svg"] = svg
    return drawn


_PLOTS = {
    "limits": ("How much of its limit each figure takes", limits_plot),
    "growth": ("What a larger audience takes, as a multiple of the smallest one's", growth_plot),
    "speeds": ("People reached in a second, by ours and by the peers", speeds_plot),
    "density": ("People reached in a second, by the share of everybody whom a burst reaches", density_plot),
    "opens": ("Inboxes opened in a second", opens_plot),
    "latency": ("How long an inbox takes to open, by share of the maximum rate", latency_plot),
}
_WORDS = {"density": density_words, "opens": opens_words, "latency": latency_words}


def number(value: float | int | str | None) -> str:
    match value:
        case int() | float():
            return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
        case _:
            return "–" if value is None else str(value)


def _section(name: str, run: Run) -> str:
    checks = run.envelope["checks"]
    lines = [
        f"### `{run.command}`",
        "",
        f"{run.date}, commit {run.commit}. {_verdict(checks)}",
        "",
        *(f"- {fact}: {value}" for fact, value in run.machine.items()),
        "",
        *_pictured(name, run),
        HEAD,
        "|---|---|---:|---:|---|---|---:|",
        *(_row(check, run.envelope) for check in checks),
        "",
        "<details><summary>What the bench says of each</summary>",
        "",
        *(f"- `{check['name']}`: {_plain(check['detail'])}" for check in checks if check["detail"]),
        "",
        "</details>",
        "",
    ]
    return "\n".join(lines)


def _verdict(checks: list[Check]) -> str:
    limited = [check for check in checks if check["limit"] is not None or not check["ok"]]
    kept = sum(check["ok"] for check in limited)
    return f"{kept} of {len(limited)} limits kept." + ("" if kept == len(limited) else " **Some were missed.**")


def _pictured(name: str, run: Run) -> list[str]:
    lines: list[str] = []
    for kind, (title, draw) in _PLOTS.items():
        if draw(run.envelope):
            lines += [f"![{title}: {_alternative(kind, run.envelope)}](pictures/bench-{name}-{kind}.svg)", ""]
    return lines


def _alternative(kind: str, envelope: Mapping[str, Any]) -> str:
    """The picture in words."""
    if kind in _WORDS:
        return _WORDS[kind](envelope)
    if kind == "speeds":
        return "; ".join(_against(name, envelope) for name in speeds(envelope))
    if kind == "growth":
        return "; ".join(f"{curve.name} × {number(curve.points[-1][1])}" for curve in curves(envelope))
    missed = [check["name"] for check in envelope["checks"] if not check["ok"]]
    return f"missed by {', '.join(missed)}" if missed else "all are kept"


def _against(name: str, envelope: Mapping[str, Any]) -> str:
    ours, peer = (number(envelope[side][name]["median"]) for side in ("ours", "peers"))
    return f"{ours} against {peer} of {name.partition('{')[2].rstrip('}')}"


def _row(check: Check, envelope: Mapping[str, Any]) -> str:
    name = check["name"]
    against = envelope["peers"].get(name) or envelope["baseline"].get(name)
    cells = [
        f"`{name}`",
        _mark(check),
        f"{number(check['value'])} {check['unit']}".strip() if check["value"] is not None else "–",
        _limit(check),
        _spread(envelope["ours"].get(name)),
        _spread(against),
        number(check["n"]),
    ]
    return f"| {' | '.join(cells)} |"


def _mark(check: Check) -> str:
    if check["value"] is None:
        return "**not measured**"
    if not check["ok"]:
        return "**missed**"
    return "told" if check["limit"] is None else "kept"


def _limit(check: Check) -> str:
    if check["limit"] is None:
        return ""
    found = share_of_limit(check)
    sign = {True: "≥ ", False: "≤ ", None: ""}[None if found is None else found.at_least]
    return f"{sign}{number(check['limit'])}"


def _spread(spread: Mapping[str, Any] | None) -> str:
    if spread is None:
        return ""
    return f"{number(spread['min'])} / {number(spread['median'])} / {number(spread['max'])} {spread['unit']}".strip()


def _plain(text: str) -> str:
    """A cause may hold anything: it is neither markup nor a second line."""
    return " ".join(text.split()).replace("<", "&lt;").replace("`", "'")
