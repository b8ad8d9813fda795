"""All parts of `notifier bench inbox` for one profile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from notifier.testing.bench.fanout import Parts
from notifier.testing.bench.inbox import pages
from notifier.testing.bench.inbox.shared import Shared
from notifier.testing.bench.rounds import Figure

ON_STAGE = {"pages": pages}


@dataclass(frozen=True, slots=True)
class OnStage:
    """A part that needs the running product."""

    module: ModuleType
    shared: Shared

    def __call__(self, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        try:
            found: list[Figure] = self.module.run(self.shared, folder, quick=quick, tell=tell)
        except BaseException:
            self.shared.leave()  # the next part gets a stage that nothing has happened to
            raise
        return found


@contextmanager
def parts(folder: Path, profile: str) -> Iterator[Parts]:
    shared = Shared(folder=folder, profile=profile)
    try:
        yield {name: (OnStage(module, shared), module.names(profile)) for name, module in ON_STAGE.items()}
    finally:
        shared.leave()
