"""Runs the scenarios in order. Most share a stage, which is replaced after a failure."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import ModuleType

from benchmarks.chaos import (
    cassandra_node_down,
    clock_skew,
    disk_full,
    kafka_broker_down,
    lost_cas_answer,
    partitions_grown,
    poison_record,
    pump_takeover,
    redis_wiped,
    rolling_migration,
    schema_ahead_and_behind,
    store_outage,
    topic_deleted,
    ttl_of_every_cell,
    workers_killed,
    zombie_pump,
)
from benchmarks.chaos.scenario_stage import Stage, stage
from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.suite import Parts
from notifier.devkit.check.check_run import Report

SHARING = (
    pump_takeover,
    zombie_pump,
    clock_skew,
    workers_killed,
    lost_cas_answer,
    partitions_grown,
    redis_wiped,
    kafka_broker_down,
    store_outage,
    rolling_migration,
    ttl_of_every_cell,
    poison_record,
    schema_ahead_and_behind,
    disk_full,
    topic_deleted,
)
"""Scenarios that change the stage for good come last."""
SLOW = (topic_deleted, cassandra_node_down)
"""Scenarios that take minutes each."""


@dataclass(slots=True, kw_only=True)
class SharedStage:
    """One stage for many scenarios: starting the engines takes longer than most of them."""

    folder: Path
    seed: int
    opened: ExitStack = field(default_factory=ExitStack)
    current: Stage | None = None
    stage_count: int = 0

    def stage(self, tell: Report) -> Stage:
        if self.current is None:
            self.stage_count += 1
            self.current = self.opened.enter_context(stage(self.folder / f"stage-{self.stage_count}", tell, self.seed))
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
            cassandra_node_down.NAME: (IsolatedScenario(cassandra_node_down, shared), (cassandra_node_down.NAME,)),
        }
    finally:
        shared.leave()


def without_slow(parts_: Parts) -> Parts:
    slow = {module.NAME for module in SLOW}
    return {name: part for name, part in parts_.items() if name not in slow}
