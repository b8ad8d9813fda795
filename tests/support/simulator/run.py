"""A trial: one script played and judged; a failing one is cut down to the shortest story that still fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tests.support.simulator.checks import verdict
from tests.support.simulator.script import Script
from tests.support.simulator.simulation import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    script: Script
    wrong: Sequence[str]
    story: Sequence[tuple[int, datetime, str]]
    points: Mapping[str, Sequence[str]]
    """What each thread called, before and behind every effect."""
    visits: int

    def __str__(self) -> str:
        s = self.script
        lines = [f"seed {s.seed}, {s.steps} steps, {s.pumps} pumps, {s.workers} workers of each pool"]
        lines += [f"{step:6} {now:%d %H:%M:%S.%f} {text}" for step, now, text in self.story]
        return "\n".join([*lines, "and then:", *(f"  {text}" for text in self.wrong)])


def trial(script: Script) -> Trial:
    world = World(script)
    world.run()
    return Trial(
        script=script,
        wrong=verdict(world),
        story=world.scheduler.story,
        points=dict(world.scheduler.points),
        visits=world.visits.n,
    )


def shortest(failing: Trial, tries: int = 150, play: Callable[[Script], Trial] = trial) -> Trial:
    """Leaves out one happening after another as long as something still goes wrong."""
    best, n = failing, 0
    while n < len(best.script.happenings) and tries > 0:
        happenings = best.script.happenings
        without = play(replace(best.script, happenings=[*happenings[:n], *happenings[n + 1 :]]))
        tries -= 1
        best, n = (without, n) if without.wrong else (best, n + 1)
    for simplify in (_without_crowd, _with_one_worker, _with_one_pump):
        simpler = play(simplify(best.script))
        best = simpler if simpler.wrong else best
    return best


def _without_crowd(script: Script) -> Script:
    return replace(script, crowd=0)


def _with_one_worker(script: Script) -> Script:
    return replace(script, workers=1)


def _with_one_pump(script: Script) -> Script:
    return replace(script, pumps=1)
