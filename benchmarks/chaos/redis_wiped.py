"""`redis_wiped_recovers`: Redis is emptied in a storm. Measures the rebuild of the pull index."""

import time

from benchmarks.chaos.scenario_stage import Stage
from notifier.adapters.redis.connect import connect
from notifier.devkit.check.finding_and_quantiles import Finding, at_most, no_errors
from notifier.domain.errors import CacheUnavailable

NAME = "redis_wiped_recovers"
LIMIT = 30.0
"""Seconds, for a hundred bursts or so. `redis_rebuild_s` measures the rebuild with many."""
MENTIONS, STORM_SECONDS = 60, 12.0


def run(stage: Stage, *, quick: bool) -> Finding:
    with stage.storming(MENTIONS, STORM_SECONDS):
        time.sleep(STORM_SECONDS / 3)
        client = connect(stage.profile.redis_url())
        client.flushall()
        client.close()
        took = _whole(stage)
    if wrong := stage.wrong():
        return no_errors(NAME, wrong, n=MENTIONS)
    return at_most(NAME, took, LIMIT, unit="s", n=MENTIONS)


def _whole(stage: Stage) -> float:
    began = time.monotonic()
    while time.monotonic() < began + 2 * LIMIT:
        try:
            if stage.ports.pull.generation() is not None:
                break
        except CacheUnavailable:
            pass
        time.sleep(0.05)
    return time.monotonic() - began
