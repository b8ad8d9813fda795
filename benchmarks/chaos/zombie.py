"""`zombie_fenced`: a pump is silent for longer than its lease, another takes over, and the first one awakes."""

import time

from benchmarks.chaos.consumer_groups import await_members, commits, gone_back
from benchmarks.chaos.stage import Stage
from notifier.devkit.check.finding import Finding, agreement

NAME = "zombie_fenced"
MENTIONS, LASTING = 90, 24.0
AWAY = 8.0
"""Seconds; the lease is 5."""


def run(stage: Stage, *, quick: bool) -> Finding:
    """It awakes in the middle of a batch that was done by somebody else, and commits what isn't its own any more."""
    with stage.another("pump", name="other"):
        await_members(stage, 2)
        with stage.storming(MENTIONS, LASTING):
            time.sleep(2.0)
            with stage.stopped(stage.role("pump")):
                time.sleep(AWAY)
                took = stage.sequenced(stage.send(12))
                before = commits(stage)
            time.sleep(2.0)
            wrong = gone_back(before, commits(stage))
        wrong += stage.wrong()
        wrong += gone_back(before, commits(stage))
    finding = agreement(NAME, wrong, n=MENTIONS)
    if finding.ok:
        stage.tell(f"while it slept, events were sequenced within {took:.1f} s")
    return finding
