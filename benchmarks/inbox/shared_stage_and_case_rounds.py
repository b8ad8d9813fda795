"""One stage for all parts of the benchmark: loading it takes longer than most parts."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.inbox.baseline_and_warm_up import warm_up, with_baseline
from benchmarks.inbox.cases import Case
from benchmarks.inbox.figures import LoadSlice, Slices
from benchmarks.inbox.http_requests_and_load_loops import Answered
from benchmarks.inbox.measured_system import InboxStage, staged
from benchmarks.inbox.population import Population
from notifier.devkit.check.check_run import Report


@dataclass(slots=True, kw_only=True)
class SharedInboxStage:
    folder: Path
    profile: str
    population: Population = field(default_factory=Population)
    _opened: ExitStack = field(default_factory=ExitStack)
    _stage: InboxStage | None = None
    _warm: Sequence[Answered] | None = None
    _warmed: int | None = None
    """The API's process whose caches the warm users' first opens have filled."""

    def stage(self, tell: Report) -> InboxStage:
        if self._stage is None:
            self._stage = self._opened.enter_context(staged(self.folder / "stage", self.profile, self.population, tell))
        return self._stage

    def warm(self, tell: Report) -> Sequence[Answered]:
        """Return the first pages of the warm users, with the baseline running beside the product."""
        if self._warm is None:
            self._warm = self._opened.enter_context(with_baseline(self.stage(tell), tell))
            self._warmed = self.stage(tell).api()
        return self._warm

    def warm_stage(self, tell: Report) -> InboxStage:
        """Return the stage. Open the warm users' inboxes again if the API's process has been replaced."""
        self.warm(tell)
        stage = self.stage(tell)
        if self._warmed != stage.api():
            tell("opening the inbox of every warm user once in the new process")
            warm_up(stage)
            self._warmed = stage.api()
        return stage

    def leave(self) -> None:
        self._stage = self._warm = self._warmed = None
        self._opened.close()


# Rounds: every case is measured once in each, in an order that rotates.

ROUNDS, ROUNDS_QUICK = 5, 3
SLICE_S, SLICE_QUICK_S = 2.0, 1.0
"""Seconds per case and round."""


def played(stage: InboxStage, cases: Sequence[Case], *, quick: bool, tell: Report) -> Slices:
    """Measure each case in each round.

    Each round begins with another case, so that no case always follows the same one.
    """
    slices: dict[str, list[LoadSlice]] = {case.name: [] for case in cases}
    rounds, seconds = (ROUNDS_QUICK, SLICE_QUICK_S) if quick else (ROUNDS, SLICE_S)
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}: {', '.join(case.name for case in cases)}")
        for case in turned(cases, number):
            slices[case.name].append(stage.measure(case, seconds=seconds))
    return slices


def turned(cases: Sequence[Case], number: int) -> Sequence[Case]:
    at = number % len(cases)
    return [*cases[at:], *cases[:at]]
