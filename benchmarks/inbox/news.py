"""New news: every open comes after a burst of the user's page has grown."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.inbox.cases import BARE_PAGE, NEWS
from benchmarks.inbox.figures import Reading, Slice, cpu, ratio, right_answers
from benchmarks.inbox.shared_stage import ROUNDS, ROUNDS_QUICK, SLICE_QUICK_S, SLICE_S, Shared
from benchmarks.inbox.stage import Stage
from benchmarks.rounds import Figure

A_PASS = 500
"""Different users who open after each growth, so that nobody opens an unchanged page."""


def names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_news_ratio{{{profile}}}",
        f"inbox_cpu_us{{{profile},news}}",
        f"inbox_right_answers{{{profile},news}}",
    )


def run(shared: Shared, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, profile = shared.warm_stage(tell), shared.profile
    rounds, seconds = (ROUNDS_QUICK, SLICE_QUICK_S) if quick else (ROUNDS, SLICE_S)
    found: dict[str, list[Slice]] = {BARE_PAGE.name: [], NEWS.name: []}
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}: a burst grows, {A_PASS} users look, and again")
        found[BARE_PAGE.name].append(stage.measure(BARE_PAGE, seconds=seconds))
        found[NEWS.name].append(grown_and_opened(stage, seconds))
    mine, bare = found[NEWS.name], found[BARE_PAGE.name]
    return [
        ratio(f"inbox_news_ratio{{{profile}}}", mine, bare, None),
        cpu(f"inbox_cpu_us{{{profile},news}}", mine, bare),
        right_answers(f"inbox_right_answers{{{profile},news}}", [BARE_PAGE, NEWS], found),
    ]


def grown_and_opened(stage: Stage, seconds: float) -> Slice:
    """Grow the award show's burst and open a pass of inboxes, again and again; only the opens are timed."""
    passes: list[Slice] = []
    ends = time.monotonic() + seconds
    while not passes or time.monotonic() < ends:
        stage.grow_award()
        passes.append(stage.measure(NEWS, count=A_PASS, seconds=seconds))
    return merged(passes)


def merged(slices: Sequence[Slice]) -> Slice:
    """Add slices of one case up; a percentile is the median of theirs."""
    readings = [each.reading for each in slices]
    opens, seconds = sum(each.opens for each in readings), sum(each.seconds for each in readings)
    whole = Reading(
        opens=opens,
        seconds=seconds,
        latency={name: median(each.latency[name] for each in readings) for name in readings[0].latency},
        statuses=sum((Counter(each.statuses) for each in readings), Counter[int]()),
        body=sum(each.body * each.opens for each in readings) / max(1, opens),
        busy=sum(each.busy * each.seconds for each in readings) / seconds,
        failed=sum(each.failed for each in readings),
    )
    return Slice(
        reading=whole,
        processor_s=sum(each.processor_s for each in slices),
        counters={name: sum(each.counters.get(name, 0.0) for each in slices) for name in slices[-1].counters},
    )
