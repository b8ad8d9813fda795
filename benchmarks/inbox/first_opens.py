"""Measures first opens of users in a process, from Redis and from the store alone."""

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.costs_and_figures import Figure
from benchmarks.inbox.baseline_and_warm_up import warm_up
from benchmarks.inbox.cases import BARE_PAGE, FIRST, Case
from benchmarks.inbox.figures import REDIS, STORE, LoadSlice, calls, cpu, ratio, right_answers
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import SLICE_QUICK_S, SLICE_S, SharedInboxStage
from notifier.devkit.check.check_run import Report
from notifier.domain.users.visibility import MAX_CLOCK_SKEW

ROUNDS, ROUNDS_QUICK = 4, 2
USERS, USERS_QUICK = 400, 200
"""VIPs per round. No VIP is measured in two rounds."""
OTHER_USERS = 2_000
"""Users who open before. A process that has served other users knows most of the accounts that a new user follows."""
TIMEOUT_SECONDS = 60.0
"""Time limit for the opens of a round."""
FOLLOW_SECONDS = MAX_CLOCK_SKEW.total_seconds() + 1
STORE_CALLS = 3.0
"""Round trips to the store per first open."""
LIMITS = {"redis": {"embedded": None, "cluster": 0.15}, "store": {"embedded": None, "cluster": 0.05}}
"""Least ratio against the bare handler."""


def names(profile: str) -> tuple[str, ...]:
    return tuple(name for way in LIMITS for name in _names(profile, way))


def _names(profile: str, way: str) -> tuple[str, ...]:
    case = f"{{{profile},{way}}}"
    return (
        f"inbox_first_ratio{case}",
        f"inbox_first_cpu_us{case}",
        f"inbox_first_store_calls{case}",
        f"inbox_first_redis_calls{case}",
        f"inbox_first_right_answers{case}",
    )


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage = shared.warm_stage(tell)
    rounds, users, seconds = (ROUNDS_QUICK, USERS_QUICK, SLICE_QUICK_S) if quick else (ROUNDS, USERS, SLICE_S)
    slices: dict[str, list[LoadSlice]] = {BARE_PAGE.name: [], "redis": [], "store": []}
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}: {users} VIPs in a new process, with Redis, then from the store")
        user_range = {"first": number * users, "count": users}
        _renew(stage)
        with stage.second_api() as port:
            # A process trusts data from others once it has followed changes for longer than clocks may differ.
            time.sleep(FOLLOW_SECONDS)
            stage.client.run(
                stage.files.path(FIRST.requests), port, connections=16, seconds=TIMEOUT_SECONDS, **user_range
            )
        slices["redis"].append(stage.measure(FIRST, seconds=TIMEOUT_SECONDS, **user_range))
        empty_cache(stage, tell)
        _renew(stage)
        slices["store"].append(stage.measure(FIRST, seconds=TIMEOUT_SECONDS, **user_range))
        slices[BARE_PAGE.name].append(stage.measure(BARE_PAGE, seconds=seconds))
    return [figure for way in LIMITS for figure in _figures(shared.profile, way, slices)]


def _renew(stage: InboxStage) -> None:
    stage.restart_api()
    warm_up(stage, OTHER_USERS)


def empty_cache(stage: InboxStage, tell: Report) -> None:
    """Empty Redis, and wait until the pump has rebuilt the index of bursts, which belongs to no user."""
    stage.cache.flush()
    if not stage.indexed():
        tell("the index of bursts is incomplete; continuing without it")


def _figures(profile: str, way: str, slices: dict[str, list[LoadSlice]]) -> list[Figure]:
    mine, bare = slices[way], slices[BARE_PAGE.name]
    rate, processor, store, cache, right = _names(profile, way)
    case = Case(name=way, requests=FIRST.requests)
    return [
        ratio(rate, mine, bare, LIMITS[way][profile]),
        cpu(processor, mine, bare),
        calls(store, mine, STORE, STORE_CALLS),
        calls(cache, mine, REDIS, None),
        right_answers(right, [case], slices),
    ]
