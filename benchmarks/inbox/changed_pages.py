"""Measures opens of pages that have changed: a burst grows before each pass."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.costs_and_figures import Figure
from benchmarks.inbox.cases import BARE_PAGE, NEWS
from benchmarks.inbox.figures import LoadReading, LoadSlice, cpu, ratio, right_answers
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import ROUNDS, ROUNDS_QUICK, SLICE_QUICK_S, SLICE_S, SharedInboxStage

USERS_PER_PASS = 500
"""Users who open after each growth, so that no user opens an unchanged page."""


def names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_news_ratio{{{profile}}}",
        f"inbox_cpu_us{{{profile},news}}",
        f"inbox_right_answers{{{profile},news}}",
    )


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, profile = shared.warm_stage(tell), shared.profile
    rounds, seconds = (ROUNDS_QUICK, SLICE_QUICK_S) if quick else (ROUNDS, SLICE_S)
    slices: dict[str, list[LoadSlice]] = {BARE_PAGE.name: [], NEWS.name: []}
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}: a burst grows and {USERS_PER_PASS} users open, repeatedly")
        slices[BARE_PAGE.name].append(stage.measure(BARE_PAGE, seconds=seconds))
        slices[NEWS.name].append(opens_after_growth(stage, seconds))
    mine, bare = slices[NEWS.name], slices[BARE_PAGE.name]
    return [
        ratio(f"inbox_news_ratio{{{profile}}}", mine, bare, None),
        cpu(f"inbox_cpu_us{{{profile},news}}", mine, bare),
        right_answers(f"inbox_right_answers{{{profile},news}}", [BARE_PAGE, NEWS], slices),
    ]


def opens_after_growth(stage: InboxStage, seconds: float) -> LoadSlice:
    """Grow the award show's burst and open a pass of inboxes, repeatedly. Only the opens are timed."""
    passes: list[LoadSlice] = []
    ends = time.monotonic() + seconds
    while not passes or time.monotonic() < ends:
        stage.grow_award()
        passes.append(stage.measure(NEWS, count=USERS_PER_PASS, seconds=seconds))
    return merged(passes)


def merged(slices: Sequence[LoadSlice]) -> LoadSlice:
    """Add up the loads of one case. Each percentile is the median of theirs."""
    readings = [item.reading for item in slices]
    opens, seconds = sum(item.opens for item in readings), sum(item.seconds for item in readings)
    whole = LoadReading(
        opens=opens,
        seconds=seconds,
        latency={name: median(item.latency[name] for item in readings) for name in readings[0].latency},
        statuses=sum((Counter(item.statuses) for item in readings), Counter[int]()),
        body=sum(item.body * item.opens for item in readings) / max(1, opens),
        busy=sum(item.busy * item.seconds for item in readings) / seconds,
        failed=sum(item.failed for item in readings),
    )
    return LoadSlice(
        reading=whole,
        processor_s=sum(item.processor_s for item in slices),
        counters={name: sum(item.counters.get(name, 0.0) for item in slices) for name in slices[-1].counters},
    )
