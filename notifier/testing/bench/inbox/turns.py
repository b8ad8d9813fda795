"""Rounds: every case is measured once in each, in an order that turns from round to round."""

from collections.abc import Sequence

from notifier.testing.bench.inbox.cases import Case
from notifier.testing.bench.inbox.figures import Slices
from notifier.testing.bench.inbox.measured import Slice
from notifier.testing.bench.inbox.stage import Stage
from notifier.testing.trial import Tell

ROUNDS, ROUNDS_QUICK = 5, 3
SLICE_S, SLICE_QUICK_S = 2.0, 1.0
"""Seconds of a case in a round."""


def played(stage: Stage, cases: Sequence[Case], *, quick: bool, tell: Tell) -> Slices:
    """Measure each case in each round. Another case begins each round, so that none always follows the same one."""
    found: dict[str, list[Slice]] = {case.name: [] for case in cases}
    rounds, seconds = (ROUNDS_QUICK, SLICE_QUICK_S) if quick else (ROUNDS, SLICE_S)
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}: {', '.join(case.name for case in cases)}")
        for case in turned(cases, number):
            found[case.name].append(stage.measure(case, seconds=seconds))
    return found


def turned(cases: Sequence[Case], number: int) -> Sequence[Case]:
    at = number % len(cases)
    return [*cases[at:], *cases[:at]]
