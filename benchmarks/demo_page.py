"""`python -m benchmarks page`: measures the demo's start, its page's weight and accessibility, and storms."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import page_update_latency
from benchmarks.costs_and_figures import Figure, Spread, worst_at_most
from benchmarks.fanout.large_burst_speed_and_recovery import FOLLOWERS, P1_S
from benchmarks.fanout.suite import Parts
from notifier.devkit.check.finding_and_quantiles import at_most, no_errors
from tests.support.browser.chromium import chromium
from tests.support.browser.page_weight import weighed, without_inbox
from tests.support.browser.storm_watcher import StormTimes, Watcher
from tests.support.demo_process import Demo

FRESH_S, AGAIN_S = 10.0, 6.0
PAGE_KB, SYSTEM_KB = 100.0, 50.0
"""kB of 1,000 bytes."""
STARTS, STARTS_QUICK = 5, 2
STORMS, STORMS_QUICK = 4, 2
"""The subject's fan-out budget has six bursts: four storms, the demo's first burst, and one in reserve."""
SMALL_FOLLOWERS = 1_000_000
"""Followers in a demo whose page is only looked at."""
SCHEMES = ("light", "dark")
DEMO_WIDTHS, INBOX_WIDTHS = (1440, 390), (600, 360)
"""Pixels: a wide screen and a phone."""
ROUNDED_S = 0.1
"""Rounding of the page's times: it shows tenths of a second."""


def ready(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    return starts(folder, rounds=STARTS_QUICK if quick else STARTS, tell=tell)


def starts(folder: Path, *, rounds: int, tell: Callable[[str], None], arguments: Sequence[str] = ()) -> list[Figure]:
    """Start on empty folders, and let only the last deliver its first burst. Then start on the last folder again."""
    fresh: list[float] = []
    again: list[float] = []
    known: list[str] = []
    lost: list[str] = []
    for number in range(rounds):
        tell(f"start {number + 1} of {rounds} on an empty folder")
        os.sync()
        with Demo(data=folder / f"fresh{number}", arguments=arguments) as demo:
            fresh.append(demo.ready_s)
            if number + 1 == rounds:
                demo.wait_until_loaded()
                demo.wait_until_delivered()
                known = demo.bursts()
    for number in range(rounds):
        tell(f"start {number + 1} of {rounds} on the last folder")
        os.sync()
        with Demo(data=folder / f"fresh{rounds - 1}", arguments=arguments) as demo:
            again.append(demo.ready_s)
            lost += _forgotten(demo, known)
    return ready_figures(fresh, again, lost)


def _forgotten(demo: Demo, known: Sequence[str]) -> list[str]:
    if not known:
        return ["the inbox was empty before the restart"]
    bursts = demo.bursts()
    return [f"the inbox lost {burst}" for burst in known if burst not in bursts or not demo.kept_users]


def ready_figures(fresh: Sequence[float], again: Sequence[float], lost: Sequence[str]) -> list[Figure]:
    """Make the figures. A start that lost something fails, however fast it was."""
    detail = lost[0] if lost else "World and inbox are the same as before."
    second = worst_at_most("demo_ready_s{again}", again, AGAIN_S, detail=detail)
    return [
        worst_at_most("demo_ready_s{fresh}", fresh, FRESH_S, detail="From the command until its page responds."),
        replace(second, finding=replace(second.finding, ok=second.finding.ok and not lost)),
    ]


def accessibility(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    """Measure all states of both pages, in light and dark, wide and on a phone. `quick` leaves out none of them."""
    executable = chromium()
    from tests.support.browser.accessibility import demo_violations, inbox_violations
    from tests.support.browser.chromium import headless

    violations: dict[str, list[str]] = {}
    with (
        Demo(data=folder / "demo", arguments=("--followers", str(SMALL_FOLLOWERS))) as demo,
        headless(executable) as browser,
    ):
        demo.wait_until_loaded()
        demo.wait_until_delivered()
        tell("weighing the page")
        sizes = weighed(browser, demo.url)
        for scheme in SCHEMES:
            for width in DEMO_WIDTHS:
                tell(f"axe on the demo's page, {scheme}, {width} pixels wide")
                violations |= demo_violations(browser, demo.url, scheme=scheme, width=width)
            for width in INBOX_WIDTHS:
                tell(f"axe on the inbox, {scheme}, {width} pixels wide")
                violations |= inbox_violations(browser, scheme=scheme, width=width)
    return [*weight_figures(sizes), axe_figure(violations)]


def weight_figures(sizes: Mapping[str, int]) -> list[Figure]:
    """Return the weight of everything that was loaded, and the weight without the inbox."""
    return [
        _weight("page_kb", sizes, PAGE_KB, "with the inbox and its requests"),
        _weight("page_kb{system}", without_inbox(sizes), SYSTEM_KB, "without the inbox"),
    ]


def axe_figure(violations: Mapping[str, Sequence[str]]) -> Figure:
    """Report the violations by state. States without violations are included, because they were checked."""
    wrong = [f"{state}: {rule}" for state, rules in violations.items() for rule in rules]
    finding = no_errors("axe_violations", wrong, n=len(violations))
    return Figure(finding=finding, ours=Spread.of([len(rules) for rules in violations.values()] or [0], "per state"))


def storm(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    """Measure storms in the demo's default world."""
    executable = chromium()
    from tests.support.browser.chromium import headless

    seen: list[StormTimes] = []
    with Demo(data=folder / "demo") as demo, headless(executable) as browser:
        tell("loading the world")
        demo.wait_until_loaded()
        with Watcher.on(browser, demo.url) as watcher:
            for number in range(rounds := STORMS_QUICK if quick else STORMS):
                tell(f"storm {number + 1} of {rounds}")
                seen.append(watcher.storm())
    return [storm_figure(seen)]


def storm_figure(seen: Sequence[StormTimes]) -> Figure:
    """Judge the time that the page shows. An impossible time, or another world, fails the figure."""
    delivered_s = [watched.reported_s for watched in seen]
    wrong = [detail for watched in seen if (detail := _contradiction(watched))]
    slowest = max(watched.shown_s for watched in seen)
    detail = f"P1 is {seen[0].people:,} users; at most {slowest:.1f} s from the press until the page showed it."
    figure = worst_at_most("demo_200m_p1_s", delivered_s, P1_S, detail=wrong[0] if wrong else detail)
    return replace(figure, finding=replace(figure.finding, ok=figure.finding.ok and not wrong))


def _contradiction(seen: StormTimes) -> str:
    if seen.followers != FOLLOWERS:
        return f"The page shows {seen.followers:,} followers."
    if not seen.people:
        return "The page shows an empty P1."
    if seen.reported_s > seen.shown_s + ROUNDED_S:
        return f"The page showed {seen.reported_s:g} s after only {seen.shown_s:.1f} s."
    return ""


def _weight(name: str, sizes: Mapping[str, int], limit: float, title: str) -> Figure:
    files = [size for path, size in sizes.items() if path == "/" or path.startswith("/static/")]
    answers = sum(sizes.values()) - sum(files)
    detail = f"{title}: {sum(files):,} bytes in {len(files)} files, {answers:,} in API responses"
    kb = sum(sizes.values()) / 1000
    finding = at_most(name, kb, limit, unit="kB", n=len(sizes), detail=detail)
    return Figure(finding=finding, ours=Spread.of([kb], "kB"))


PARTS: Parts = {
    "ready": (ready, ("demo_ready_s{fresh}", "demo_ready_s{again}")),
    "looks": (accessibility, ("page_kb", "page_kb{system}", "axe_violations")),
    "storm": (storm, ("demo_200m_p1_s",)),
    "seeing": (page_update_latency.run, ("live_visible_s{page}",)),
}
