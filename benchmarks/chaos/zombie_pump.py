"""`zombie_fenced`: a pump pauses for longer than its lease, another takes over, and it resumes."""

import time

from benchmarks.chaos.consumer_group_state import await_members, commits, gone_back
from benchmarks.chaos.scenario_stage import Stage
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors

NAME = "zombie_fenced"
MENTIONS, STORM_SECONDS = 90, 24.0
PAUSE_SECONDS = 8.0
"""Longer than the lease, which takes 5 s."""


def run(stage: Stage, *, quick: bool) -> Finding:
    """Resume a pump in the middle of a batch that another one has processed.

    It then commits partitions that it has lost.
    """
    with stage.another("pump", name="other"):
        await_members(stage, 2)
        with stage.storming(MENTIONS, STORM_SECONDS):
            time.sleep(2.0)
            with stage.stopped(stage.role("pump")):
                time.sleep(PAUSE_SECONDS)
                took = stage.sequenced(stage.send(12))
                before = commits(stage)
            time.sleep(2.0)
            wrong = gone_back(before, commits(stage))
        wrong += stage.wrong()
        wrong += gone_back(before, commits(stage))
    finding = no_errors(NAME, wrong, n=MENTIONS)
    if finding.ok:
        stage.tell(f"during the pause, events were sequenced within {took:.1f} s")
    return finding
