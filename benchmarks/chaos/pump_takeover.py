"""`takeover_s`: a pump is killed, and another pump takes over its partitions."""

import os
import signal

from benchmarks.chaos.consumer_group_state import await_members
from benchmarks.chaos.scenario_stage import Stage
from notifier.devkit.check.finding_and_quantiles import Finding, at_most, no_errors

NAME = "takeover_s"
LIMIT = 10.0
"""Seconds until events flow again. A consumer's lease takes 5 of them."""
EVENTS = 12
"""Enough for every partition to get some."""


def run(stage: Stage, *, quick: bool) -> Finding:
    """Measure with a suspended supervisor, so that the killed process is not restarted."""
    with stage.another("pump", name="second"):
        await_members(stage, 2)
        with stage.unattended():
            os.kill(stage.role("pump"), signal.SIGKILL)
            took = stage.sequenced(stage.send(EVENTS))
        wrong = stage.wrong()
    if wrong:
        return no_errors(NAME, wrong, n=EVENTS)
    return at_most(NAME, took, LIMIT, unit="s", n=EVENTS)
