"""`clock_off`: a pump and workers with clocks 3 s off run beside correct ones."""

import os
import signal
import time
from contextlib import ExitStack
from datetime import timedelta

from benchmarks.chaos.consumer_group_state import await_members
from benchmarks.chaos.scenario_stage import Stage
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.domain.delivery.slice_and_pool import Pool

NAME = "clock_off"
CLOCK_OFFSETS = (timedelta(seconds=3), timedelta(seconds=-3))
MENTIONS, STORM_SECONDS = 60, 12.0
POOLS = tuple(Pool)


def run(stage: Stage, *, quick: bool) -> Finding:
    """Kill the pump with the correct clock halfway.

    It is restarted, so subjects move between the clocks in both directions.
    """
    wrong: list[str] = []
    for number, off in enumerate(CLOCK_OFFSETS):
        with ExitStack() as askew_roles:
            askew_roles.enter_context(stage.another("pump", name=f"askew-{number}", clock=off))
            for pool in POOLS:
                askew_roles.enter_context(stage.another("worker", pool, name=f"askew-{number}-{pool}", clock=off))
            await_members(stage, 2)
            with stage.storming(MENTIONS, STORM_SECONDS):
                time.sleep(STORM_SECONDS / 3)
                os.kill(stage.role("pump"), signal.SIGKILL)
            wrong += [f"{off.total_seconds():+g} s: {text}" for text in stage.wrong()]
    return no_errors(NAME, wrong, n=len(CLOCK_OFFSETS) * MENTIONS)
