"""Measures warm opens: each case against the bare handler, and the page against typical designs."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.costs_and_figures import Figure
from benchmarks.inbox.baseline_and_warm_up import write_later_pages, write_not_modified
from benchmarks.inbox.cases import BARE_PAGE, BARE_UNREAD, BY_HAND, PAGES, WARM
from benchmarks.inbox.figures import REDIS, STORE, calls, cpu, ratio, ratio_to_peer, redis_cpu, right_answers
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage, played

BY_HAND_RATIO = 1.0
STORE_CALLS = 0.01
"""Calls per warm open: the process reads recent bursts a few times a second, independent of opens."""


def names(profile: str) -> tuple[str, ...]:
    return (
        *(f"inbox_{case.name}_ratio{{{profile}}}" for case in PAGES),
        f"inbox_vs_redis_by_hand_ratio{{{profile}}}",
        *(f"inbox_cpu_us{{{profile},{case.name}}}" for case in PAGES),
        f"inbox_store_calls{{{profile},warm}}",
        f"inbox_redis_calls{{{profile},warm}}",
        f"inbox_redis_cpu_us{{{profile},warm}}",
        f"inbox_right_answers{{{profile},pages}}",
    )


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, warm, profile = shared.stage(tell), shared.warm(tell), shared.profile
    write_not_modified(stage, warm)
    write_later_pages(stage, warm)
    cases = [BARE_PAGE, BARE_UNREAD, BY_HAND, *PAGES]
    slices = played(stage, cases, quick=quick, tell=tell)
    mine = slices[WARM.name]
    return [
        *(
            ratio(f"inbox_{case.name}_ratio{{{profile}}}", slices[case.name], slices[case.against], case.limit(profile))
            for case in PAGES
        ),
        ratio_to_peer(f"inbox_vs_redis_by_hand_ratio{{{profile}}}", mine, slices[BY_HAND.name], BY_HAND_RATIO),
        *(cpu(f"inbox_cpu_us{{{profile},{case.name}}}", slices[case.name], slices[case.against]) for case in PAGES),
        calls(f"inbox_store_calls{{{profile},warm}}", mine, STORE, STORE_CALLS),
        calls(f"inbox_redis_calls{{{profile},warm}}", mine, REDIS, None),
        redis_cpu(f"inbox_redis_cpu_us{{{profile},warm}}", mine),
        right_answers(f"inbox_right_answers{{{profile},pages}}", cases, slices),
    ]
