"""Runs and checks a script, and shortens a failing one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tests.support.simulator.checks import violations_of
from tests.support.simulator.script import Script
from tests.support.simulator.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    script: Script
    wrong: Sequence[str]
    story: Sequence[tuple[int, datetime, str]]
    points: Mapping[str, Sequence[str]]
    """Calls of each thread, before and after every effect."""
    visit_count: int

    def __str__(self) -> str:
        s = self.script
        lines = [f"seed {s.seed}, {s.steps} steps, {s.pumps} pumps, {s.workers} workers of each pool"]
        lines += [f"{step:6} {now:%d %H:%M:%S.%f} {text}" for step, now, text in self.story]
        return "\n".join([*lines, "and then:", *(f"  {text}" for text in self.wrong)])


def trial(script: Script) -> Trial:
    simulation = Simulation(script)
    simulation.run()
    return Trial(
        script=script,
        wrong=violations_of(simulation),
        story=simulation.scheduler.story,
        points=dict(simulation.scheduler.points),
        visit_count=simulation.visits.count,
    )


def shortened(failing: Trial, tries: int = 150, play: Callable[[Script], Trial] = trial) -> Trial:
    """Drop entries one by one, then the crowd, workers and pumps, if the script still fails."""
    best, n = failing, 0
    while n < len(best.script.entries) and tries > 0:
        entries = best.script.entries
        without = play(replace(best.script, entries=[*entries[:n], *entries[n + 1 :]]))
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
