"""Generated part of docs/benchmarks.md: missed limits are marked, and other text is kept."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.report.limits_and_speeds_plots import LimitShare, share_of_limit
from benchmarks.report.markdown import BEGIN, END, number, pictures, results, with_results
from benchmarks.report.stored_results import Run


def check(name: str, **facts: object) -> dict[str, Any]:
    return {"name": name, "ok": True, "value": None, "limit": None, "unit": "s", "n": 3, "detail": ""} | facts


def spread(low: float, middle: float, high: float, unit: str = "s") -> dict[str, Any]:
    return {"min": low, "median": middle, "max": high, "unit": unit, "n": 3}


def run(*checks: dict[str, Any], **sides: dict[str, Any]) -> Run:
    return Run(
        command="python -m benchmarks fanout",
        commit="0123456789ab",
        date="2026-11-30",
        machine={"cores": "2", "load before": "0.1"},
        envelope={"checks": [*checks], "ours": {}, "baseline": {}, "peers": {}} | sides,
    )


FANOUT = run(
    check("plan_200m_s", value=0.123, limit=1.0, n=5, detail="worst;\nmin 0.1"),
    check("fanout_ratio{5%}", ok=False, value=0.71, limit=0.8, unit="ratio"),
    check("fanout_ratio{reported}", value=0.5, unit="ratio"),
    check("storm_fanouts", ok=False, limit=6, n=0, detail="it ended with <script>`"),
    ours={"plan_200m_s": spread(0.1, 0.12, 0.123), "fanout_ratio{5%}": spread(1, 1.5, 2)},
    baseline={"fanout_ratio{5%}": spread(0.5, 1234.5, 2000.0)},
)

ALTERNATIVE = "Share of its limit that each figure uses: missed: fanout_ratio{5%}, storm_fanouts"

GOLDEN = """\
| command | date | commit | load before | limits | |
|---|---|---|---:|---|---|
| `python -m benchmarks fanout` | 2026-11-30 | 0123456789ab | 0.1 | 1 of 3 limits kept. **Some were missed.** |  |

### `python -m benchmarks fanout`

2026-11-30, commit 0123456789ab. 1 of 3 limits kept. **Some were missed.**

- cores: 2
- load before: 0.1

![{ALTERNATIVE}](pictures/bench-fanout-limits.svg)

| figure | result | value | limit | ours: min / median / max | compared with: min / median / max | n |
|---|---|---:|---:|---|---|---:|
| `plan_200m_s` | kept | 0.123 s | ≤ 1 | 0.1 / 0.12 / 0.123 s |  | 5 |
| `fanout_ratio{5%}` | **missed** | 0.71 ratio | ≥ 0.8 | 1 / 1.5 / 2 s | 0.5 / 1,234 / 2,000 s | 3 |
| `fanout_ratio{reported}` | reported | 0.5 ratio |  |  |  | 3 |
| `storm_fanouts` | **not measured** | – | 6 |  |  | 0 |

<details><summary>Details of the figures</summary>

- `plan_200m_s`: worst; min 0.1
- `storm_fanouts`: it ended with &lt;script>'

</details>
""".replace("{ALTERNATIVE}", ALTERNATIVE)


def test_page_lists_every_figure_with_its_verdict() -> None:
    assert results({"fanout": FANOUT}) == GOLDEN


def test_run_with_earlier_row_layout_is_stale() -> None:
    old = replace(FANOUT, date="2026-11-25")
    assert "| **stale** |" in results({"fanout": old})
    assert "**Stale:** measured with an earlier layout" in results({"fanout": old})
    assert "stale" not in results({"push": old})


def test_run_without_limits_says_so() -> None:
    assert "2026-11-30, commit 0123456789ab. No limits.\n" in results({"log": run(check("log_per_s", value=1.0))})


def test_text_around_generated_part_is_kept_on_every_write() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    written = with_results(page, GOLDEN)
    assert written == f"before\n{BEGIN}\n\n{GOLDEN}\n{END}\nafter\n"
    assert with_results(written, GOLDEN) == written


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END} {BEGIN}"])
def test_page_without_markers_is_not_written(page: str) -> None:
    with pytest.raises(ValueError, match="must contain the lines"):
        with_results(page, GOLDEN)


def test_picture_supports_dark_mode_and_marks_missed_limits() -> None:
    drawn = pictures({"fanout": FANOUT})
    assert [*drawn] == ["bench-fanout-limits.svg"]
    svg = drawn["bench-fanout-limits.svg"]
    assert "12%" in texts(svg)
    assert "113%, missed" in texts(svg)
    assert "prefers-color-scheme: dark" in svg
    assert pictures({"fanout": FANOUT}) == drawn


def test_peer_plot_has_a_text_alternative() -> None:
    name = "peer_ratio_at{zadd,5%}"
    ours, peer = spread(10, 1000, 2000, "deliveries/s"), spread(1, 100, 300, "deliveries/s")
    measured = run(check(name, value=10, unit="ratio"), ours={name: ours}, peers={name: peer})
    drawn = pictures({"peers": measured})
    assert [*drawn] == ["bench-peers-speeds.svg"]
    assert "zadd at 5%" in drawn["bench-peers-speeds.svg"]
    assert "by the peers: 1,000 against 100 for zadd,5%](pictures/bench-peers-speeds.svg)" in results(
        {"peers": measured}
    )


def test_judged_peer_speed_is_drawn() -> None:
    name = "peer_ratio_at{zadd,1%}"
    side = {name: spread(10, 1000, 2000, "deliveries/s")}
    measured = run(check(name, value=10, unit="ratio", limit=1.0), ours=side, peers=side)
    assert "zadd at 1%" in pictures({"peers": measured})["bench-peers-speeds.svg"]


def test_growth_plot_shows_multiples_and_has_a_text_alternative() -> None:
    sizes = {"10m_of_10m": (0.1, 100), "200m_of_200m": (2.0, 104), "1m_of_200m": (9.0, 900)}
    seconds = {f"audience_s{{{name}}}": spread(took, took, took) for name, (took, _) in sizes.items()}
    memory = {f"audience_mb{{{name}}}": spread(mb, mb, mb, "MB") for name, (_, mb) in sizes.items()}
    grown = run(*(check(name, value=1.0) for name in (*seconds, *memory)), ours=seconds | memory)
    drawn = pictures({"audience": grown})
    assert [*drawn] == ["bench-audience-growth.svg"]
    svg = drawn["bench-audience-growth.svg"]
    assert {"time × 20", "memory × 1.04", "10 million", "200 million", "× 100"} <= texts(svg)
    assert "time × 20; memory × 1.04](pictures/bench-audience-growth.svg)" in results({"audience": grown})


def texts(svg: str) -> set[str]:
    """Return the texts that the picture shows."""
    root = ElementTree.fromstring(svg)
    return {"".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text")}


def test_opens_plot_compares_bare_handler_and_redis_inbox() -> None:
    warm, deep, by_hand = (f"inbox_{name}_ratio{{embedded}}" for name in ("warm", "deep_page", "vs_redis_by_hand"))
    rate = {name: spread(value, value, value, "opens/s") for name, value in ((warm, 900), (deep, 300), (by_hand, 900))}
    bare = {name: spread(1800, 1800, 1800, "opens/s") for name in (warm, deep)}
    peers = {by_hand: spread(600, 600, 600, "opens/s")}
    measured = {"inbox": run(*(check(name, value=0.5) for name in rate), ours=rate, baseline=bare, peers=peers)}
    drawn = pictures(measured)
    assert [*drawn] == ["bench-inbox-opens.svg"]
    assert {"warm", "deep page", "900", "300", "1,800", "600"} <= texts(drawn["bench-inbox-opens.svg"])
    alternative = "warm: ours 900, bare handler 1,800, Redis by hand 600; deep page: ours 300, bare handler 1,800"
    assert f"![Inbox opens per second: {alternative}](pictures/bench-inbox-opens.svg)" in results(measured)


def test_latency_is_drawn_when_two_rates_were_measured() -> None:
    names = {f"inbox_latency_ms{{embedded,{share}%,p99}}": ms for share, ms in ((10, 2), (50, 8), (90, 40))}
    ours = {name: spread(ms, ms, ms, "ms") for name, ms in names.items()}
    rates = {name: f"at {share}00 opens/s" for name, share in zip(names, (1, 5, 9), strict=True)}
    measured = {"inbox": run(*(check(name, value=1.0, detail=rates[name]) for name in names), ours=ours)}
    drawn = pictures(measured)
    assert [*drawn] == ["bench-inbox-latency.svg"]
    assert {"p99 40 ms", "10 %", "90 %", "500/s", "1 ms", "100 ms"} <= texts(drawn["bench-inbox-latency.svg"])
    assert "maximum rate: p99 2 ms at 10 %, 8 ms at 50 %, 40 ms at 90 %](pictures" in results(measured)
    [first] = [name for name in names if ",10%," in name]
    assert pictures({"inbox": run(check(first), ours={first: ours[first]})}) == {}


@pytest.mark.parametrize(
    ("value", "limit", "ok", "share"),
    [
        (0.5, 1.0, True, LimitShare(of=0.5, at_least=False)),
        (2.0, 1.0, False, LimitShare(of=2.0, at_least=False)),
        (2.0, 1.0, True, LimitShare(of=0.5, at_least=True)),
        (0.5, 1.0, False, LimitShare(of=2.0, at_least=True)),
        (6, 6, True, LimitShare(of=1.0, at_least=None)),
        (0, 6, True, LimitShare(of=0.0, at_least=False)),
        (0, 6, False, None),
        (None, 6, False, None),
        (1.0, None, True, None),
    ],
)
def test_share_of_limit_knows_whether_more_is_better(
    value: float | None, limit: float | None, ok: bool, share: LimitShare | None
) -> None:
    assert share_of_limit({"value": value, "limit": limit, "ok": ok}) == share


def test_numbers_have_three_significant_digits() -> None:
    assert [number(value) for value in (0.12345, 12.345, 0, 3.0, 1234567.8, None, "x")] == [
        *("0.123", "12.3", "0", "3", "1,234,568", "–", "x")
    ]
