"""What came to the phones of a running notifier, by its fakes' lines; and whose must have rung, by formula."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.fanout.stage import Stage
from notifier.devkit.check.check_alerts import Rang, rang
from notifier.devkit.check.expected import Truth
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member, UserId
from notifier.domain.push.alert import alert

LOOKS_EVERY = 0.02
"""Seconds: a worker is to be caught amid its alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A burst, and everybody whose phone is to ring for it."""

    burst: Burst
    due: frozenset[Member]

    @property
    def place(self) -> str:
        return alert(self.burst).collapse_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    stage: Stage
    tiers: Collection[Tier]

    def mention(self, name: UserId) -> Told:
        """One, accepted, and its burst opened; each is its own where nothing is collapsed."""
        event, _ = self.stage.mention(name)
        key = self.stage.burst_of(event)
        burst = self.stage.ports.bursts.read([key])[key]
        return Told(burst=burst, due=self._due(burst))

    def lines(self) -> Sequence[Rang]:
        file = self.stage.instance.data / "alerts.ndjson"
        return list(rang([file])) if file.exists() else []

    def of(self, told: Told) -> Sequence[Rang]:
        return [line for line in self.lines() if line.place == told.place]

    def people(self, told: Told) -> frozenset[Member]:
        """Whose phones rang for it."""
        return frozenset(line.member for line in self.of(told) if line.member is not None)

    def wait(self, what: Callable[[], bool], within: float, words: str) -> None:
        """Raises TimeoutError."""
        deadline = time.monotonic() + within
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{words}: not within {within:g} s.")
            time.sleep(LOOKS_EVERY)

    def _due(self, burst: Burst) -> frozenset[Member]:
        world = self.stage.world
        truth = Truth(world=world, facts=[], bursts={})
        found = set[int]()
        for shard in range(world.shards):
            tiers: Mapping[Tier, np.ndarray[tuple[int], np.dtype[np.bool_]]] = truth.tiers(burst, shard)
            for tier in self.tiers:
                found.update((np.flatnonzero(tiers[tier] & truth.phones(shard)) + shard * SHARD_MEMBERS).tolist())
        return frozenset(map(Member, found))
