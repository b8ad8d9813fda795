"""One stage for all parts of a bench: loading it takes longer than most of them."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from notifier.testing.bench.inbox.beside import beside
from notifier.testing.bench.inbox.messages import Answered
from notifier.testing.bench.inbox.population import Population
from notifier.testing.bench.inbox.stage import Stage, staged
from notifier.testing.trial import Tell


@dataclass(slots=True, kw_only=True)
class Shared:
    folder: Path
    profile: str
    population: Population = field(default_factory=Population)
    _opened: ExitStack = field(default_factory=ExitStack)
    _stage: Stage | None = None
    _warm: Sequence[Answered] | None = None

    def stage(self, tell: Tell) -> Stage:
        if self._stage is None:
            self._stage = self._opened.enter_context(
                staged(self.folder / "stage", self.profile, self.population, tell)
            )
        return self._stage

    def warm(self, tell: Tell) -> Sequence[Answered]:
        """Return the pages of the warm users, with the baseline started beside the product."""
        if self._warm is None:
            self._warm = self._opened.enter_context(beside(self.stage(tell), tell))
        return self._warm

    def leave(self) -> None:
        self._stage = self._warm = None
        self._opened.close()
