"""`python -m benchmarks page`: the demo as its visitor has it: its start, its weight, and what it says of a storm."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import demo_page_render as seeing
from benchmarks.fanout.large_burst import FOLLOWERS, P1_S
from benchmarks.fanout.suite import Parts
from benchmarks.rounds import Figure, Spread, worst_at_most
from notifier.devkit.check.finding import agreement, at_most
from tests.support.browser.chromium import chromium
from tests.support.browser.page import StormTimes, without_inbox
from tests.support.demo_process import Demo

FRESH_S, AGAIN_S = 10.0, 6.0
PAGE_KB, SYSTEM_KB = 100.0, 50.0
"""Of 1,000 bytes."""
STARTS, STARTS_QUICK = 5, 2
STORMS, STORMS_QUICK = 4, 2
"""With the burst that the demo begins with, and one to spare, these are the six that the subject's budget affords."""
SMALL = 1_000_000
"""Followers, where a page is looked at and not waited for."""
SCHEMES = ("light", "dark")
DEMO_WIDTHS, INBOX_WIDTHS = (1440, 390), (600, 360)
"""Pixels: wide, and a phone."""
ROUNDED_S = 0.1
"""The page tells tenths of a second."""


def ready(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    return starts(folder, rounds=STARTS_QUICK if quick else STARTS, tell=tell)


def starts(folder: Path, *, rounds: int, tell: Callable[[str], None], arguments: Sequence[str] = ()) -> list[Figure]:
    """On empty folders, all ended at once but the last, whose first burst is delivered; then on the folder of that."""
    fresh: list[float] = []
    again: list[float] = []
    known: list[str] = []
    lost: list[str] = []
    for number in range(rounds):
        tell(f"start {number + 1} of {rounds} on an empty folder")
        os.sync()
        with Demo(data=folder / f"fresh{number}", words=arguments) as demo:
            fresh.append(demo.ready_s)
            if number + 1 == rounds:
                demo.whole()
                demo.delivered()
                known = demo.bursts()
    for number in range(rounds):
        tell(f"start {number + 1} of {rounds} on the folder of the last one")
        os.sync()
        with Demo(data=folder / f"fresh{rounds - 1}", words=arguments) as demo:
            again.append(demo.ready_s)
            lost += _forgotten(demo, known)
    return ready_figures(fresh, again, lost)


def _forgotten(demo: Demo, known: Sequence[str]) -> list[str]:
    if not known:
        return ["There was nothing to remember."]
    bursts = demo.bursts()
    return [f"It forgot {burst}." for burst in known if burst not in bursts or not demo.remembers]


def ready_figures(fresh: Sequence[float], again: Sequence[float], lost: Sequence[str]) -> list[Figure]:
    """A start that forgot something was fast for nothing."""
    detail = lost[0] if lost else "The world is the old one, and the inbox has what it had."
    second = worst_at_most("demo_ready_s{again}", again, AGAIN_S, detail=detail)
    return [
        worst_at_most("demo_ready_s{fresh}", fresh, FRESH_S, detail="From the command until its page answers."),
        replace(second, finding=replace(second.finding, ok=second.finding.ok and not lost)),
    ]


def accessibility(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    """All states of both pages, light and dark, wide and on a phone; none can be left out where it must be `quick`."""
    executable = chromium()
    from tests.support.browser.accessibility import demo_violations, inbox_violations
    from tests.support.browser.chromium import headless
    from tests.support.browser.page_weight import weighed

    violations: dict[str, list[str]] = {}
    with Demo(data=folder / "demo", words=("--followers", str(SMALL))) as demo, headless(executable) as browser:
        demo.whole()
        demo.delivered()
        tell("what the page weighs")
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
    """Of all that was loaded, and of what is left without the inbox."""
    return [
        _weight("page_kb", sizes, PAGE_KB, "with the inbox and what it asks for"),
        _weight("page_kb{system}", without_inbox(sizes), SYSTEM_KB, "without the inbox"),
    ]


def axe_figure(violations: Mapping[str, Sequence[str]]) -> Figure:
    """By state what is wrong there; a state that is fine is in it, too, because it was looked at."""
    wrong = [f"{state}: {rule}" for state, rules in violations.items() for rule in rules]
    finding = agreement("axe_violations", wrong, n=len(violations))
    return Figure(finding=finding, ours=Spread.of([len(rules) for rules in violations.values()] or [0], "a look"))


def storm(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    """In the world that the demo has by default."""
    executable = chromium()
    from tests.support.browser.chromium import headless
    from tests.support.browser.storm_watcher import Watcher

    seen: list[StormTimes] = []
    with Demo(data=folder / "demo") as demo, headless(executable) as browser:
        tell("the world is being loaded")
        demo.whole()
        with Watcher.on(browser, demo.url) as watcher:
            for number in range(rounds := STORMS_QUICK if quick else STORMS):
                tell(f"storm {number + 1} of {rounds}")
                seen.append(watcher.storm())
    return [storm_figure(seen)]


def storm_figure(seen: Sequence[StormTimes]) -> Figure:
    """The page's own word is judged; that it can't be true, or is of another world, fails the figure."""
    delivered_s = [watched.reported_s for watched in seen]
    wrong = [detail for watched in seen if (detail := _contradiction(watched))]
    slowest = max(watched.shown_s for watched in seen)
    detail = f"P1 is {seen[0].people:,} people; {slowest:.1f} s at most from the press until the page said so."
    figure = worst_at_most("demo_200m_p1_s", delivered_s, P1_S, detail=wrong[0] if wrong else detail)
    return replace(figure, finding=replace(figure.finding, ok=figure.finding.ok and not wrong))


def _contradiction(seen: StormTimes) -> str:
    if seen.followers != FOLLOWERS:
        return f"The page speaks of {seen.followers:,} followers."
    if not seen.people:
        return "The page says that P1 is nobody."
    if seen.reported_s > seen.shown_s + ROUNDED_S:
        return f"The page said {seen.reported_s:g} s when {seen.shown_s:.1f} s had passed."
    return ""


def _weight(name: str, sizes: Mapping[str, int], limit: float, title: str) -> Figure:
    files = [size for path, size in sizes.items() if path == "/" or path.startswith("/static/")]
    answers = sum(sizes.values()) - sum(files)
    detail = f"{title}: {sum(files):,} bytes in {len(files)} files, {answers:,} in answers of the API"
    kb = sum(sizes.values()) / 1000
    finding = at_most(name, kb, limit, unit="kB", n=len(sizes), detail=detail)
    return Figure(finding=finding, ours=Spread.of([kb], "kB"))


PARTS: Parts = {
    "ready": (ready, ("demo_ready_s{fresh}", "demo_ready_s{again}")),
    "looks": (accessibility, ("page_kb", "page_kb{system}", "axe_violations")),
    "storm": (storm, ("demo_200m_p1_s",)),
    "seeing": (seeing.run, ("live_visible_s{page}",)),
}
