"""Runs the scenarios in order. Most share a stage, which is replaced after a failure."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import ModuleType

from benchmarks.chaos import broker_down as log_down
from benchmarks.chaos import clock_skew as clock_off
from benchmarks.chaos import disk_full, takeover, zombie
from benchmarks.chaos import lost_cas_answer as lost_answer
from benchmarks.chaos import node_down as ring
from benchmarks.chaos import partitions_grown as growing
from benchmarks.chaos import poison_record as poison
from benchmarks.chaos import redis_wiped as wiped
from benchmarks.chaos import rolling_migration as migrating
from benchmarks.chaos import schema_versions as versions
from benchmarks.chaos import store_outage as outage
from benchmarks.chaos import topic_deleted as deleted
from benchmarks.chaos import ttl as lives
from benchmarks.chaos import workers_killed as killed
from benchmarks.chaos.stage import Stage, stage
from benchmarks.fanout.suite import Parts
from benchmarks.rounds import Figure
from notifier.devkit.check.run import Report

SHARING = (
    takeover,
    zombie,
    clock_off,
    killed,
    lost_answer,
    growing,
    wiped,
    log_down,
    outage,
    migrating,
    lives,
    poison,
    versions,
    disk_full,
    deleted,
)
"""Scenarios that change the stage for good come last."""
SLOW = (deleted, ring)
"""Scenarios that take minutes each."""


@dataclass(slots=True, kw_only=True)
class SharedStage:
    """One stage for many scenarios: starting the engines takes longer than most of them."""

    folder: Path
    seed: int
    opened: ExitStack = field(default_factory=ExitStack)
    current: Stage | None = None
    stages: int = 0

    def stage(self, tell: Report) -> Stage:
        if self.current is None:
            self.stages += 1
            self.current = self.opened.enter_context(stage(self.folder / f"stage-{self.stages}", tell, self.seed))
        self.current.tell = tell
        return self.current

    def leave(self) -> None:
        self.current = None
        self.opened.close()


@dataclass(frozen=True, slots=True)
class Scenario:
    module: ModuleType
    shared: SharedStage

    def __call__(self, folder: Path, *, quick: bool, tell: Report) -> list[Figure]:
        sound = False
        try:
            stage = self.shared.stage(tell)
            # A new generator for each scenario, so that its times don't depend on the scenarios before it.
            stage.random = Random(f"{self.module.NAME} {self.shared.seed}")
            finding = self.module.run(stage, quick=quick)
            sound = finding.ok or finding.unit != "wrong"  # a result that is only late leaves the stage correct
        finally:
            if not sound:
                self.shared.leave()
        tell(f"{'ok' if finding.ok else 'FAILED'}: {finding.value} {finding.unit} {finding.detail}")
        return [Figure(finding=finding)]


@dataclass(frozen=True, slots=True)
class IsolatedScenario:
    """A scenario with engines of its own, after the shared stage has ended."""

    module: ModuleType
    shared: SharedStage

    def __call__(self, folder: Path, *, quick: bool, tell: Report) -> list[Figure]:
        self.shared.leave()
        return [Figure(finding=self.module.run(folder, quick=quick, tell=tell, seed=self.shared.seed))]


@contextmanager
def parts(folder: Path, seed: int) -> Iterator[Parts]:
    shared = SharedStage(folder=folder, seed=seed)
    try:
        yield {
            **{module.NAME: (Scenario(module, shared), (module.NAME,)) for module in SHARING},
            ring.NAME: (IsolatedScenario(ring, shared), (ring.NAME,)),
        }
    finally:
        shared.leave()


def quickly(parts_: Parts) -> Parts:
    slow = {module.NAME for module in SLOW}
    return {name: part for name, part in parts_.items() if name not in slow}
